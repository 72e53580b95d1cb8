package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"time"

	"github.com/crumbmesh/crumbmesh/test/chaos/internal/check"
	"github.com/crumbmesh/crumbmesh/test/chaos/internal/load"
	"github.com/crumbmesh/crumbmesh/test/chaos/internal/nemesis"
	"github.com/crumbmesh/crumbmesh/test/chaos/internal/raw"
)

const (
	// settleMax is how long runs may take to end once nothing is done to the mesh
	// any more: a worker that was killed counts as present for 15 s, and a message
	// may be held back for 10.
	settleMax  = 90 * time.Second
	quietPoll  = 500 * time.Millisecond
	acceptMax  = 2 * time.Minute // beyond the length of the load
	violations = 40              // printed at most
)

// play stages a scenario, plays its plan, and judges what came of it.
func play(ctx context.Context, w *workshop, s scenario) (out outcome, err error) {
	begin := time.Now()
	p, err := s.stage(ctx, w)
	if p != nil {
		defer p.close()
	}
	if err != nil {
		return out, err
	}
	plan := p.plan(w.seed, s.length)
	w.say("chaos: %s: %d runs over %v, seed %d, %d actions:\n%s", s.name, s.runs, s.length, w.seed, len(plan.Actions), plan)
	h, all, err := p.endure(ctx, s, plan)
	if err != nil {
		return out, err
	}
	out = outcome{Scenario: s.name, Done: all, Result: check.Check(h), Took: time.Since(begin).Round(time.Second)}
	if len(out.Result.Violations) > 0 {
		if err := p.keepHistory(h); err != nil {
			return out, err
		}
	}
	for i, v := range out.Result.Violations {
		if i == violations {
			w.say("… and %d more", len(out.Result.Violations)-i)
			break
		}
		w.say("VIOLATION %s", v)
	}
	w.say("chaos: %s: %d violations in %v\n%s", s.name, len(out.Result.Violations), out.Took, out.summary())
	return out, nil
}

// keepHistory writes what was judged beside the logs.
func (p *place) keepHistory(h check.History) error {
	text, err := json.Marshal(h)
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(p.dir, "history.json"), text, 0o600)
}

// endure plays load and plan at once, lets the mesh come to rest, and collects
// what stands.
func (p *place) endure(ctx context.Context, s scenario, plan nemesis.Plan) (h check.History, all []done, err error) {
	ctx, cancel := context.WithTimeout(ctx, s.length+acceptMax+settleMax)
	defer cancel()
	l := load.New(load.Config{Seed: p.seed, Prefix: "run_" + s.name[:1], Runs: s.runs, Over: s.length, NATS: p.nc, JS: p.js})
	loaded := make(chan error, 1)
	go func() { loaded <- l.Run(ctx) }()
	all, err = (&storm{place: p}).rage(ctx, plan)
	if err = errors.Join(err, <-loaded); err != nil {
		return h, all, err
	}
	settled, stop := context.WithTimeout(ctx, settleMax)
	defer stop()
	if n := l.Settled(settled); n > 0 {
		accepted, ended := l.Progress()
		p.say("chaos: %d of %d runs have not ended (%d have)", n, accepted, ended)
	}
	h.Requests, h.Answers = l.Requests()
	if err := p.collect(settled, ctx, &h); err != nil {
		return h, all, err
	}
	workers, err := p.workers()
	if err != nil {
		return h, all, err
	}
	h.Effects, h.Disturbances = p.sink.Effects(), disturbances(all, workers)
	if refused := l.Refused(); len(refused) > 0 {
		return h, all, fmt.Errorf("the mesh refused what it should have taken:\n%s", strings.Join(refused, "\n"))
	}
	return h, all, p.exits(&h)
}

// collect reads the streams once the queues are empty, or when time is over.
func (p *place) collect(settled, ctx context.Context, h *check.History) error {
	p.quiet(settled, h)
	var err error
	for stream, to := range map[string]*[]check.Message{"CRUMBS": &h.Crumbs, "KV_claims": &h.Claims, "KV_runs": &h.Records} {
		var one error
		*to, one = raw.All(ctx, p.js, stream)
		err = errors.Join(err, one)
	}
	return err
}

// quiet waits until nothing waits in a queue and every record is in its final form.
func (p *place) quiet(ctx context.Context, h *check.History) {
	for {
		h.Left = map[string]uint64{}
		waiting := uint64(0)
		for _, queue := range []string{"REQUESTS", "INBOX", "MODELCALLS", "TOOLCALLS"} {
			state, err := raw.State(ctx, p.js, queue)
			h.Left[queue] = state.Msgs
			waiting += state.Msgs
			if err != nil {
				waiting++
			}
		}
		if waiting == 0 && p.final(ctx) {
			return
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(quietPoll):
		}
	}
}

// final reports whether the record of every run has its lifetime.
func (p *place) final(ctx context.Context) bool {
	records, err := raw.All(ctx, p.js, "KV_runs")
	for _, r := range records {
		if len(r.Header["Nats-TTL"]) == 0 {
			return false
		}
	}
	return err == nil
}

// workerID is how a tool worker's log names the worker.
var workerID = regexp.MustCompile(`msg=serving .*\bworker=(\S+)`)

// workers finds the id of each worker in the log of its process.
func (p *place) workers() (map[string]string, error) {
	logs, err := filepath.Glob(filepath.Join(p.dir, "logs", "*.log"))
	if err != nil {
		return nil, err
	}
	out := map[string]string{}
	for _, log := range logs {
		text, err := os.ReadFile(log)
		if err != nil {
			return nil, err
		}
		if m := workerID.FindSubmatch(text); m != nil {
			out[strings.TrimSuffix(filepath.Base(log), ".log")] = string(m[1])
		}
	}
	return out, nil
}

// exits adds how processes ended.
func (p *place) exits(h *check.History) error {
	all, err := p.machine.Exits()
	for _, e := range all {
		h.Exits = append(h.Exits, check.Exit{Process: e.Process, Asked: e.Asked, Status: e.Status, Clean: e.Clean})
	}
	return err
}
