package worker

import (
	"context"
	"encoding/json"
	"errors"
	"maps"
	"slices"
	"strings"

	"github.com/crumbmesh/crumbmesh/pkg/crumbs"
	"github.com/crumbmesh/crumbmesh/pkg/fault"
	"github.com/crumbmesh/crumbmesh/pkg/mesh"
	"github.com/crumbmesh/crumbmesh/pkg/telemetry/instrument"
	"github.com/crumbmesh/crumbmesh/pkg/tool"
)

// service is what this package is to the mesh.
const service = mesh.ServiceTools

// Worker serves the tools of one group.
type Worker struct {
	cfg      Config
	conn     *mesh.Conn
	tools    toolbox
	claims   *mesh.Claims
	calls    *mesh.Blobs // bodies of calls that are too large for a message
	results  *mesh.Blobs
	live     *mesh.Blobs // of partial results
	loop     *mesh.Loop
	standing *mesh.Standing
	running  *running
	took     *instrument.Values // of handlers

	stopping <-chan struct{}
}

// New checks the tools and binds to the group's queue. It fails with
// INVALID_CONFIG or INVALID_NAME for a wrong declaration and with
// TOPOLOGY_MISSING, naming the command that repairs it, for a group without a
// queue or a mesh without a stream that the worker needs. Nothing is announced yet.
func New(ctx context.Context, cfg Config, conn *mesh.Conn, tools ...tool.Tool) (*Worker, error) {
	cfg, box, err := cfg.complete(tools)
	if err != nil {
		return nil, err
	}
	w := &Worker{cfg: cfg, conn: conn, tools: box, claims: conn.Claims(), running: newRunning(),
		calls: conn.Blobs(crumbs.AreaCall(cfg.Group)), results: conn.Blobs(crumbs.AreaTool(cfg.Group)), live: conn.Blobs(crumbs.AreaLive(cfg.Group)),
		took: instrument.NewHistogram(conn.Meter, instrument.ToolDuration)}
	needed := needs(cfg.Group)
	if err := conn.Verify(ctx, needed, nil); err != nil {
		return nil, err
	}
	w.standing = conn.Standing(needed, map[string][]string{crumbs.StreamToolCalls: {mesh.GroupConsumer(cfg.Group)}})
	w.loop, err = conn.NewLoop(ctx, mesh.ConsumeConfig{
		Stream: crumbs.StreamToolCalls, Consumer: mesh.GroupConsumer(cfg.Group),
		Capacity: cfg.Slots, DoubleAck: true, Grace: cfg.Grace,
	}, w.handle)
	if err != nil {
		return nil, err
	}
	if cfg.Health != nil {
		cfg.Health(w.Health)
	}
	return w, nil
}

// needs are what a worker of a group works on beside its queue.
func needs(group string) []mesh.Need {
	return []mesh.Need{
		{Stream: crumbs.StreamInbox, Filter: "tool.result." + group + ".*.*"}, {Stream: crumbs.StreamDeltas, Filter: "delta.*.*.tool.partial." + group, Live: true},
		{Stream: crumbs.StreamDead, Filter: "dead." + crumbs.StreamToolCalls + "-" + group + ".>"}, {Stream: crumbs.StreamBlobs, Filter: crumbs.BlobFilter(crumbs.AreaTool(group))},
		mesh.NeedBucket(crumbs.BucketClaims, crumbs.ToolKeys(group)+">"), mesh.NeedBucket(crumbs.BucketWorkers, crumbs.ToolKeys(group)+">"),
		mesh.NeedBucket(crumbs.BucketTools, group+".*.*"),
	}
}

// Run is New and Worker.Run in one.
func Run(ctx context.Context, cfg Config, conn *mesh.Conn, tools ...tool.Tool) error {
	w, err := New(ctx, cfg, conn, tools...)
	if err != nil {
		return err
	}
	return w.Run(ctx)
}

// Name is the id of the worker, as results and claims carry it.
func (w *Worker) Name() string { return w.cfg.Name }

// Health returns why the worker is not serving, nil when it is.
func (w *Worker) Health() error {
	if err := w.conn.Health(); err != nil {
		return err
	}
	return errors.Join(w.standing.Health(), w.loop.Health())
}

// Run announces the tools and serves calls until ctx ends. Then it takes no
// more, lets the calls in hand go on for the grace, interrupts the rest and
// returns when the last is settled. It may be called once.
func (w *Worker) Run(ctx context.Context) error {
	w.stopping = ctx.Done()
	looked := make(chan struct{})
	go func() { defer close(looked); w.standing.Run(ctx) }()
	defer func() {
		if ctx.Err() != nil { // else Run fails, and ctx is the caller's to end
			<-looked
		}
	}()
	if err := w.announce(ctx); err != nil {
		return err
	}
	cancels, err := w.running.listen(ctx, w.conn)
	if err != nil {
		return err
	}
	defer cancels()
	// Present until the last call is settled, not only until ctx ends: a holder
	// that seems gone turns its calls into unknown.
	present, leave := context.WithCancel(context.WithoutCancel(ctx))
	gone, err := w.conn.Announce(present, mesh.Presence{Worker: w.cfg.Name, Service: mesh.ServiceTools, Queue: w.cfg.Group})
	if err != nil {
		leave()
		return err
	}
	defer func() { leave(); <-gone }()
	defer instrument.Observe(w.conn.Meter, func(_ context.Context, set instrument.Set) error {
		set(instrument.ToolsInHand, float64(w.running.count()), w.cfg.Group)
		return nil
	}, instrument.ToolsInHand)()
	w.conn.Log.Info("serving", "group", w.cfg.Group, "worker", w.cfg.Name, "tools", len(w.tools.now), "slots", w.cfg.Slots)
	if w.cfg.Ready != nil {
		w.cfg.Ready()
	}
	return w.loop.Run(ctx)
}

// announce writes what the worker serves into bucket `tools`, where it stays.
func (w *Worker) announce(ctx context.Context) error {
	bucket := w.conn.Bucket(crumbs.BucketTools)
	byKey := func(a, b served) int { return strings.Compare(a.announcement.Key(), b.announcement.Key()) }
	for _, s := range slices.SortedFunc(maps.Values(w.tools.now), byKey) {
		a := s.announcement
		body, err := json.Marshal(a)
		if err != nil {
			return fault.From(err)
		}
		if _, err := bucket.Put(ctx, a.Key(), body); err != nil {
			return err
		}
	}
	return nil
}
