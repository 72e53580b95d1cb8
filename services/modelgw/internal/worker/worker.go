package worker

import (
	"context"
	"iter"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/nats-io/nats.go/jetstream"
	"go.opentelemetry.io/otel/trace"

	"github.com/crumbmesh/crumbmesh/pkg/crumbs"
	"github.com/crumbmesh/crumbmesh/pkg/fault"
	"github.com/crumbmesh/crumbmesh/pkg/mesh"
	"github.com/crumbmesh/crumbmesh/services/modelgw/internal/lru"
	"github.com/crumbmesh/crumbmesh/services/modelgw/internal/turn"
)

// Bounds of what a Worker remembers.
const (
	segmentBytesMax = 64 << 20 // of the encoded segments in the cache, each with what a model is shown of it
	answeredMax     = 10_000   // attempts whose lost acks are recognised
)

// Adapter generates the turns of one provider instance.
//
// Generate yields the pieces of one turn, then Done. A model is sent the prompt of
// the request, in which what tools returned is fenced, in its order. An error
// ends the turn: *turn.Failure says whether another attempt may work. When ctx
// ends it stops soon, with any error. A panic fails this turn only.
type Adapter interface {
	Generate(ctx context.Context, r turn.Request) iter.Seq2[turn.Event, error]
}

// Deps are what a Worker needs.
type Deps struct {
	Conn     *mesh.Conn
	Adapters map[string]Adapter // by provider instance; crumbs.ProviderOwn of all that agents have of their own
	Tracer   trace.Tracer
}

// Worker serves the queues of any number of provider instances.
type Worker struct {
	conn     *mesh.Conn
	live     jetstream.JetStream // of deltas
	claims   *mesh.Claims
	blobs    *mesh.Blobs // calls and segments, as the orchestrator wrote them
	adapters map[string]Adapter
	tracer   trace.Tracer
	flights  *flights
	segments *lru.Cache[string, segment]
	answered *lru.Cache[string, uint64] // attempt → sequence of its request
	measured *measured
}

// New returns a Worker. It fails with UNAVAILABLE when the connection is closed.
func New(d Deps) (*Worker, error) {
	live, err := newLive(d.Conn)
	if err != nil {
		return nil, err
	}
	return &Worker{
		conn: d.Conn, live: live, claims: d.Conn.Claims(), blobs: d.Conn.Blobs(crumbs.AreaCore), adapters: d.Adapters, tracer: d.Tracer,
		flights:  newFlights(),
		segments: lru.New[string, segment](segmentBytesMax),
		answered: lru.New[string, uint64](answeredMax),
		measured: newMeasured(d.Conn.Meter),
	}, nil
}

// Handler returns the handler of one provider instance's queue; id names this
// worker in claims.
func (w *Worker) Handler(queue, id string) mesh.Handler {
	return func(ctx context.Context, d *mesh.Delivery) error {
		j, err := w.read(ctx, d)
		if err != nil {
			return err
		}
		j.queue, j.worker = queue, id
		return w.handle(mesh.ExtractTrace(ctx, d.Header), j)
	}
}

// handle is the life of one request. Whatever can fail without the provider
// being asked is settled before the claim, which is taken directly before.
func (w *Worker) handle(ctx context.Context, j *job) error {
	if seq, ok := w.answered.Get(j.key()); ok && seq == j.sequence {
		return nil // only its ack was lost
	}
	if !time.Now().Before(j.call.StartBefore.Time) {
		w.conn.Log.InfoContext(ctx, "model call is void", "call", j.call.CallID, "attempt", j.call.Attempt, "startBefore", j.call.StartBefore)
		return nil
	}
	adapter, ok := w.adapters[j.provider()]
	if !ok {
		return w.answer(ctx, j, j.failed(w.unserved(j.call.Model.Provider), false))
	}
	if err := w.assemble(ctx, j); err != nil {
		if transient(err) {
			return err
		}
		return w.answer(ctx, j, j.failed(fault.From(err), false))
	}
	f, ok := w.flights.enter(ctx, j)
	if !ok {
		return mesh.Retry(w.conn.Settings.AckWait, fault.New(fault.Unavailable, "attempt %s still runs in this process", j.key()))
	}
	defer w.flights.leave(f)
	return w.claim(ctx, f, adapter)
}

// claim runs the call if its claim is this worker's.
func (w *Worker) claim(ctx context.Context, f *flight, adapter Adapter) error {
	j := f.job
	verdict, hold, err := w.claims.Begin(ctx, mesh.Start{
		Key: j.claimKey(), Worker: j.worker, MessageSeq: j.sequence, Effect: crumbs.EffectIdempotent,
		Past: !time.Now().Before(j.call.DeadlineAt.Time), Alive: w.alive(j.queue),
	})
	if err != nil {
		return err
	}
	switch verdict {
	case mesh.VerdictRun:
		return w.run(ctx, f, hold, adapter)
	case mesh.VerdictPoison:
		return w.giveUp(ctx, j)
	case mesh.VerdictWait:
		return mesh.Retry(w.conn.Settings.AckWait, fault.New(fault.Unavailable, "attempt %s is held by another gateway", j.key()))
	default: // dropped: a second request, or revoked; `unknown` is no verdict on an idempotent call
		w.conn.Log.DebugContext(ctx, "model call dropped", "call", j.call.CallID, "attempt", j.call.Attempt)
		return nil
	}
}

// alive reports whether another gateway of an instance is present.
func (w *Worker) alive(provider string) func(context.Context, string) (bool, error) {
	return func(ctx context.Context, worker string) (bool, error) {
		return w.conn.Alive(ctx, crumbs.ModelPresence(provider, worker))
	}
}

// run generates the turn and stores its result. Only a shutdown leaves the
// request to another gateway, and gives the claim back to it.
func (w *Worker) run(ctx context.Context, f *flight, hold *mesh.Hold, adapter Adapter) error {
	callCtx, span := w.startSpan(f.ctx, f.job, hold.Starts())
	defer span.End()
	unwatch := w.watch(callCtx, f)
	defer unwatch()
	result, err := w.generate(callCtx, f.job, adapter)
	f.stop(nil)
	if err != nil {
		if result, err = w.giveBack(ctx, f.job, hold, err); err != nil {
			return err
		}
	}
	result = masked(w.conn.Secrets.Masker(), result)
	describe(span, result)
	w.measured.answered(ctx, f.job.call, result)
	if err = w.answer(trace.ContextWithSpan(ctx, span), f.job, result); err != nil && ctx.Err() != nil {
		last, cancel := lastWords(trace.ContextWithSpan(ctx, span))
		defer cancel()
		err = w.answer(last, f.job, result) // paid for: not to be asked again
	}
	return err
}

// giveBack takes the start back, so that it costs the call nothing, and returns
// cause, which sends the request to another gateway at once. Of a call that was
// revoked meanwhile it returns the result instead.
func (w *Worker) giveBack(ctx context.Context, j *job, hold *mesh.Hold, cause error) (crumbs.ModelResult, error) {
	ctx, cancel := lastWords(ctx)
	defer cancel()
	back, err := w.claims.GiveBack(ctx, hold)
	switch {
	case err != nil:
		w.conn.Log.WarnContext(ctx, "claim not given back; the start counts", "call", j.call.CallID, "attempt", j.call.Attempt, "error", err)
	case !back:
		claim, err := w.claims.Get(ctx, j.claimKey())
		if err == nil && claim.State == mesh.ClaimRevoked {
			return j.cancelled(), nil
		}
	}
	return crumbs.ModelResult{}, cause
}

// lastWordsMax is how long a process that gives its calls up still tries to store
// a result, or to give a claim back.
const lastWordsMax = 5 * time.Second

func lastWords(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeout(context.WithoutCancel(ctx), lastWordsMax)
}

// giveUp ends a call that was started StartsMax times and never finished.
func (w *Worker) giveUp(ctx context.Context, j *job) error {
	e := fault.New(fault.ModelError, "the model call was started %d times and no gateway lived to finish it; its request is in stream DEADLETTER", mesh.StartsMax)
	if err := w.answer(ctx, j, j.failed(e, false)); err != nil {
		return err
	}
	return mesh.Dead(j.call.RunID, e)
}

func (w *Worker) unserved(provider string) *fault.Error {
	served := slices.DeleteFunc(slices.Sorted(maps.Keys(w.adapters)), func(p string) bool { return p == crumbs.ProviderOwn })
	return fault.New(fault.UnknownProvider, "provider %q is not served by this model gateway: it serves %s; add the instance to `providers` of crumb.yaml or correct the agent's model",
		provider, strings.Join(served, ", ")).With("served", served)
}

// transient reports faults of the mesh itself: the request comes back later.
func transient(err error) bool {
	switch fault.CodeOf(err) {
	case fault.Unavailable, fault.TopologyMissing, fault.ShuttingDown:
		return true
	}
	return false
}
