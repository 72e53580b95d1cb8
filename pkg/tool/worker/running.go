package worker

import (
	"context"
	"encoding/json"
	"slices"
	"sync"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/crumbmesh/crumbmesh/pkg/crumbs"
	"github.com/crumbmesh/crumbmesh/pkg/fault"
	"github.com/crumbmesh/crumbmesh/pkg/mesh"
)

// finishedMax is how many finished calls a worker remembers, to acknowledge a
// redelivery after a lost ack instead of asking the claim.
const finishedMax = 1024

// flushMax is how long the server may take to confirm a subscription.
const flushMax = 5 * time.Second

// attempt is one message's start of an attempt of a call.
type attempt struct {
	key     string // `<call>.<attempt>`
	message uint64 // stream sequence
}

// running is the calls in this process.
type running struct {
	mu       sync.Mutex
	calls    map[attempt]inHand
	finished map[attempt]bool
	order    []attempt // of finished, oldest first
}

type inHand struct {
	run    crumbs.RunID
	call   crumbs.CallID
	cancel context.CancelCauseFunc
}

func newRunning() *running {
	return &running{calls: map[attempt]inHand{}, finished: map[attempt]bool{}}
}

// take registers a delivery of an attempt and returns the context that a cancel
// ends; done takes it off again. It reports false when another delivery of the
// same message is in hand.
func (r *running) take(ctx context.Context, a attempt, call crumbs.ToolCall) (inner context.Context, cancel context.CancelCauseFunc, done func(), ok bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if _, busy := r.calls[a]; busy {
		return nil, nil, nil, false
	}
	inner, cancel = context.WithCancelCause(ctx)
	r.calls[a] = inHand{run: call.RunID, call: call.CallID, cancel: cancel}
	return inner, cancel, func() {
		cancel(nil)
		r.mu.Lock()
		defer r.mu.Unlock()
		delete(r.calls, a)
	}, true
}

// count is how many calls are in hand.
func (r *running) count() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.calls)
}

// finish remembers that the result of an attempt is stored.
func (r *running) finish(a attempt) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.finished[a] {
		return
	}
	r.finished[a] = true
	if r.order = append(r.order, a); len(r.order) > finishedMax {
		delete(r.finished, r.order[0])
		r.order = slices.Delete(r.order, 0, 1)
	}
}

func (r *running) isFinished(a attempt) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.finished[a]
}

// cancel interrupts calls of a run, all of them when none is named.
func (r *running) cancel(run crumbs.RunID, calls []crumbs.CallID) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, c := range r.calls {
		if c.run == run && (len(calls) == 0 || slices.Contains(calls, c.call)) {
			c.cancel(errCancelled())
		}
	}
}

func errCancelled() error {
	return fault.New(fault.ToolCancelled, "the call was stopped because its run was cancelled or its deadline passed")
}

// listen follows ctl.cancel, the fast way to hear of a cancel; a message lost
// there costs a heartbeat, since the claim says it too.
func (r *running) listen(ctx context.Context, conn *mesh.Conn) (stop func(), err error) {
	sub, err := conn.NATS.Subscribe(crumbs.SubjectCancels, func(m *nats.Msg) {
		var body crumbs.CtlCancel
		if err := json.Unmarshal(m.Data, &body); err != nil || m.Subject != crumbs.CancelSubject(body.RunID) {
			conn.Log.Warn("cancel not understood", "subject", m.Subject)
			return
		}
		r.cancel(body.RunID, body.CallIDs)
	})
	if err == nil {
		flush, cancel := context.WithTimeout(ctx, flushMax)
		defer cancel()
		err = conn.NATS.FlushWithContext(flush) // from here on a cancel is heard
	}
	if err != nil {
		return nil, fault.Wrap(fault.Unavailable, err, "cannot listen on %s", crumbs.SubjectCancels)
	}
	return func() { _ = sub.Unsubscribe() }, nil
}
