package client_test

import (
	"context"
	"encoding/json"
	"fmt"
	"sync"
	"testing"

	"github.com/nats-io/nats.go"

	"github.com/crumbmesh/crumbmesh/internal/meshtest"
	"github.com/crumbmesh/crumbmesh/pkg/client"
	"github.com/crumbmesh/crumbmesh/pkg/crumbs"
	"github.com/crumbmesh/crumbmesh/pkg/crumbs/jscrumbs"
	"github.com/crumbmesh/crumbmesh/pkg/decision"
	"github.com/crumbmesh/crumbmesh/pkg/fault"
	"github.com/crumbmesh/crumbmesh/pkg/mesh"
)

const publisher = crumbs.AgentID("publisher")

var ada = crumbs.Principal{Issuer: "local", Subject: "ada"}

// fake answers the endpoints of a mesh whose runs a test writes itself.
type fake struct {
	t      *testing.T
	conn   *mesh.Conn
	client *client.Client

	asked     chan crumbs.RunRequest // requests that made a run
	cancelled chan crumbs.RunID

	mu       sync.Mutex
	requests map[crumbs.RunID]string
	views    map[crumbs.RunID]crumbs.RunView
	bodies   map[string]string // last body by endpoint
}

func newFake(t *testing.T) *fake {
	t.Helper()
	m := meshtest.Start(t)
	f := &fake{t: t, conn: m.Conn, client: client.New(m.Connect("application")), asked: make(chan crumbs.RunRequest, 16), cancelled: make(chan crumbs.RunID, 16),
		requests: map[crumbs.RunID]string{}, views: map[crumbs.RunID]crumbs.RunView{}, bodies: map[string]string{}}
	f.serve("runs", mesh.Endpoint{Name: "start", Handle: f.start}, mesh.Endpoint{Name: "get", Handle: f.get},
		f.answer("runs.list", crumbs.RunListReply{Runs: []crumbs.RunView{{RunID: "run_1"}}}, "list"),
		mesh.Endpoint{Name: "cancel", Handle: f.cancel})
	f.serve("approvals", mesh.Endpoint{Name: "decide", Handle: f.decide},
		f.answer("approvals.list", decision.Page{Approvals: []decision.Approval{{CheckpointID: "run_1.1.0"}}}, "list"),
		f.answer("approvals.get", decision.Approval{CheckpointID: "run_1.1.0", Status: decision.StatusOpen}, "get"))
	f.serve("agents", f.answer("agents.list", crumbs.AgentsListReply{Revision: "prj_1"}, "list"),
		f.answer("agents.get", map[string]string{"id": "publisher"}, "get"),
		f.answer("agents.apply", crumbs.AgentsApplyReply{Revision: "prj_2", Changed: true}, "apply"))
	f.serve("tools", f.answer("tools.list", crumbs.ToolsListReply{Tools: []crumbs.ToolView{{Handler: "read"}}}, "list"))
	return f
}

func (f *fake) serve(noun string, endpoints ...mesh.Endpoint) {
	f.t.Helper()
	if _, err := f.conn.Serve(noun, "a test", endpoints...); err != nil {
		f.t.Fatal(err)
	}
}

// answer returns an endpoint that notes the body and always says reply.
func (f *fake) answer(endpoint string, reply any, name string) mesh.Endpoint {
	return mesh.Endpoint{Name: name, Handle: func(_ context.Context, body json.RawMessage) (any, error) {
		f.note(endpoint, body)
		return reply, nil
	}}
}

func (f *fake) note(endpoint string, body json.RawMessage) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.bodies[endpoint] = string(body)
}

func (f *fake) body(endpoint string) string {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.bodies[endpoint]
}

func (f *fake) start(_ context.Context, body json.RawMessage) (any, error) {
	var r crumbs.RunRequest
	if err := crumbs.Decode(crumbs.TypeRunRequest, body, &r); err != nil {
		return nil, err
	}
	f.note("runs.start", body)
	f.mu.Lock()
	defer f.mu.Unlock()
	before, known := f.requests[r.RunID]
	if known && before != string(body) {
		return nil, fault.New(fault.RunConflict, "run id %s was used before with another request", r.RunID)
	}
	if !known {
		f.requests[r.RunID] = string(body)
		f.asked <- r
	}
	return crumbs.RunStartReply{RunID: r.RunID, AgentID: r.AgentID, Created: !known}, nil
}

func (f *fake) get(_ context.Context, body json.RawMessage) (any, error) {
	var r crumbs.RunGet
	if err := json.Unmarshal(body, &r); err != nil {
		return nil, err
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	v, known := f.views[r.RunID]
	if !known {
		return nil, fault.New(fault.RunNotFound, "no run %s is on record", r.RunID)
	}
	return v, nil
}

func (f *fake) cancel(_ context.Context, body json.RawMessage) (any, error) {
	f.note("runs.cancel", body)
	var r crumbs.RunCancel
	if err := json.Unmarshal(body, &r); err != nil {
		return nil, err
	}
	f.cancelled <- r.RunID
	return crumbs.RunCancelReply{RunID: r.RunID, Status: "running"}, nil
}

func (f *fake) view(v crumbs.RunView) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.views[v.RunID] = v
}

func (f *fake) decide(_ context.Context, body json.RawMessage) (any, error) {
	f.note("approvals.decide", body)
	var a decision.Answer
	if err := json.Unmarshal(body, &a); err != nil {
		return nil, err
	}
	if a.CheckpointID == "run_1.9.9" {
		return nil, fault.New(fault.CheckpointNotFound, "checkpoint %s is not open", a.CheckpointID).With("by", ada)
	}
	return decision.Receipt{Status: decision.StatusDecided, Decision: crumbs.Decision{CheckpointID: a.CheckpointID, Outcome: a.Outcome}}, nil
}

// run is one whose crumbs a test writes.
type run struct {
	f     *fake
	id    crumbs.RunID
	fence jscrumbs.Fence
}

func (f *fake) run(id crumbs.RunID) *run { return &run{f: f, id: id} }

// crumb stores the run's next crumb: a struct of pkg/crumbs without its base.
func (r *run) crumb(typ string, body interface{ Head() *crumbs.Base }, suspended bool) {
	r.f.t.Helper()
	seq := r.fence.Seq + 1
	*body.Head() = crumbs.Base{Type: typ, RunID: r.id, AgentID: publisher, SessionID: "ses_1", Seq: seq, Timestamp: 1_700_000_000_000, Step: 1, Suspended: suspended}
	text, err := json.Marshal(body)
	if err != nil {
		r.f.t.Fatal(err)
	}
	msg, err := crumbs.Event{ID: fmt.Sprintf("%s/%d", r.id, seq), Source: crumbs.Source("test"), Type: crumbs.CEType(typ), Subject: "run/" + string(r.id),
		RunID: r.id, AgentID: publisher, Sequence: seq, Data: text}.Message(crumbs.CrumbSubject(publisher, r.id, typ))
	if err != nil {
		r.f.t.Fatal(err)
	}
	if r.fence, err = jscrumbs.Append(context.Background(), r.f.conn, crumbs.CrumbFilter(publisher, r.id), r.fence, seq, []*nats.Msg{msg}); err != nil {
		r.f.t.Fatal(err)
	}
}

func (r *run) starts() {
	r.f.t.Helper()
	r.crumb(crumbs.TypeRunStarted, &crumbs.RunStarted{Input: json.RawMessage(`{}`), AgentRevision: revision, ToolSet: hash, Tools: []string{}, Warnings: []string{"mind the gap"}}, false)
}

// asks writes the question of call i of step 1.
func (r *run) asks(i int, suspended bool) {
	r.f.t.Helper()
	id := crumbs.ToolCallID(r.id, 1, i)
	r.crumb(crumbs.TypeHumanRequired, &crumbs.HumanRequired{CheckpointID: id, Kind: crumbs.KindApproval, ToolCallID: id, ToolName: "tool_publish", Tool: "tool:publish",
		Args: json.RawMessage(`{}`), ArgsHash: hash, Suspended: suspended, Schema: json.RawMessage(`{}`)}, suspended)
}

// resumes writes that a person approved call i of step 1.
func (r *run) resumes(i int, suspended bool) {
	r.f.t.Helper()
	r.crumb(crumbs.TypeHumanResumed, &crumbs.HumanResumed{CheckpointID: crumbs.ToolCallID(r.id, 1, i), Kind: crumbs.KindApproval, Outcome: crumbs.ResumedApproved,
		Response: json.RawMessage(`{"approved":true}`), By: &ada}, suspended)
}

func (r *run) completes(output string) {
	r.f.t.Helper()
	r.crumb(crumbs.TypeRunEnded, &crumbs.RunEnded{Output: json.RawMessage(output), FinishReason: "stop", Steps: 2, DurationMs: 1500,
		Usage: &crumbs.Usage{TotalTokens: 7}, Cost: &crumbs.Cost{Value: 9, Currency: "USD"}, Files: []crumbs.File{{Kind: "file", URI: "files:a"}}}, false)
}

func (r *run) fails(e *fault.Error) {
	r.f.t.Helper()
	r.crumb(crumbs.TypeAgentError, &crumbs.AgentError{Error: e, DurationMs: 20, Steps: 1}, false)
}

const (
	revision = "rev_0123456789abcdef"
	hash     = "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"
)
