package fleet_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/crumbmesh/crumbmesh/internal/fleet"
	"github.com/crumbmesh/crumbmesh/internal/meshtest"
	"github.com/crumbmesh/crumbmesh/pkg/agent"
	"github.com/crumbmesh/crumbmesh/pkg/crumbs"
	"github.com/crumbmesh/crumbmesh/pkg/fault"
	"github.com/crumbmesh/crumbmesh/pkg/mesh"
	"github.com/crumbmesh/crumbmesh/pkg/perm"
	"github.com/crumbmesh/crumbmesh/pkg/tool"
)

type lookupIn struct {
	Key string `json:"key"`
}

func workerTool(name string, effect crumbs.Effect) agent.Tool {
	return agent.Tool{Name: name, Worker: &agent.Worker{Group: "demo", Tool: name}, Effect: effect}
}

// clerk looks a key up and, after a person said yes, pays.
func clerk() *agent.Definition {
	return &agent.Definition{
		ID: "clerk", Model: agent.Model{Provider: "script", Model: "main"}, Output: agent.Output{Format: agent.FormatText}, Steps: agent.Steps{Max: 5},
		Permissions: perm.Lists{Ask: []string{"tool:pay"}},
		Tools:       []agent.Tool{workerTool("lookup", ""), workerTool("pay", "")},
		Scripts: map[string]agent.Script{"main": {Turns: []agent.Turn{
			{Text: "Looking.", ToolCalls: []agent.ScriptCall{{Name: "tool_lookup", Args: json.RawMessage(`{"key":"a"}`)}, {Name: "tool_pay", Args: json.RawMessage(`{"key":"b"}`)}}},
			{Text: "Done."},
		}}},
	}
}

// serve starts what clerk needs beside an orchestrator.
func serve(t *testing.T) *fleet.Fleet {
	t.Helper()
	f := fleet.New(t, meshtest.Start(t, meshtest.WithTopology([]string{"demo"}, []string{"script"})))
	f.Gateway()
	f.Approvals()
	f.Tools("demo",
		tool.Define("lookup", "Look a key up.", func(_ tool.Context, in lookupIn) (string, error) { return "value of " + in.Key, nil }, tool.Effect(crumbs.EffectPure)),
		tool.Define("pay", "Pay.", func(_ tool.Context, in lookupIn) (string, error) { return "paid " + in.Key, nil }))
	return f
}

func ask(t *testing.T, f *fleet.Fleet, run crumbs.RunID) {
	t.Helper()
	var started crumbs.RunStartReply
	if err := f.Mesh.Conn.Request(t.Context(), crumbs.EndpointRunsStart, crumbs.RunRequest{AgentID: "clerk", RunID: run}, &started); err != nil {
		t.Fatal(err)
	}
	f.WaitFor(run, func(c fleet.Stored) bool { return c.Base.Suspended })
}

func approve(t *testing.T, f *fleet.Fleet, id crumbs.CheckpointID) {
	t.Helper()
	var decided json.RawMessage
	if err := f.Mesh.Conn.Request(t.Context(), crumbs.EndpointApprovalsDecide, map[string]any{"checkpointId": id, "outcome": "approve", "via": "cli",
		"by": crumbs.Principal{Issuer: "local", Subject: "ada"}}, &decided); err != nil {
		t.Fatal(err)
	}
}

func TestFleet_OneRunEndToEnd(t *testing.T) {
	t.Parallel()
	f := serve(t)
	f.Orchestrator()
	f.Apply([]string{"demo"}, clerk())
	ask(t, f, "run_1")
	approve(t, f, "run_1.1.1")
	var got []string
	for i, c := range f.WaitEnd("run_1") {
		if c.Base.Seq != uint64(i+1) {
			t.Errorf("crumb %d has seq %d", i+1, c.Base.Seq)
		}
		got = append(got, c.Base.Type)
	}
	want := "agent:run:start step:end tool:call human:required tool:result human:resumed tool:call tool:result step:end agent:run:end"
	if s := strings.Join(got, " "); s != want {
		t.Errorf("got  %s\nwant %s", s, want)
	}
	var view crumbs.RunView
	if err := f.Mesh.Conn.Request(t.Context(), crumbs.EndpointRunsGet, crumbs.RunGet{RunID: "run_1"}, &view); err != nil {
		t.Fatal(err)
	}
	if view.Status != "completed" || string(view.Output) != `"Looking.Done."` {
		t.Errorf("runs.get: %+v", view)
	}
}

// A run whose pinned definition was deleted under it cannot go on: it ends and
// says so, instead of trying for ever.
func TestFleet_PinnedDefinitionGone(t *testing.T) {
	t.Parallel()
	f := serve(t)
	first := f.Orchestrator()
	f.Apply([]string{"demo"}, clerk())
	ask(t, f, "run_1")
	first.Stop()
	bucket := f.Mesh.Conn.Bucket(crumbs.BucketAgents)
	var keys []string
	if err := bucket.List(t.Context(), "clerk.>", func(r mesh.Record) bool { keys = append(keys, r.Key); return true }); err != nil || len(keys) != 1 {
		t.Fatal(keys, err)
	}
	if err := bucket.Delete(t.Context(), keys[0]); err != nil {
		t.Fatal(err)
	}
	f.Orchestrator()
	approve(t, f, "run_1.1.1")
	all := f.WaitEnd("run_1")
	var last crumbs.AgentError
	if err := json.Unmarshal(all[len(all)-1].Body, &last); err != nil || last.Error == nil || last.Error.Code != fault.AgentNotFound {
		t.Errorf("the run ended with %s", all[len(all)-1].Body)
	}
}
