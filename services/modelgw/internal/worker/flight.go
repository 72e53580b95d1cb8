package worker

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/crumbmesh/crumbmesh/pkg/crumbs"
	"github.com/crumbmesh/crumbmesh/pkg/fault"
	"github.com/crumbmesh/crumbmesh/pkg/mesh"
)

// Why a flight was ended from outside.
var (
	errStopped  = errors.New("the call was cancelled or its claim revoked")
	errDeadline = errors.New("the call's deadline passed")
)

// flight is a call in the hands of this process.
type flight struct {
	id   flightID
	job  *job
	ctx  context.Context
	stop context.CancelCauseFunc
}

// flightID holds the message too: a second request of the same attempt must
// reach the claim, which drops it, and not wait for the first one.
type flightID struct {
	attempt  string
	sequence uint64
}

type flights struct {
	mu   sync.Mutex
	byID map[flightID]*flight
}

func newFlights() *flights { return &flights{byID: map[flightID]*flight{}} }

// enter registers a call before its claim is taken, so that no cancel is missed
// between the two. It refuses a request that is running here already: late
// heartbeats made the server deliver it again.
func (s *flights) enter(ctx context.Context, j *job) (*flight, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	id := flightID{j.key(), j.sequence}
	if _, running := s.byID[id]; running {
		return nil, false
	}
	f := &flight{id: id, job: j}
	f.ctx, f.stop = context.WithCancelCause(ctx)
	s.byID[id] = f
	return f, true
}

func (s *flights) leave(f *flight) {
	f.stop(nil)
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.byID, f.id)
}

// cancel stops the named calls of a run, all when none is named.
func (s *flights) cancel(run crumbs.RunID, calls []crumbs.CallID) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, f := range s.byID {
		if f.job.call.RunID == run && (len(calls) == 0 || slices.Contains(calls, f.job.call.CallID)) {
			f.stop(errStopped)
		}
	}
}

// FollowCancels stops calls that ctl.cancel names, until stop is called. It
// returns when the server knows the subscription. It fails with UNAVAILABLE.
func (w *Worker) FollowCancels(ctx context.Context) (stop func(), err error) {
	sub, err := w.conn.NATS.Subscribe(crumbs.SubjectCancels, w.onCancel)
	if err != nil {
		return nil, fault.Wrap(fault.Unavailable, err, "subscribe %s: %v", crumbs.SubjectCancels, err)
	}
	ctx, cancel := context.WithTimeout(ctx, subscribeTimeout)
	defer cancel()
	stop = func() {
		if err := sub.Unsubscribe(); err != nil {
			w.conn.Log.DebugContext(ctx, "unsubscribe", "subject", crumbs.SubjectCancels, "error", err)
		}
	}
	if err := w.conn.NATS.FlushWithContext(ctx); err != nil {
		stop()
		return nil, fault.Wrap(fault.Unavailable, err, "subscribe %s: %v", crumbs.SubjectCancels, err)
	}
	return stop, nil
}

const subscribeTimeout = 5 * time.Second

func (w *Worker) onCancel(m *nats.Msg) {
	var c crumbs.CtlCancel
	if err := json.Unmarshal(m.Data, &c); err != nil {
		w.conn.Log.Warn("ctl.cancel is not readable", "subject", m.Subject, "error", err)
		return
	}
	w.flights.cancel(crumbs.RunID(crumbs.Token(m.Subject, cancelRunToken)), c.CallIDs)
}

// cancelRunToken is the place of the run in `ctl.cancel.<run>`.
const cancelRunToken = 2

// watch reads the claim at each heartbeat and stops a call whose claim was
// revoked: the way that needs no ctl.cancel to arrive.
func (w *Worker) watch(ctx context.Context, f *flight) (stop func()) {
	return mesh.Every(w.conn.Settings.Heartbeat(), func() {
		claim, err := w.claims.Get(ctx, f.job.claimKey())
		if err != nil {
			w.conn.Log.DebugContext(ctx, "read claim", "call", f.job.call.CallID, "error", err)
		}
		if claim.State == mesh.ClaimRevoked {
			f.stop(errStopped)
		}
	})
}
