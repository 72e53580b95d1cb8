package main

import (
	"context"
	"strings"
	"sync"
	"time"

	"github.com/crumbmesh/crumbmesh/test/chaos/internal/check"
	"github.com/crumbmesh/crumbmesh/test/chaos/internal/machine"
	"github.com/crumbmesh/crumbmesh/test/chaos/internal/nemesis"
	"github.com/crumbmesh/crumbmesh/test/chaos/internal/raw"
)

// done is an action that took place.
type done struct {
	nemesis.Action
	From, To time.Time
	Victim   string // process or node that it met
}

// storm carries a plan out.
type storm struct {
	*place
	begin time.Time

	mu      sync.Mutex
	done    []done
	quiet   sync.WaitGroup
	failure error
}

// rage carries out a plan until it is over, and everything is mended.
func (s *storm) rage(ctx context.Context, plan nemesis.Plan) ([]done, error) {
	s.begin = time.Now()
	for _, a := range plan.Actions {
		select {
		case <-ctx.Done():
		case <-time.After(time.Until(s.begin.Add(a.At))):
			s.quiet.Go(func() { s.act(ctx, a) })
		}
	}
	s.quiet.Wait()
	return s.done, s.failure
}

// act does one thing, waits as long as it lasts, and undoes it.
func (s *storm) act(ctx context.Context, a nemesis.Action) {
	from := time.Now()
	victim, err := s.carry(ctx, a)
	s.mu.Lock()
	defer s.mu.Unlock()
	if err != nil && ctx.Err() == nil {
		s.failure = err
		s.say("chaos: %s: %v", a, err)
	}
	if victim == "" {
		s.say("chaos: %s: met nobody", a)
		return
	}
	s.done = append(s.done, done{a, from, time.Now(), victim})
}

func (s *storm) carry(ctx context.Context, a nemesis.Action) (victim string, err error) {
	switch a.Kind {
	case nemesis.KillService:
		return s.process(a.Target).Kill(0), nil
	case nemesis.PauseService:
		return s.process(a.Target).Pause(ctx, a.For), nil
	case nemesis.RollServices:
		return s.roll(ctx), nil
	}
	if strings.HasPrefix(a.Target, nemesis.Leader) {
		a.Target = s.leader(ctx, strings.TrimPrefix(a.Target, nemesis.Leader))
	}
	switch a.Kind {
	case nemesis.KillServer:
		return s.process(a.Target).Kill(a.For), nil
	case nemesis.PauseServer:
		return s.process(a.Target).Pause(ctx, a.For), nil
	case nemesis.RestartServer:
		return s.process(a.Target).Restart(ctx), nil
	case nemesis.Partition:
		h := s.host(a.Target)
		return a.Target, s.between(ctx, a.For, h.Cut, h.Mend)
	case nemesis.Isolate:
		h := s.host(a.Target)
		return a.Target, s.between(ctx, a.For, h.Isolate, h.Join)
	case nemesis.Latency:
		return "all", s.slow(ctx, a)
	case nemesis.Disconnect:
		set := func(on bool) func() error {
			return func() error { return s.proxies.Enable(context.WithoutCancel(ctx), a.Target, on) }
		}
		return a.Target, s.between(ctx, a.For, set(false), set(true))
	}
	return "", nil
}

// between does something and undoes it after a while.
func (s *storm) between(ctx context.Context, d time.Duration, do, undo func() error) error {
	if err := do(); err != nil {
		return err
	}
	select {
	case <-ctx.Done():
	case <-time.After(d):
	}
	return undo()
}

func (s *storm) slow(ctx context.Context, a nemesis.Action) error {
	return s.between(ctx, a.For, func() error { return s.proxies.Slow(ctx, a.Delay, a.Jitter) },
		func() error { return s.proxies.Fast(context.WithoutCancel(ctx)) })
}

// roll restarts one service after the other, each when the one before serves.
func (s *storm) roll(ctx context.Context) string {
	for _, p := range s.services {
		p.Restart(ctx)
	}
	return "all"
}

// leader finds out who leads a stream, the first node when nobody does.
func (s *storm) leader(ctx context.Context, stream string) string {
	if name := raw.Leader(ctx, s.js, stream); name != "" {
		return name
	}
	return s.servers[0].Name
}

func (s *storm) process(name string) *machine.Process {
	for _, all := range [][]*machine.Process{s.services, s.servers} {
		for _, p := range all {
			if p.Name == name {
				return p
			}
		}
	}
	panic("a plan aims at " + name + ", which is no process")
}

func (s *storm) host(name string) *machine.Host {
	for i, p := range s.servers {
		if p.Name == name {
			return s.hosts[i]
		}
	}
	panic("a plan aims at " + name + ", which is no node")
}

// presence is how long a worker that says nothing counts as present.
const presence = 15 * time.Second

// disturbances are the actions that can make the outcome of a call unknown:
// workers that were killed, and a network that kept some from being present.
func disturbances(all []done, workers map[string]string) (out []check.Disturbance) {
	for _, d := range all {
		one := check.Disturbance{Kind: string(d.Kind), From: d.From, To: d.To}
		switch d.Kind {
		case nemesis.KillService:
			one.Worker = workers[d.Victim]
			if one.Worker == "" {
				continue // no worker of tools
			}
			one.To = d.From.Add(time.Second)
		case nemesis.Partition, nemesis.Latency, nemesis.Disconnect:
			one.To = d.To.Add(presence)
		default:
			continue
		}
		out = append(out, one)
	}
	return out
}
