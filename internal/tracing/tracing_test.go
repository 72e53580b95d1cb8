package tracing_test

import (
	"context"
	"encoding/json"
	"fmt"
	"testing"

	"github.com/nats-io/nats.go"

	"github.com/crumbmesh/crumbmesh/internal/fleet"
	"github.com/crumbmesh/crumbmesh/internal/meshtest"
	"github.com/crumbmesh/crumbmesh/pkg/agent"
	"github.com/crumbmesh/crumbmesh/pkg/crumbs"
	"github.com/crumbmesh/crumbmesh/pkg/perm"
	"github.com/crumbmesh/crumbmesh/pkg/telemetry/otlp"
	"github.com/crumbmesh/crumbmesh/pkg/tool"
	"github.com/crumbmesh/crumbmesh/services/orchestrator"
)

const (
	parallel = 5
	runs     = 10
	// callerTrace and callerSpan are the trace of whoever asks for the first run.
	callerTrace = "0af7651916cd43dd8448eb211c80319c"
	callerSpan  = "b7ad6b7169203331"
)

type input struct {
	Key string `json:"key"`
}

// One run, one trace, through all four services: a root span for the run, a span
// for each model call and each of five parallel tool calls under it, one for the
// wait for a person and one for the answer. The orchestrator that began the run
// is gone when it ends (F129, F130, F132).
func TestTrace_F129_F130_F132_OneTraceThroughAllServices(t *testing.T) {
	collector := newReceiver(t)
	t.Setenv("OTEL_EXPORTER_OTLP_ENDPOINT", collector.url)
	on, flush, err := otlp.Start(context.Background(), "crumbmesh", nil)
	if err != nil || !on {
		t.Fatal(on, err)
	}
	f := start(t)
	trace := func(c *orchestrator.Config) { c.Trace = true }
	first := f.Orchestrator(trace)
	f.Apply([]string{"demo"}, clerk())
	for i := range runs {
		run := crumbs.RunID(fmt.Sprintf("run_%d", i))
		ask(t, f, run, i == 0)
		f.WaitFor(run, func(c fleet.Stored) bool { return c.Base.Suspended })
	}
	first.Stop()
	f.Orchestrator(trace)
	for i := range runs {
		run := crumbs.RunID(fmt.Sprintf("run_%d", i))
		approve(t, f, crumbs.ToolCallID(run, 1, parallel))
		f.WaitEnd(run)
		f.WaitTrimmed(run)
	}
	flush()
	byRun := map[string][]span{}
	for _, s := range collector.spans() {
		byRun[s.attrs["crumbmesh.run.id"]] = append(byRun[s.attrs["crumbmesh.run.id"]], s)
		if s.end < s.start {
			t.Errorf("%s ends before it starts", s.name)
		}
	}
	for i := range runs {
		check(t, byRun[fmt.Sprintf("run_%d", i)], i == 0)
	}
}

func start(t *testing.T) *fleet.Fleet {
	t.Helper()
	f := fleet.New(t, meshtest.Start(t, meshtest.WithTopology([]string{"demo"}, []string{"script"})))
	f.Gateway()
	f.Approvals()
	echo := func(_ tool.Context, in input) (string, error) { return in.Key, nil }
	f.Tools("demo", tool.Define("lookup", "Look up.", echo, tool.Effect(crumbs.EffectPure)), tool.Define("pay", "Pay.", echo))
	return f
}

func clerk() *agent.Definition {
	first := agent.Turn{}
	for range parallel {
		first.ToolCalls = append(first.ToolCalls, agent.ScriptCall{Name: "tool_lookup", Args: json.RawMessage(`{"key":"a"}`)})
	}
	first.ToolCalls = append(first.ToolCalls, agent.ScriptCall{Name: "tool_pay", Args: json.RawMessage(`{"key":"b"}`)})
	worker := func(name string) agent.Tool {
		return agent.Tool{Name: name, Worker: &agent.Worker{Group: "demo", Tool: name}}
	}
	return &agent.Definition{ID: "clerk", Model: agent.Model{Provider: "script", Model: "main"}, Permissions: perm.Lists{Ask: []string{"tool:pay"}},
		Tools: []agent.Tool{worker("lookup"), worker("pay")}, Scripts: map[string]agent.Script{"main": {Turns: []agent.Turn{first, {Text: "Done."}}}}}
}

func ask(t *testing.T, f *fleet.Fleet, run crumbs.RunID, traced bool) {
	t.Helper()
	msg := &nats.Msg{Subject: crumbs.RequestSubject("clerk"), Header: nats.Header{}, Data: []byte(`{"runId":"` + string(run) + `"}`)}
	if traced {
		msg.Header["traceparent"] = []string{"00-" + callerTrace + "-" + callerSpan + "-01"}
	}
	if _, err := f.Mesh.Conn.Publish(context.Background(), msg); err != nil {
		t.Fatal(err)
	}
}

func approve(t *testing.T, f *fleet.Fleet, id crumbs.CheckpointID) {
	t.Helper()
	var reply json.RawMessage
	if err := f.Mesh.Conn.Request(context.Background(), crumbs.EndpointApprovalsDecide, map[string]any{"checkpointId": id, "outcome": "approve", "via": "cli",
		"by": crumbs.Principal{Issuer: "local", Subject: "ada"}}, &reply); err != nil {
		t.Fatal(err)
	}
}

func check(t *testing.T, spans []span, traced bool) {
	t.Helper()
	count := map[string]int{}
	var root span
	for _, s := range spans {
		count[s.name]++
		if s.name == "invoke_agent clerk" {
			root = s
		}
	}
	want := map[string]int{"invoke_agent clerk": 1, "chat main": 2, "execute_tool tool_lookup": parallel, "execute_tool tool_pay": 1, "human.wait tool_pay": 1, "approval.decide": 1}
	for name, n := range want {
		if count[name] != n {
			t.Errorf("%d spans %q, want %d; all: %v", count[name], name, n, count)
		}
	}
	switch {
	case traced && (root.trace != callerTrace || root.parent != callerSpan):
		t.Errorf("the root span is %s under %s, want the caller's trace and span", root.trace, root.parent)
	case !traced && root.parent != "":
		t.Errorf("the root span has parent %s", root.parent)
	}
	for _, s := range spans {
		if s.trace != root.trace {
			t.Errorf("%s is in trace %s, the run's is %s", s.name, s.trace, root.trace)
		}
		if s.id != root.id && s.parent != root.id {
			t.Errorf("%s is under %s, want the run's root span %s", s.name, s.parent, root.id)
		}
	}
}
