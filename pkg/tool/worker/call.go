package worker

import (
	"context"
	"time"

	"go.opentelemetry.io/otel/attribute"

	"github.com/crumbmesh/crumbmesh/pkg/crumbs"
	"github.com/crumbmesh/crumbmesh/pkg/fault"
	"github.com/crumbmesh/crumbmesh/pkg/mesh"
	"github.com/crumbmesh/crumbmesh/pkg/secret"
	"github.com/crumbmesh/crumbmesh/pkg/telemetry"
	"github.com/crumbmesh/crumbmesh/pkg/tool"
)

// Delays of a message that is given back.
const (
	// mismatchDelay and mismatchTries bound the wait for a worker that has the
	// version of the tool a call was made for: while a release rolls out both
	// serve one queue.
	mismatchDelay = time.Second
	mismatchTries = 10
	// holderDelay grows with each look at a call whose holder is present, up to
	// holderDelayMax: the queue's bound on deliveries must outlast the holder.
	holderDelay    = time.Second
	holderDelayMax = 10 * time.Second
)

// handle works on one message of the queue; what it returns settles the message.
func (w *Worker) handle(ctx context.Context, d *mesh.Delivery) error {
	ctx = mesh.ExtractTrace(ctx, d.Header)
	call, origin, err := w.read(ctx, d)
	if err != nil {
		return unreadable(d, err)
	}
	a := attempt{key: call.CallID.Attempt(call.Attempt), message: d.Sequence}
	if w.running.isFinished(a) {
		return nil // its result is stored, only the acknowledgement was lost
	}
	inner, cancel, done, ok := w.running.take(ctx, a, call)
	if !ok {
		return mesh.Retry(waitFor(d.Count), fault.New(fault.Unavailable, "call %s is in hand", a.key))
	}
	defer done()
	r := &request{Worker: w, delivery: d, call: call, origin: origin, attempt: a, cancel: cancel, process: ctx, secrets: secret.NewBook(w.conn.Secrets)}
	r.files = &files{store: w.conn.Files(crumbs.AreaToolFile(w.cfg.Group)), run: call.RunID, masker: r.secrets.Masker}
	return r.work(inner)
}

// unreadable gives a message up that nobody can read, and tries later one that
// could not be read now. Its call is ended by the run's own deadline.
func unreadable(d *mesh.Delivery, err error) error {
	switch fault.CodeOf(err) {
	case fault.InvalidMessage, fault.InvalidName, fault.RunNotFound:
		return mesh.Dead(crumbs.RunID(crumbs.Token(d.Subject, 3)), err)
	}
	return err
}

func waitFor(deliveries int) time.Duration {
	return min(time.Duration(deliveries)*holderDelay, holderDelayMax)
}

// request is one delivery of one attempt of a call.
type request struct {
	*Worker
	delivery *mesh.Delivery
	call     crumbs.ToolCall
	origin   crumbs.Event // that carried the call
	attempt  attempt
	cancel   context.CancelCauseFunc // interrupts the handler
	process  context.Context         // ends when this process gives its calls up
	secrets  *secret.Book            // of this call, and of the process
	hold     *mesh.Hold              // the claim, once it is this request's
	files    *files                  // that the call stored
}

// claimKey names the claim of the attempt.
func (r *request) claimKey() string {
	return crumbs.ToolClaim(r.cfg.Group, r.call.CallID, r.call.Attempt)
}

// work decides what the request comes to.
func (r *request) work(ctx context.Context) error {
	if void(r.call, time.Now()) {
		return r.late(ctx)
	}
	s, err := r.find()
	if err != nil && fault.CodeOf(err) != fault.NotAvailable && r.delivery.Count < mismatchTries {
		return mesh.Retry(mismatchDelay, err)
	}
	c := r.context(ctx)
	if err == nil {
		err = r.admit(c, s.tool)
	}
	verdict, claimErr := r.begin()
	switch {
	case claimErr != nil:
		return claimErr
	case verdict != mesh.VerdictRun:
		return r.other(verdict)
	case err != nil:
		// The claim is taken for a refusal too: whoever holds it alone speaks for the call.
		return r.answer(r.failed(err))
	}
	return r.answer(r.execute(c, s.tool))
}

// find returns what a call is for. It fails with TOOL_NOT_FOUND when this worker does
// not have the tool, TOOL_LOST naming both versions when it has another one, and
// NOT_AVAILABLE for a kind that it does not know.
func (r *request) find() (served, error) {
	if !known(r.call.Kind) {
		return served{}, fault.New(fault.NotAvailable, "calls of kind %q are not built in this version", r.call.Kind)
	}
	s, ok := r.tools.find(wanted(r.call), r.call.ToolHash)
	switch {
	case s.hash == "":
		return s, fault.New(gone(r.call.Kind), "worker %s of group %s does not serve the %s %q; start one that does", r.cfg.Name, r.cfg.Group, r.call.Kind, r.call.Handler)
	case !ok:
		return s, fault.New(fault.ToolLost, "the call is for version %s of %q, worker %s of group %s serves version %s; start workers of one version, or the run again",
			r.call.ToolHash, r.call.Handler, r.cfg.Name, r.cfg.Group, s.hash).
			With("wanted", r.call.ToolHash).With("served", s.hash)
	}
	return s, nil
}

// gone is the code of a call of a kind that nobody serves any more: a tool that is
// gone is told to the model, a program of the run's own is lost to the run.
func gone(kind string) fault.Code {
	if kind == crumbs.KindTool {
		return fault.ToolNotFound
	}
	return fault.ToolLost
}

// admit checks all that must be settled before the claim.
func (r *request) admit(c tool.Context, t tool.Tool) error {
	if err := t.Check(r.call.Args); err != nil {
		return err
	}
	if err := permit(r.call, t, r.cfg.Verify); err != nil {
		return err
	}
	return t.Ready(c)
}

// begin takes the claim. It fails with SHUTTING_DOWN once the worker was told to
// stop: what did not start goes back to the queue. A cancel that comes now does
// not cut the write short, which would leave its outcome open.
func (r *request) begin() (verdict mesh.Verdict, err error) {
	select {
	case <-r.stopping:
		return mesh.VerdictDrop, fault.New(fault.ShuttingDown, "the worker is stopping")
	default:
	}
	ctx, cancel := r.lastWords()
	defer cancel()
	verdict, r.hold, err = r.claims.Begin(ctx, mesh.Start{
		Key: r.claimKey(), Worker: r.cfg.Name, MessageSeq: r.attempt.message, Effect: effectOf(r.call),
		Past: !time.Now().Before(r.call.DeadlineAt.Time), Alive: r.holderAlive,
	})
	return verdict, err
}

// holderAlive reports whether the holder of a started claim may still answer.
// This process would have the call in hand, or remember it as finished.
func (r *request) holderAlive(ctx context.Context, holder string) (bool, error) {
	if holder == r.cfg.Name {
		return false, nil
	}
	return r.conn.Alive(ctx, crumbs.ToolPresence(r.cfg.Group, holder))
}

// other carries out a verdict that is not to run.
func (r *request) other(v mesh.Verdict) error {
	switch v {
	case mesh.VerdictWait:
		return mesh.Retry(waitFor(r.delivery.Count), fault.New(fault.Unavailable, "the holder of call %s is present", r.attempt.key))
	case mesh.VerdictUnknown:
		claim, err := r.claims.Get(r.process, r.claimKey())
		if err != nil {
			return err
		}
		return r.answer(r.orphaned(claim))
	case mesh.VerdictPoison:
		lost := fault.New(fault.ToolLost, "call %s was started %d times and never finished; `crumb dead list` has its message", r.call.CallID, mesh.StartsMax)
		if err := r.answer(r.failed(lost)); err != nil {
			return err
		}
		return mesh.Dead(r.call.RunID, lost)
	}
	return nil
}

// late drops a request that may not start any more. Only a call that must not
// happen twice and was started by this very message still owes its outcome.
func (r *request) late(ctx context.Context) error {
	if effectOf(r.call) != crumbs.EffectOnce {
		return nil
	}
	claim, err := r.claims.Get(ctx, r.claimKey())
	if err != nil {
		return err
	}
	if claim.State != mesh.ClaimStarted || claim.MessageSeq != r.attempt.message {
		return nil
	}
	verdict, err := r.begin()
	if err != nil {
		return err
	}
	return r.other(verdict)
}

// context is what the handler knows of the call.
func (r *request) context(ctx context.Context) tool.Context {
	call := r.call
	c := tool.Context{
		Context: ctx, AgentID: call.AgentID, RunID: call.RunID, SessionID: call.SessionID, CallID: call.CallID,
		Attempt: call.Attempt, ToolName: call.ToolName, Hook: call.Hook, Files: r.files,
		Timeout: time.Duration(call.TimeoutMs) * time.Millisecond, IdleTimeout: time.Duration(call.IdleTimeoutMs) * time.Millisecond,
		Secrets: r.secrets, Logger: r.conn.Log.With("run", call.RunID, "call", call.CallID, "tool", call.ToolName),
	}
	if call.Context != nil {
		c.Principal, c.Goal = call.Context.Principal, call.Context.Goal
	}
	return c
}

// execute runs the handler. It returns after every partial is stored or given up.
func (r *request) execute(c tool.Context, t tool.Tool) outcome {
	if err := context.Cause(c); err != nil {
		// Cancelled before the handler: nothing happened, whatever the effect.
		return outcome{status: crumbs.StatusCancelled, worker: r.cfg.Name, fault: fault.From(errCancelled()), interrupted: true, untouched: true}
	}
	started := time.Now()
	ctx, span := telemetry.StartExecution(c.Context, r.conn.Tracer, r.spanName(), r.execution())
	defer span.End()
	span.SetAttributes(r.spanAttributes()...)
	span.SetAttributes(attribute.String("gen_ai.agent.id", string(r.call.AgentID)),
		attribute.String("crumbmesh.run.id", string(r.call.RunID)), attribute.Int("crumbmesh.delivery", r.delivery.Count))
	ctx, stop := context.WithDeadline(ctx, r.call.DeadlineAt.Time)
	defer stop()
	unwatch := r.watch(ctx)
	defer unwatch()
	c.Context = ctx
	p := newPartials(r.Worker, r.call)
	result, err := t.Run(c, r.call.Args, p.send)
	o := outcome{status: crumbs.StatusOK, worker: r.cfg.Name, result: result}
	if err != nil {
		o = r.failed(err)
		span.RecordError(o.fault)
	}
	o.started, o.took, o.deltas = started, time.Since(started), p.settle()
	o.partials, o.omitted, o.files = p.kept, p.omitted, r.files.list()
	r.took.Record(ctx, o.took.Seconds(), r.call.ToolName, r.cfg.Group, o.status)
	return o
}

// spanName is what a trace calls this start.
func (r *request) spanName() string {
	switch r.call.Kind {
	case crumbs.KindHook:
		return "run_hook " + r.call.Hook.Name
	case crumbs.KindParse:
		return "parse_output " + r.call.Handler
	}
	return "execute_tool " + r.call.ToolName
}

func (r *request) spanAttributes() []attribute.KeyValue {
	switch r.call.Kind {
	case crumbs.KindHook:
		return []attribute.KeyValue{attribute.String("crumbmesh.hook.name", r.call.Hook.Name), attribute.String("crumbmesh.hook.point", r.call.Hook.Point),
			attribute.String("crumbmesh.call.id", string(r.call.CallID))}
	case crumbs.KindParse:
		return []attribute.KeyValue{attribute.String("crumbmesh.call.id", string(r.call.CallID))}
	}
	return []attribute.KeyValue{attribute.String("gen_ai.operation.name", "execute_tool"), attribute.String("gen_ai.tool.name", r.call.ToolName),
		attribute.String("gen_ai.tool.call.id", string(r.call.CallID))}
}

// execution is this start, as a trace tells it from others.
func (r *request) execution() telemetry.Execution {
	e := telemetry.Execution{Call: string(r.call.CallID), Attempt: r.call.Attempt, Start: r.hold.Starts()}
	if d := r.call.Permission.Decision; d != nil {
		e.After = string(d.CheckpointID)
	}
	return e
}

// watch reads the claim at each heartbeat and interrupts the handler of a
// revoked one: a lost ctl.cancel costs AckWait/3.
func (r *request) watch(ctx context.Context) (stop func()) {
	return mesh.Every(r.conn.Settings.Heartbeat(), func() {
		claim, err := r.claims.Get(ctx, r.claimKey())
		if err != nil {
			r.conn.Log.DebugContext(ctx, "claim not read", "error", err)
		}
		if claim.State == mesh.ClaimRevoked {
			r.cancel(errCancelled())
		}
	})
}
