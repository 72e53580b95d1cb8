package sweep

import (
	"context"

	"github.com/google/uuid"

	"github.com/crumbmesh/crumbmesh/pkg/crumbs"
	"github.com/crumbmesh/crumbmesh/pkg/fault"
	"github.com/crumbmesh/crumbmesh/pkg/mesh"
	"github.com/crumbmesh/crumbmesh/services/orchestrator/internal/core"
	"github.com/crumbmesh/crumbmesh/services/orchestrator/internal/worker"
)

// callOn is an attempt of a call as a message on a queue names it.
type callOn struct {
	subject string // of the queue
	trusted bool   // the message stood on that queue; else somebody says so
	call    crumbs.CallID
	attempt int
}

// standing is what is known of an attempt.
type standing struct {
	recorded bool // its run is on record
	unread   bool // in a record that only a newer orchestrator reads
	flies    bool // it is in flight, on whatever queue
	waits    bool // its run still waits for it on the queue that it stands on
	held     bool // somebody who is present holds it
}

// stands says what is known of an attempt. It fails with UNAVAILABLE.
func (s *Sweeper) stands(ctx context.Context, of callOn) (standing, error) {
	r, err := s.conn.Bucket(crumbs.BucketRuns).Get(ctx, string(of.call.Run()))
	if err != nil || !r.Exists() {
		return standing{}, err
	}
	state, err := core.Decode(r.Value)
	if err != nil {
		return standing{recorded: true, unread: true, waits: of.trusted}, nil //nolint:nilerr // whoever can read the record decides
	}
	pinned := core.Pinned{}
	if pinned.Agent, err = s.names.Definition(ctx, state.Run.Agent, state.Run.Revision); err == nil {
		pinned.Tools, err = s.names.ToolSet(ctx, state.Run.ToolSet)
	}
	if code := fault.CodeOf(err); err != nil && code != fault.AgentNotFound && code != fault.InternalError {
		return standing{}, err
	}
	pending := core.Settles(pinned, state, core.Event{Kind: core.Ordered, Order: &crumbs.RunOrder{CallID: of.call, Attempt: of.attempt}})
	if len(pending) == 0 {
		return standing{recorded: true}, nil
	}
	st := standing{recorded: true, flies: true, waits: of.trusted || of.fits(pending[0])}
	if !st.waits {
		return st, nil
	}
	claim, err := s.conn.Claims().Get(ctx, crumbs.ClaimOf(of.subject, of.call, of.attempt))
	if err != nil || claim.State != mesh.ClaimStarted {
		return st, err
	}
	st.held, err = s.conn.Alive(ctx, crumbs.PresenceOf(of.subject, claim.Worker))
	return st, err
}

// fits reports whether an attempt in flight is one of the queue.
func (of callOn) fits(p core.Pending) bool {
	if p.Model {
		return of.subject == crumbs.ModelCallSubject(p.Queue, of.call.Run())
	}
	return of.subject == crumbs.ToolCallSubject(p.Queue, of.call.Run())
}

// tell puts it to the run that nobody will take the attempt.
func (s *Sweeper) tell(ctx context.Context, of callOn, why *fault.Error) error {
	ctx, cancel := context.WithTimeout(ctx, tellMax)
	defer cancel()
	return worker.PublishOrder(ctx, s.conn, crumbs.RunOrder{Type: crumbs.TypeRunOrder, RunID: of.call.Run(), OrderID: "ord_" + uuid.NewString(),
		CallID: of.call, Attempt: of.attempt, Action: crumbs.OrderLost, Error: why})
}
