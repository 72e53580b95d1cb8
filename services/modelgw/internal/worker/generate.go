package worker

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"time"

	"github.com/crumbmesh/crumbmesh/pkg/crumbs"
	"github.com/crumbmesh/crumbmesh/pkg/fault"
	"github.com/crumbmesh/crumbmesh/services/modelgw/internal/turn"
)

// answerBytesMax bounds one turn: its pieces together, and its result as JSON.
const answerBytesMax = 8 << 20

// generate lets the adapter answer, within the call's deadline. It returns a
// result whatever the adapter did; an error (SHUTTING_DOWN) only when this
// process stops first.
func (w *Worker) generate(ctx context.Context, j *job, adapter Adapter) (crumbs.ModelResult, error) {
	ctx, cancel := context.WithDeadlineCause(ctx, j.call.DeadlineAt.Time, errDeadline)
	defer cancel()
	g := &generation{job: j, deltas: w.newDeltas(j), started: time.Now()}
	answer, err := w.consume(ctx, g, adapter)
	g.deltas.flush()
	if err == nil {
		err = w.keepFiles(ctx, j, answer)
	}
	if err == nil {
		return g.timed(j.succeeded(answer)), nil
	}
	switch cause := context.Cause(ctx); {
	case errors.Is(cause, errStopped):
		return g.timed(j.cancelled()), nil
	case errors.Is(cause, errDeadline):
		e := fault.New(fault.ModelTimeout, "provider %s did not answer within the call's deadline (%s after the start)", j.call.Model.Provider, time.Since(g.started).Round(time.Millisecond))
		return g.timed(j.failed(e, true)), nil
	case cause != nil:
		return crumbs.ModelResult{}, fault.Wrap(fault.ShuttingDown, cause, "the gateway stops; another one takes the call")
	}
	return g.timed(w.failure(ctx, j, err)), nil
}

// generation is one run of an adapter.
type generation struct {
	job     *job
	deltas  *deltas
	started time.Time
	first   time.Time // when the first event came
	bytes   int
}

// consume takes the events of a turn until Done. A panic of the adapter is its
// error.
func (w *Worker) consume(ctx context.Context, g *generation, adapter Adapter) (answer *turn.Answer, err error) {
	provider := g.job.call.Model.Provider
	defer func() {
		if r := recover(); r != nil {
			w.conn.Log.ErrorContext(ctx, "panic of an adapter", "provider", provider, "call", g.job.call.CallID, "panic", fmt.Sprint(r), "stack", string(debug.Stack()))
			err = fault.New(fault.ModelError, "the adapter of provider %s panicked; the gateway's log has the details", provider)
		}
	}()
	if ctx.Err() != nil { // cancelled while the claim was taken, or too late already
		return nil, context.Cause(ctx)
	}
	request := turn.Request{Call: g.job.call, Prompt: g.job.prompt}
	for event, err := range adapter.Generate(ctx, request) {
		if err != nil {
			return nil, err
		}
		if g.first.IsZero() {
			g.first = time.Now()
		}
		if event.Kind == turn.Done && event.Answer != nil {
			return event.Answer, nil
		}
		if ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
		if g.bytes += len(event.Piece); g.bytes > answerBytesMax {
			return nil, fault.New(fault.PayloadTooLarge, "provider %s sent more than %d bytes in one turn; lower maxOutputTokens", provider, answerBytesMax)
		}
		if event.Kind != turn.Text || !turn.Structured(request.Call) { // half a document is of no use to anybody (CF-O03)
			g.deltas.send(event)
		}
	}
	return nil, fault.New(fault.ModelError, "provider %s ended its stream in the middle of the turn", provider)
}

// timed completes a result with what was measured, and with what the model was
// shown, whatever came of it: another attempt is shown the same.
func (g *generation) timed(r crumbs.ModelResult) crumbs.ModelResult {
	shown, kept := g.job.prompt.After(g.job.call.Prefix)
	r.Prompt, r.PrefixKept = &shown, kept
	r.Deltas, r.DurationMs = g.deltas.count, time.Since(g.started).Milliseconds()
	if !g.first.IsZero() {
		r.FirstTokenMs = g.first.Sub(g.started).Milliseconds()
	}
	return r
}

// failure is the result of an adapter's error. The text of an error that is no
// fault may hold what must not leave this process.
func (w *Worker) failure(ctx context.Context, j *job, err error) crumbs.ModelResult {
	var f *turn.Failure
	if errors.As(err, &f) {
		return j.failed(f.Fault, f.Retryable)
	}
	if fault.CodeOf(err) != "" {
		return j.failed(fault.From(err), false)
	}
	w.conn.Log.ErrorContext(ctx, "adapter failed", "provider", j.call.Model.Provider, "call", j.call.CallID, "error", err)
	return j.failed(fault.Wrap(fault.ModelError, err, "provider %s failed; the gateway's log has the details", j.call.Model.Provider), false)
}
