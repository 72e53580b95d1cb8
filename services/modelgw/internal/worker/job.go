package worker

import (
	"context"
	"encoding/json"

	"github.com/crumbmesh/crumbmesh/pkg/crumbs"
	"github.com/crumbmesh/crumbmesh/pkg/fault"
	"github.com/crumbmesh/crumbmesh/pkg/mesh"
	"github.com/crumbmesh/crumbmesh/services/modelgw/internal/prompt"
)

// job is one request.
type job struct {
	queue    string // provider instance whose queue it came on
	worker   string
	sequence uint64       // of its message
	event    crumbs.Event // its attributes
	call     crumbs.ModelCall
	prompt   prompt.Prompt       // what the model is shown of it
	after    crumbs.CheckpointID // whose answer led to it, "" for none
}

// key names the attempt.
func (j *job) key() string { return j.call.CallID.Attempt(j.call.Attempt) }

// provider names whose adapter answers: the instance of the call, or the agent.
func (j *job) provider() string {
	if j.queue == crumbs.ProviderOwn {
		return j.queue
	}
	return j.call.Model.Provider
}

// claimKey names the claim of the attempt.
func (j *job) claimKey() string {
	return crumbs.ModelClaim(j.queue, j.call.CallID, j.call.Attempt)
}

// read returns the request of a message. A request that no gateway can ever
// read is dead; the run's deadline for the call tells the orchestrator.
func (w *Worker) read(ctx context.Context, d *mesh.Delivery) (*job, error) {
	run := crumbs.RunID(crumbs.Token(d.Subject, runToken))
	event, err := crumbs.ReadEvent(d.Header, d.Data)
	if err != nil {
		return nil, mesh.Dead(run, err)
	}
	body, err := w.blobs.CheckOut(ctx, event.Data)
	if transient(err) {
		return nil, err
	}
	if err != nil {
		return nil, mesh.Dead(run, err)
	}
	j := &job{sequence: d.Sequence, event: event, after: crumbs.CheckpointID(d.Header.Get(crumbs.HeaderAfter))}
	if j.call, err = decode(body); err != nil {
		return nil, mesh.Dead(run, err)
	}
	if err := checkCall(run, j.call); err != nil {
		return nil, mesh.Dead(run, err)
	}
	return j, nil
}

// decode reads a request. Only the orchestrator may write to this queue, and it
// writes what the schema says; so the schema, which would cost more than all else
// a request costs here, is asked only about a body that lacks something: to tell
// what is wrong with it. It fails with INVALID_MESSAGE.
func decode(body []byte) (call crumbs.ModelCall, err error) {
	if json.Unmarshal(body, &call) == nil && complete(call) {
		return call, nil
	}
	call = crumbs.ModelCall{}
	err = crumbs.Decode(crumbs.TypeModelCall, body, &call)
	return call, err
}

// complete reports whether a request has all that the schema requires.
func complete(c crumbs.ModelCall) bool {
	for _, text := range [...]string{string(c.RunID), string(c.AgentID), string(c.SessionID), c.AgentRevision, string(c.CallID), c.Model.Provider, c.Model.Model, c.ToolSet} {
		if text == "" {
			return false
		}
	}
	return c.Type == crumbs.TypeModelCall && c.DataRef == nil && c.Step > 0 && c.Attempt > 0 && c.N > 0 && !c.StartBefore.IsZero() && !c.DeadlineAt.IsZero()
}

// runToken is the place of the run in `model.call.<provider>.<run>`.
const runToken = 3

// checkCall refuses a request whose parts speak of different calls.
func checkCall(run crumbs.RunID, c crumbs.ModelCall) error {
	if c.DataRef != nil {
		return fault.New(fault.InvalidMessage, "model.call: expected a whole body, got a reference to object %q", c.DataRef.Object)
	}
	if c.RunID != run {
		return fault.New(fault.InvalidMessage, "model.call: runId %q on the subject of run %q", c.RunID, run)
	}
	if want := crumbs.ModelCallID(c.RunID, c.Step); c.CallID != want {
		return fault.New(fault.InvalidMessage, "model.call: callId %q, expected %q: the model call of step %d", c.CallID, want, c.Step)
	}
	return nil
}
