package fleet

import (
	"context"
	"encoding/json"
	"errors"

	"github.com/nats-io/nats.go"

	"github.com/crumbmesh/crumbmesh/pkg/crumbs"
	"github.com/crumbmesh/crumbmesh/pkg/decision"
	"github.com/crumbmesh/crumbmesh/pkg/fault"
	"github.com/crumbmesh/crumbmesh/pkg/mesh"
)

// Request asks for a run as a client without an endpoint does: bare JSON on the
// queue of requests. The error is that of the queue.
func (f *Fleet) Request(r crumbs.RunRequest) error {
	f.t.Helper()
	body, err := json.Marshal(r)
	if err != nil {
		f.t.Fatal(err)
	}
	_, err = f.Mesh.Conn.Publish(context.Background(), &nats.Msg{Subject: crumbs.RequestSubject(r.AgentID), Data: body})
	return err
}

// Start is Request that must be taken.
func (f *Fleet) Start(agent crumbs.AgentID, run crumbs.RunID) {
	f.t.Helper()
	if err := f.Request(crumbs.RunRequest{AgentID: agent, RunID: run}); err != nil {
		f.t.Fatal(err)
	}
}

// Cancel publishes a cancel as a client does.
func (f *Fleet) Cancel(run crumbs.RunID) {
	f.t.Helper()
	body, err := json.Marshal(crumbs.RunControl{Type: crumbs.TypeRunControl, RunID: run, ControlID: "c_" + string(run), Action: crumbs.ActionCancel})
	if err != nil {
		f.t.Fatal(err)
	}
	if _, err := f.Mesh.Conn.Publish(context.Background(), &nats.Msg{Subject: crumbs.ControlSubject(run), Data: body}); err != nil {
		f.t.Fatal(err)
	}
}

// Result publishes a tool's result in its worker's place, whether anybody waits
// for it or not.
func (f *Fleet) Result(r crumbs.ToolResult) {
	f.t.Helper()
	body, err := json.Marshal(r)
	if err != nil {
		f.t.Fatal(err)
	}
	subject := crumbs.ToolResultSubject(r.Group, r.CallID, r.Attempt)
	if _, err := f.Mesh.Conn.Publish(context.Background(), &nats.Msg{Subject: subject, Data: body}); err != nil {
		f.t.Fatal(err)
	}
}

// Approve answers a question with yes, through the service.
func (f *Fleet) Approve(id crumbs.CheckpointID) (decision.Receipt, error) {
	return f.Decide(decision.Answer{CheckpointID: id, Outcome: crumbs.DecideApprove})
}

// Decide answers a question through the service as ada, on the command line.
func (f *Fleet) Decide(a decision.Answer) (decision.Receipt, error) {
	if a.By == nil {
		a.By = &crumbs.Principal{Issuer: "local", Subject: "ada"}
	}
	a.Via = decision.ViaCLI
	var r decision.Receipt
	return r, f.Mesh.Conn.Request(context.Background(), crumbs.EndpointApprovalsDecide, a, &r)
}

// Row is the row of a question in the bucket of approvals.
func (f *Fleet) Row(id crumbs.CheckpointID) (row decision.Approval) {
	f.t.Helper()
	r, err := f.Mesh.Conn.Bucket(crumbs.BucketApprovals).Get(context.Background(), string(id))
	if err != nil || !r.Exists() {
		f.t.Fatalf("no row of %s: %v", id, err)
	}
	if err := json.Unmarshal(r.Value, &row); err != nil {
		f.t.Fatal(err)
	}
	return row
}

// Claim is the claim of an attempt of a call, whoever's; State "" means none.
func (f *Fleet) Claim(call crumbs.CallID, attempt int) mesh.Claim {
	f.t.Helper()
	var c mesh.Claim
	var decode error
	err := f.Mesh.Conn.Bucket(crumbs.BucketClaims).List(context.Background(), "*.*."+call.Attempt(attempt), func(r mesh.Record) bool {
		decode = json.Unmarshal(r.Value, &c)
		return false
	})
	if err = errors.Join(err, decode); err != nil {
		f.t.Fatal(err)
	}
	return c
}

// View is a run as the endpoint shows it, "" as its status when it is not known.
func (f *Fleet) View(run crumbs.RunID) (view crumbs.RunView) {
	f.t.Helper()
	err := f.Mesh.Conn.Request(context.Background(), crumbs.EndpointRunsGet, crumbs.RunGet{RunID: run}, &view)
	if err != nil && fault.CodeOf(err) != fault.RunNotFound {
		f.t.Fatal(err)
	}
	return view
}
