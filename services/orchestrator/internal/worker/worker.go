package worker

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"runtime/debug"
	"sync/atomic"
	"time"

	"github.com/crumbmesh/crumbmesh/pkg/crumbs"
	"github.com/crumbmesh/crumbmesh/pkg/fault"
	"github.com/crumbmesh/crumbmesh/pkg/mesh"
	"github.com/crumbmesh/crumbmesh/services/orchestrator/internal/core"
	"github.com/crumbmesh/crumbmesh/services/orchestrator/internal/registry"
)

// Point names a line of the loop after which a test may crash the process.
type Point string

// The points, in the order of the loop.
const (
	PointRead      Point = "read"      // the record is read, nothing done
	PointHelped    Point = "helped"    // an earlier Outbox is delivered
	PointDecided   Point = "decided"   // decided, not written
	PointWritten   Point = "written"   // written, nothing sent
	PointCommands  Point = "commands"  // commands sent, no crumb
	PointCrumb     Point = "crumb"     // after each crumb
	PointDelivered Point = "delivered" // all sent, the message not acknowledged
	PointTrimmed   Point = "trimmed"   // the final record written
)

// Points lists all of them.
func Points() []Point {
	return []Point{PointRead, PointHelped, PointDecided, PointWritten, PointCommands, PointCrumb, PointDelivered, PointTrimmed}
}

const (
	cacheRuns      = 4096             // records kept decoded
	inboxFirst     = time.Second      // a deadline waits this long for the answer that lies in INBOX
	tooNewRetry    = 5 * time.Second  // a record of a newer release
	fullPause      = time.Second      // no new requests while a work queue refuses
	goneAgain      = time.Second      // before a value that is not there is asked for again
	goneTries      = 5                // deliveries until it counts as gone
	fullTold       = 5 * time.Second  // after a refusal clients are told: refused commands come back less and less often
	conflictsMax   = 64               // lost compare-and-sets of one message before it is given back
	admissionWait  = 5 * time.Second  // for workers of a tool that is not announced yet
	startingWait   = 10 * time.Minute // for one that is being built or started
	admissionAsk   = 500 * time.Millisecond
	admissionTries = 8 // of a request that meets a fault of ours
)

// Config is what the loop needs beside the mesh.
type Config struct {
	Timing         core.Timing
	Verify         func(crumbs.Decision) error // signature of a decision
	TrustPrincipal bool                        // believe bare principal claims (`crumb dev`)
	Trace          bool                        // runs without a traced request get a trace of their own
	At             func(Point, crumbs.RunID)   // fault points; nil in production
}

// Worker decides about runs.
type Worker struct {
	conn     *mesh.Conn
	cfg      Config
	registry *registry.Registry
	runs     *mesh.Bucket
	claims   *mesh.Claims
	blobs    *mesh.Blobs // values of records, transcripts, model calls
	bodies   *mesh.Blobs // of crumbs: whoever follows reads them
	cache    *cache
	locks    *locks
	log      *slog.Logger
	measured *measured

	fullSince atomic.Int64 // when a work queue refused last, unix nanoseconds
	tooNew    atomic.Int64 // records of a newer release met
}

// New returns a worker.
func New(conn *mesh.Conn, reg *registry.Registry, cfg Config) *Worker {
	if cfg.At == nil {
		cfg.At = func(Point, crumbs.RunID) {}
	}
	return &Worker{conn: conn, cfg: cfg, registry: reg, runs: conn.Bucket(crumbs.BucketRuns), claims: conn.Claims(),
		blobs: conn.Blobs(crumbs.AreaCore), bodies: conn.Blobs(crumbs.AreaCrumb), cache: newCache(cacheRuns), locks: newLocks(), log: conn.Log, measured: newMeasured(conn.Meter)}
}

// Health returns STATE_TOO_NEW once a record of a newer release was met.
func (w *Worker) Health() error {
	if n := w.tooNew.Load(); n > 0 {
		return fault.New(fault.StateTooNew, "%d events met records of a newer release; upgrade this process", n)
	}
	return nil
}

// Full returns QUEUE_FULL while the work queues refuse: who asks for a run then is
// told, instead of waiting behind all that was taken before.
func (w *Worker) Full() error {
	if !w.refused(fullTold) {
		return nil
	}
	full := fault.New(fault.QueueFull, "the queues of model and tool calls are full: the mesh takes no new runs now; try again later")
	full.RetryAfterMs = mesh.QueueFullRetry.Milliseconds()
	return full
}

// refused reports whether a work queue refused a command within d.
func (w *Worker) refused(d time.Duration) bool {
	return time.Since(time.Unix(0, w.fullSince.Load())) < d
}

// Handle decides one message of any of the orchestrator's consumers.
func (w *Worker) Handle(ctx context.Context, d *mesh.Delivery) error {
	in, err := w.decode(ctx, d)
	if err != nil {
		return err
	}
	if in.kind == core.Requested && w.refused(fullPause) {
		return mesh.Retry(fullPause, fault.New(fault.QueueFull, "a work queue refuses"))
	}
	unlock, err := w.locks.lock(ctx, in.run)
	if err != nil {
		return err
	}
	defer unlock()
	for range conflictsMax {
		again, err := w.step(ctx, in)
		if err != nil || !again {
			return w.explain(ctx, err)
		}
	}
	return fault.New(fault.Unavailable, "run %s: lost %d compare-and-sets in a row", in.run, conflictsMax)
}

// explain turns faults of the queues into what settles the message.
func (w *Worker) explain(ctx context.Context, err error) error {
	switch fault.CodeOf(err) {
	case fault.QueueFull:
		w.measured.queueFull.Add(ctx, 1)
		w.fullSince.Store(time.Now().UnixNano())
	case fault.StateTooNew:
		w.tooNew.Add(1)
		return mesh.Retry(tooNewRetry, err)
	}
	return err
}

// step is one pass of the loop; again asks for another one on fresh state.
func (w *Worker) step(ctx context.Context, in *incoming) (again bool, err error) {
	e, err := w.load(ctx, in)
	if err != nil {
		return w.undecodable(ctx, in, e, err)
	}
	w.cfg.At(PointRead, in.run)
	if err := w.help(ctx, e, in); err != nil {
		return false, err
	}
	w.cfg.At(PointHelped, in.run)
	next, err := w.decide(ctx, e, in)
	if err != nil {
		return false, err
	}
	if next.Decision == e.state.Decision {
		if e.cached {
			w.cache.drop(in.run)
			return true, nil
		}
		return false, w.unchanged(ctx, e, in)
	}
	w.cfg.At(PointDecided, in.run)
	written, err := w.write(ctx, e, next)
	if errors.Is(err, mesh.ErrConflict) {
		w.measured.conflicts.Add(ctx, 1, string(in.kind))
		w.cache.drop(in.run)
		return true, nil
	}
	if err != nil {
		w.cache.drop(in.run)
		return false, err
	}
	w.measured.decided(ctx, in.event, e.state, written.state)
	w.cache.put(in.run, written)
	w.cfg.At(PointWritten, in.run)
	if err := w.deliver(ctx, written, in); err != nil {
		return false, err
	}
	w.traceWaits(written.state)
	w.cfg.At(PointDelivered, in.run)
	return false, w.trim(ctx, written)
}

// entry is a run's record as this process knows it.
type entry struct {
	state     core.State
	revision  uint64
	raw       []byte // the record as read, when it does not decode
	header    map[string][]string
	delivered bool // this process saw the Outbox delivered
	cached    bool
}

// load takes a record from the cache or reads it through the leader. A request is
// most often the first its run hears of: it is decided as such, and the
// compare-and-set finds out.
func (w *Worker) load(ctx context.Context, in *incoming) (*entry, error) {
	if e, ok := w.cache.get(in.run); ok {
		return e, nil
	}
	if in.kind == core.Requested && in.delivery.Count == 1 && !in.read {
		in.read = true
		return &entry{cached: true}, nil
	}
	r, err := w.runs.Get(ctx, string(in.run))
	if err != nil {
		return nil, err
	}
	e := &entry{revision: r.Revision, raw: r.Value, header: r.Header}
	if !r.Exists() {
		return e, nil
	}
	e.state, err = core.Decode(r.Value)
	return e, err
}

// help delivers an Outbox that this process has not seen delivered, however old
// it is and whoever wrote it: no Outbox is ever overwritten undelivered.
func (w *Worker) help(ctx context.Context, e *entry, in *incoming) error {
	if !e.state.Exists() || e.delivered {
		return nil
	}
	o := e.state.Outbox
	if n := len(o.Crumbs); n > 0 {
		last, err := w.lastCrumb(ctx, e.state)
		if err != nil {
			return err
		}
		if last.Seq >= e.state.Seq { // the receipt for the whole Outbox
			e.state.Fence, e.delivered = last, true
			return nil
		}
		e.state.Fence = last
	}
	w.measured.helped.Add(ctx, 1)
	return w.deliver(ctx, e, in)
}

// decide builds the event and applies it. A panic, or a decision that cannot be
// recorded, is decided as the event Broken; if that fails too the record is
// replaced by a terminal one.
func (w *Worker) decide(ctx context.Context, e *entry, in *incoming) (core.State, error) {
	pinned, err := w.pinned(ctx, e.state)
	if err != nil && !gone(err) {
		return core.State{}, err
	}
	event := in.event
	if err == nil {
		if event, pinned, err = w.event(ctx, e, in, pinned); err != nil {
			return core.State{}, err
		}
		var next core.State
		if next, err = w.apply(ctx, pinned, e.state, event); err == nil || unanswered(err) {
			return next, err
		}
		if fault.CodeOf(err) == fault.RunNotFound && in.delivery != nil && in.delivery.Count < goneTries {
			return core.State{}, mesh.Retry(goneAgain, err) // perhaps a replica that lags answered
		}
	}
	w.measured.failures.Add(ctx, 1, string(event.Kind))
	w.log.ErrorContext(ctx, "decision failed", "run", in.run, "event", event.Kind, "error", err)
	if !e.state.Exists() {
		return core.State{}, mesh.Dead(in.run, err)
	}
	broken := core.Event{Kind: core.Broken, At: event.At, Now: crumbs.At(time.Now()), Broken: fault.From(err)}
	if broken.Claims, err = w.revoke(ctx, core.Settles(pinned, e.state, broken)); err != nil {
		return core.State{}, err
	}
	next, err := w.apply(ctx, pinned, e.state, broken)
	if err == nil || unanswered(err) {
		return next, err
	}
	record, encodeErr := e.state.Encode()
	if encodeErr != nil {
		return core.State{}, encodeErr
	}
	if err := w.bury(ctx, in.run, record, e.revision, err); err != nil {
		return core.State{}, err
	}
	return w.terminal(e, in, event.At), nil
}

// apply decides, with the values that the decision asks for. It fails with
// UNAVAILABLE when one cannot be read now, RUN_NOT_FOUND when it is gone: then the
// run cannot go on.
func (w *Worker) apply(ctx context.Context, p core.Pinned, s core.State, e core.Event) (core.State, error) {
	for e.Blobs = map[string][]byte{}; ; {
		next, err := safely(p, s, e)
		var missing *core.Missing
		if !errors.As(err, &missing) {
			return next, err
		}
		for _, name := range missing.Names {
			if e.Blobs[name], err = w.blobs.Get(ctx, name); err != nil {
				return core.State{}, err
			}
		}
	}
}

// unanswered reports a fault of the mesh itself, which says nothing of the run.
func unanswered(err error) bool {
	switch fault.CodeOf(err) {
	case fault.Unavailable, fault.ShuttingDown, fault.TopologyMissing:
		return true
	}
	return false
}

// gone reports whether what a run is pinned to cannot be read, now or later: such
// a run cannot go on.
func gone(err error) bool {
	code := fault.CodeOf(err)
	return code == fault.AgentNotFound || code == fault.InternalError
}

// lost reports whether a value that the run refers to is not there any more.
func lost(err error) bool { return fault.CodeOf(err) == fault.RunNotFound }

// safely is the message boundary of the pure core.
func safely(p core.Pinned, s core.State, e core.Event) (next core.State, err error) {
	defer func() {
		if r := recover(); r != nil {
			err = fault.Wrap(fault.InternalError, fmt.Errorf("%v\n%s", r, debug.Stack()), "deciding %q failed", e.Kind)
		}
	}()
	return core.Decide(p, s, e)
}

// write stores blobs, then the State with its Outbox, by compare-and-set.
func (w *Worker) write(ctx context.Context, e *entry, next core.State) (*entry, error) {
	bodies := map[string]bool{}
	for _, c := range next.Outbox.Crumbs {
		bodies[c.Body.Ref] = true
	}
	for _, b := range next.Blobs {
		area := w.blobs
		if bodies[b.Name] {
			area = w.bodies
		}
		if err := area.Put(ctx, b.Name, b.Data); err != nil {
			return nil, err
		}
	}
	next.Fence = e.state.Fence
	body, err := next.Encode()
	if err != nil {
		return nil, err
	}
	var ttl time.Duration
	if next.Run.Tombstone {
		ttl = w.conn.Settings.TombstoneTTL
	}
	rev, err := w.runs.Set(ctx, mesh.Write{Key: string(next.Run.ID), Value: body, Revision: e.revision, TTL: ttl, Header: next.Head()})
	if err != nil {
		return nil, err
	}
	next.Blobs = nil
	return &entry{state: next, revision: rev}, nil
}

// unchanged settles a message that changes nothing on a fresh read.
func (w *Worker) unchanged(ctx context.Context, e *entry, in *incoming) error {
	w.measured.lateResult(ctx, in)
	if e.state.Exists() && !e.state.Status.Ended() {
		w.cache.put(in.run, e)
	}
	if in.kind == core.Requested && e.state.Run.RequestHash != in.requestHash {
		return mesh.Dead(in.run, fault.New(fault.RunConflict, "run id %s was used before with another request", in.run))
	}
	return w.trim(ctx, e)
}

// trim writes the record of an ended run once more, without Outbox and
// transcript, to live as long as its id is an idempotency key. Whoever wins
// emits the run's root span.
func (w *Worker) trim(ctx context.Context, e *entry) error {
	s := e.state
	if !s.Status.Ended() || s.Run.Tombstone || len(s.Outbox.Crumbs)+len(s.Outbox.Intents) == 0 {
		return nil
	}
	final := s.Final()
	body, err := final.Encode()
	if err != nil {
		return err
	}
	w.cache.drop(s.Run.ID) // hardly anything comes for an ended run; thousands of them would only be garbage to mark
	_, err = w.runs.Set(ctx, mesh.Write{Key: string(s.Run.ID), Value: body, Revision: e.revision, TTL: w.conn.Settings.RunTTL, Header: final.Head()})
	if errors.Is(err, mesh.ErrConflict) {
		return nil
	}
	if err != nil {
		return err
	}
	w.cfg.At(PointTrimmed, s.Run.ID)
	w.traceRun(s)
	return nil
}
