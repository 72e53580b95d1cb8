package modelgw

import (
	"context"
	"errors"
	"slices"

	"golang.org/x/sync/errgroup"

	"github.com/crumbmesh/crumbmesh/pkg/agent"
	"github.com/crumbmesh/crumbmesh/pkg/crumbs"
	"github.com/crumbmesh/crumbmesh/pkg/mesh"
	"github.com/crumbmesh/crumbmesh/services/modelgw/internal/revision"
	"github.com/crumbmesh/crumbmesh/services/modelgw/internal/script"
	"github.com/crumbmesh/crumbmesh/services/modelgw/internal/worker"
)

// Run serves until ctx ends, then lets the calls in hand finish (at most
// Config.Grace) and returns nil. It fails before it serves with INVALID_CONFIG,
// INVALID_NAME, TOPOLOGY_MISSING naming the command that repairs it, or
// UNAVAILABLE. The connection stays open.
func Run(ctx context.Context, cfg Config, conn *mesh.Conn) error {
	cfg, err := cfg.complete()
	if err != nil {
		return err
	}
	served := append(slices.Clone(cfg.Providers), crumbs.ProviderOwn)
	needed := needs(served)
	if err := conn.Verify(ctx, needed, nil); err != nil {
		return err
	}
	w, err := worker.New(worker.Deps{Conn: conn, Adapters: adapters(cfg, conn), Tracer: conn.Tracer})
	if err != nil {
		return err
	}
	unfollow, err := w.FollowCancels(ctx)
	if err != nil {
		return err
	}
	defer unfollow()
	present, leave := context.WithCancel(context.WithoutCancel(ctx))
	var gone []<-chan struct{}
	defer func() { // rows stay until the last call is done
		leave()
		for _, g := range gone {
			<-g
		}
	}()
	var loops errgroup.Group
	var serve []*mesh.Loop
	var queues []string
	for _, provider := range served {
		id := mesh.NewWorkerID(provider)
		loop, err := conn.NewLoop(ctx, mesh.ConsumeConfig{
			Stream: crumbs.StreamModelCalls, Consumer: mesh.ProviderConsumer(provider),
			Capacity: cfg.Slots, DoubleAck: true, Grace: cfg.Grace,
		}, w.Handler(provider, id))
		if err != nil {
			return err
		}
		g, err := conn.Announce(present, mesh.Presence{Worker: id, Service: mesh.ServiceModels, Queue: provider})
		if err != nil {
			return err
		}
		gone, serve, queues = append(gone, g), append(serve, loop), append(queues, mesh.ProviderConsumer(provider))
	}
	for _, loop := range serve {
		loops.Go(func() error { return loop.Run(ctx) })
	}
	standing := conn.Standing(needed, map[string][]string{crumbs.StreamModelCalls: queues})
	loops.Go(func() error { standing.Run(ctx); return nil })
	if cfg.Health != nil {
		cfg.Health(func() error { return errors.Join(standing.Health(), health(conn, serve)) })
	}
	cfg.Ready()
	return loops.Wait()
}

// needs are what a gateway works on beside its queues.
func needs(providers []string) []mesh.Need {
	definitions := mesh.NeedBucket(crumbs.BucketAgents, ">")
	definitions.Leader = true
	p := providers[0] // of one instance as of all: the streams are the same
	return []mesh.Need{
		{Stream: crumbs.StreamInbox, Filter: "model.result." + p + ".*.*"}, {Stream: crumbs.StreamDeltas, Filter: "delta.*.*.text", Live: true},
		{Stream: crumbs.StreamDead, Filter: "dead." + crumbs.StreamModelCalls + "-" + p + ".>"}, {Stream: crumbs.StreamBlobs, Filter: crumbs.BlobFilter(crumbs.AreaModel(p))},
		mesh.NeedBucket(crumbs.BucketClaims, crumbs.ModelKeys(p)+">"), mesh.NeedBucket(crumbs.BucketWorkers, crumbs.ModelKeys(p)+">"), definitions,
	}
}

// health returns why the gateway does not serve, nil when it does.
func health(conn *mesh.Conn, loops []*mesh.Loop) error {
	errs := []error{conn.Health()}
	for _, l := range loops {
		errs = append(errs, l.Health())
	}
	return errors.Join(errs...)
}

// adapters are those of the queues to serve: every instance is of kind script.
func adapters(cfg Config, conn *mesh.Conn) map[string]worker.Adapter {
	revisions := revision.New(conn)
	scripted := script.New(revisions)
	all := map[string]worker.Adapter{crumbs.ProviderOwn: own{revisions, map[string]worker.Adapter{agent.ScriptProvider: scripted}}}
	for _, p := range cfg.Providers {
		all[p] = scripted
	}
	return all
}
