package orchestrator

import (
	"context"
	"errors"

	"golang.org/x/sync/errgroup"

	"github.com/crumbmesh/crumbmesh/pkg/crumbs"
	"github.com/crumbmesh/crumbmesh/pkg/mesh"
	"github.com/crumbmesh/crumbmesh/services/orchestrator/internal/endpoint"
	"github.com/crumbmesh/crumbmesh/services/orchestrator/internal/gauge"
	"github.com/crumbmesh/crumbmesh/services/orchestrator/internal/registry"
	"github.com/crumbmesh/crumbmesh/services/orchestrator/internal/sweep"
	"github.com/crumbmesh/crumbmesh/services/orchestrator/internal/worker"
)

// Run serves until ctx ends, then drains: it stops pulling and finishes the
// messages in hand, at most Config.Grace. It fails with TOPOLOGY_MISSING when the streams are not
// there, naming the command that makes them.
func Run(ctx context.Context, cfg Config, conn *mesh.Conn) error {
	cfg, err := cfg.complete()
	if err != nil {
		return err
	}
	if err := conn.Verify(ctx, needed(), nil); err != nil {
		return err
	}
	if err := conn.AdoptRetention(ctx); err != nil {
		return err
	}
	reg := registry.New(conn)
	watch, stopWatch := context.WithCancel(context.WithoutCancel(ctx))
	defer stopWatch()
	if err := reg.Watch(watch); err != nil {
		return err
	}
	w := worker.New(conn, reg, worker.Config{Timing: cfg.Timing, Verify: cfg.Verify, TrustPrincipal: cfg.TrustPrincipal, Trace: cfg.Trace, At: cfg.At})
	loops, err := bind(ctx, conn, cfg, w)
	if err != nil {
		return err
	}
	stop, err := (&endpoint.Endpoints{Conn: conn, Registry: reg, Verify: cfg.Verify, Timing: cfg.Timing, Full: w.Full}).Serve()
	if err != nil {
		return err
	}
	defer stop()
	defer gauge.Serve(conn)()
	var group errgroup.Group
	for _, l := range loops {
		group.Go(func() error { return l.Run(ctx) })
	}
	standing := conn.Standing(needed(), map[string][]string{crumbs.StreamRequests: {mesh.ConsumerRequests}, crumbs.StreamInbox: {mesh.ConsumerEvents}, crumbs.StreamTimers: {mesh.ConsumerTimers}})
	group.Go(func() error { standing.Run(ctx); return nil })
	group.Go(func() error { return sweep.New(conn, reg, cfg.SweepEvery).Run(ctx) })
	healthy := func() error { return errors.Join(standing.Health(), health(conn, w, loops)) }
	conn.Report(healthy)
	if cfg.Health != nil {
		cfg.Health(healthy)
	}
	if cfg.Ready != nil {
		cfg.Ready()
	}
	return group.Wait()
}

// needed are the streams beside those that the consumers are of. The orchestrator's
// role may look at streams.
func needed() (all []mesh.Need) {
	for _, stream := range []string{crumbs.StreamCrumbs, crumbs.StreamToolCalls, crumbs.StreamModelCalls, crumbs.StreamBlobs, crumbs.StreamDead,
		"KV_" + crumbs.BucketRuns, "KV_" + crumbs.BucketClaims, "KV_" + crumbs.BucketAgents, "KV_" + crumbs.BucketTools, "KV_" + crumbs.BucketWorkers} {
		all = append(all, mesh.Need{Stream: stream})
	}
	return all
}

func bind(ctx context.Context, conn *mesh.Conn, cfg Config, w *worker.Worker) ([]*mesh.Loop, error) {
	var loops []*mesh.Loop
	for _, c := range []mesh.ConsumeConfig{
		{Stream: crumbs.StreamRequests, Consumer: mesh.ConsumerRequests, Capacity: cfg.RequestCapacity, Grace: cfg.Grace},
		{Stream: crumbs.StreamInbox, Consumer: mesh.ConsumerEvents, Capacity: cfg.EventCapacity, Grace: cfg.Grace},
		{Stream: crumbs.StreamTimers, Consumer: mesh.ConsumerTimers, Capacity: cfg.EventCapacity, Grace: cfg.Grace},
	} {
		l, err := conn.NewLoop(ctx, c, w.Handle)
		if err != nil {
			return nil, err
		}
		l.BeforeGivingUp(w.GiveUp)
		loops = append(loops, l)
	}
	return loops, nil
}

func health(conn *mesh.Conn, w *worker.Worker, loops []*mesh.Loop) error {
	errs := []error{conn.Health(), w.Health()}
	for _, l := range loops {
		errs = append(errs, l.Health())
	}
	return errors.Join(errs...)
}
