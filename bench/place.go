package main

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"sync"

	"github.com/nats-io/nats.go"

	"github.com/crumbmesh/crumbmesh/pkg/crumbs"
	"github.com/crumbmesh/crumbmesh/pkg/mesh"
)

// Names of what the measured runs use.
const (
	group    = "bench"
	provider = "script"
)

// place is a server of its own with the topology of a mesh, and a client that
// hears runs end.
type place struct {
	site    site
	storage storage
	client  *mesh.Conn
	conns   []*mesh.Conn

	mu      sync.Mutex
	waiting map[crumbs.RunID]chan string // by run: told the last token of its terminal crumb
}

// newPlace starts NATS below dir. port is as in embedded.Config.
func newPlace(ctx context.Context, dir, name string, port int, kept storage) (*place, error) {
	dir = filepath.Join(dir, name)
	if err := os.RemoveAll(dir); err != nil {
		return nil, err
	}
	s, err := newSite(dir, port, kept)
	if err != nil {
		return nil, err
	}
	p := &place{site: s, storage: kept, waiting: map[crumbs.RunID]chan string{}}
	if p.client, err = p.connect(ctx, "client"); err != nil {
		return nil, err
	}
	topology := mesh.Topology{Groups: map[string]int{group: 0}, Providers: map[string]int{provider: 0}}
	if err := p.client.Ensure(ctx, topology); err != nil {
		return nil, err
	}
	if _, err := p.client.NATS.Subscribe("crumb.*.*.agent.>", p.onAgentCrumb); err != nil {
		return nil, err
	}
	known, cancel := context.WithTimeout(ctx, runMax)
	defer cancel()
	return p, p.client.NATS.FlushWithContext(known)
}

func (p *place) connect(ctx context.Context, name string) (*mesh.Conn, error) {
	log := slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelWarn}))
	settings := mesh.DevSettings()
	settings.Replicas = max(p.storage.nodes, 1)
	c, err := mesh.Connect(ctx, mesh.ConnectConfig{InProcess: p.site.entrance(), Name: name, Settings: settings, Logger: log.With("service", name)})
	if err == nil {
		p.conns = append(p.conns, c)
	}
	return c, err
}

func (p *place) stop() {
	for _, c := range p.conns {
		c.Close()
	}
	p.site.Stop()
}

// onAgentCrumb hears crumbs as they are published, which costs all rows the same.
func (p *place) onAgentCrumb(m *nats.Msg) {
	const runToken, first, second = 2, 4, 5
	verb := crumbs.Token(m.Subject, first)
	if verb == "run" {
		verb = crumbs.Token(m.Subject, second)
	}
	if verb != "end" && verb != "error" {
		return
	}
	run := crumbs.RunID(crumbs.Token(m.Subject, runToken))
	p.mu.Lock()
	c := p.waiting[run]
	delete(p.waiting, run)
	p.mu.Unlock()
	if c != nil {
		c <- verb
	}
}

// await returns a channel that is told how a run ended.
func (p *place) await(run crumbs.RunID) <-chan string {
	c := make(chan string, 1)
	p.mu.Lock()
	p.waiting[run] = c
	p.mu.Unlock()
	return c
}

// finish publishes a request and waits for the end of its run.
func (p *place) finish(ctx context.Context, run crumbs.RunID, request *nats.Msg) error {
	ended := p.await(run)
	if _, err := p.client.Publish(ctx, request); err != nil {
		return err
	}
	select {
	case verb := <-ended:
		if verb != "end" {
			return fmt.Errorf("run %s ended with agent:%s", run, verb)
		}
		return nil
	case <-ctx.Done():
		return fmt.Errorf("run %s did not end: %w", run, context.Cause(ctx))
	}
}

// forget drops the deltas: in this process they are part of the heap of all rows.
func (p *place) forget(ctx context.Context) error {
	s, err := p.client.JS.Stream(ctx, crumbs.StreamDeltas)
	if err != nil {
		return err
	}
	return s.Purge(ctx)
}

// bytesOf sums what streams hold.
func (p *place) bytesOf(ctx context.Context, streams ...string) (int64, error) {
	var sum int64
	for _, name := range streams {
		s, err := p.client.JS.Stream(ctx, name)
		if err != nil {
			return 0, err
		}
		sum += int64(s.CachedInfo().State.Bytes)
	}
	return sum, nil
}

// durable are the streams on disk that a run writes to and that keep what it wrote.
func durable() []string {
	return []string{crumbs.StreamRequests, crumbs.StreamInbox, crumbs.StreamTimers, crumbs.StreamModelCalls, crumbs.StreamToolCalls,
		crumbs.StreamCrumbs, "KV_" + crumbs.BucketRuns, "KV_" + crumbs.BucketClaims, "KV_" + crumbs.BucketApprovals}
}
