package worker

import (
	"context"
	"fmt"
	"runtime/debug"

	"github.com/crumbmesh/crumbmesh/pkg/crumbs"
	"github.com/crumbmesh/crumbmesh/pkg/fault"
	"github.com/crumbmesh/crumbmesh/pkg/mesh"
	"github.com/crumbmesh/crumbmesh/services/orchestrator/internal/core"
)

// GiveUp ends the run of a message whose handling panicked again and again, and
// names that run: it is decided as failed. If that panics too, the record is
// replaced by a terminal one, as one that does not decode is.
func (w *Worker) GiveUp(ctx context.Context, d *mesh.Delivery, cause error) (crumbs.RunID, error) {
	in := &incoming{kind: core.Broken, run: crumbs.RunOf(d.Subject), delivery: d, event: core.Event{Kind: core.Broken, At: eventTime(d.Stored), Broken: fault.From(cause)}}
	if in.run == "" {
		request, err := w.decode(ctx, d)
		if err != nil {
			return "", err
		}
		in.run, request.refused = request.run, fault.From(cause)
		r, err := w.runs.Get(ctx, string(in.run))
		if err != nil {
			return in.run, err
		}
		if !r.Exists() {
			in = request
		}
	}
	unlock, err := w.locks.lock(ctx, in.run)
	if err != nil {
		return in.run, err
	}
	defer unlock()
	w.cache.drop(in.run)
	err = w.decideBroken(ctx, in)
	if err == nil || fault.CodeOf(err) != fault.InternalError {
		return in.run, err
	}
	w.log.ErrorContext(ctx, "a run cannot be ended by a decision", "run", in.run, "error", err)
	return in.run, w.replace(ctx, in, err)
}

// decideBroken is the loop once more, for a message that says only that another one
// could not be decided. A panic is INTERNAL_ERROR.
func (w *Worker) decideBroken(ctx context.Context, in *incoming) (err error) {
	defer func() {
		if r := recover(); r != nil {
			err = fault.Wrap(fault.InternalError, fmt.Errorf("%v\n%s", r, debug.Stack()), "run %s: to end it panicked", in.run)
		}
	}()
	for range conflictsMax {
		again, err := w.step(ctx, in)
		if err != nil || !again {
			return w.explain(ctx, err)
		}
	}
	return fault.New(fault.Unavailable, "run %s: lost %d compare-and-sets in a row", in.run, conflictsMax)
}

// replace ends a run by a record made from the headers of the one it has.
func (w *Worker) replace(ctx context.Context, in *incoming, cause error) error {
	r, err := w.runs.Get(ctx, string(in.run))
	if err != nil || !r.Exists() {
		return err
	}
	if s, err := core.Decode(r.Value); err == nil && s.Status.Ended() {
		return nil
	}
	w.cache.drop(in.run)
	_, err = w.undecodable(ctx, in, &entry{revision: r.Revision, raw: r.Value, header: r.Header}, cause)
	return err
}
