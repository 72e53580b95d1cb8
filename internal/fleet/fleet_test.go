package fleet_test

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/crumbmesh/crumbmesh/internal/fleet"
	"github.com/crumbmesh/crumbmesh/internal/meshtest"
	"github.com/crumbmesh/crumbmesh/pkg/agent"
	"github.com/crumbmesh/crumbmesh/pkg/crumbs"
	"github.com/crumbmesh/crumbmesh/pkg/perm"
	"github.com/crumbmesh/crumbmesh/pkg/tool"
)

type lookupIn struct {
	Key string `json:"key"`
}

func workerTool(name string, effect crumbs.Effect) agent.Tool {
	return agent.Tool{Name: name, Worker: &agent.Worker{Group: "demo", Tool: name}, Effect: effect}
}

func TestFleet_OneRunEndToEnd(t *testing.T) {
	t.Parallel()
	m := meshtest.Start(t, meshtest.WithTopology([]string{"demo"}, []string{"script"}))
	f := fleet.New(t, m)
	f.Orchestrator()
	f.Gateway()
	f.Approvals()
	f.Tools("demo",
		tool.Define("lookup", "Look a key up.", func(_ tool.Context, in lookupIn) (string, error) { return "value of " + in.Key, nil }, tool.Effect(crumbs.EffectPure)),
		tool.Define("pay", "Pay.", func(_ tool.Context, in lookupIn) (string, error) { return "paid " + in.Key, nil }))
	f.Apply([]string{"demo"}, &agent.Definition{
		ID: "clerk", Model: agent.Model{Provider: "script", Model: "main"}, Output: agent.Output{Format: agent.FormatText}, Steps: agent.Steps{Max: 5},
		Permissions: perm.Lists{Ask: []string{"tool:pay"}},
		Tools:       []agent.Tool{workerTool("lookup", ""), workerTool("pay", "")},
		Scripts: map[string]agent.Script{"main": {Turns: []agent.Turn{
			{Text: "Looking.", ToolCalls: []agent.ScriptCall{{Name: "tool_lookup", Args: json.RawMessage(`{"key":"a"}`)}, {Name: "tool_pay", Args: json.RawMessage(`{"key":"b"}`)}}},
			{Text: "Done."},
		}}},
	})
	ctx := context.Background()
	var started crumbs.RunStartReply
	if err := m.Conn.Request(ctx, crumbs.EndpointRunsStart, crumbs.RunRequest{AgentID: "clerk", RunID: "run_1"}, &started); err != nil {
		t.Fatal(err)
	}
	f.WaitFor("run_1", func(c fleet.Stored) bool { return c.Base.Suspended })
	var decided json.RawMessage
	if err := m.Conn.Request(ctx, crumbs.EndpointApprovalsDecide, map[string]any{"checkpointId": "run_1.1.1", "outcome": "approve", "via": "cli",
		"by": crumbs.Principal{Issuer: "local", Subject: "ada"}}, &decided); err != nil {
		t.Fatal(err)
	}
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
	if err := m.Conn.Request(ctx, crumbs.EndpointRunsGet, crumbs.RunGet{RunID: "run_1"}, &view); err != nil {
		t.Fatal(err)
	}
	if view.Status != "completed" || string(view.Output) != `"Looking.Done."` {
		t.Errorf("runs.get: %s", fmt.Sprint(view))
	}
}
