package observability_test

import (
	"context"
	"encoding/json"
	"testing"
	"time"

	"github.com/crumbmesh/crumbmesh/internal/fleet"
	"github.com/crumbmesh/crumbmesh/internal/meshtest"
	"github.com/crumbmesh/crumbmesh/pkg/agent"
	"github.com/crumbmesh/crumbmesh/pkg/crumbs"
	"github.com/crumbmesh/crumbmesh/pkg/fault"
	"github.com/crumbmesh/crumbmesh/pkg/mesh"
	"github.com/crumbmesh/crumbmesh/pkg/tool"
	"github.com/crumbmesh/crumbmesh/schemas/schematest"
)

// explained asks for an explanation as a client does, and holds it to its schema.
func explained(t *testing.T, f *fleet.Fleet, run crumbs.RunID) crumbs.RunExplained {
	t.Helper()
	var raw json.RawMessage
	if err := f.Mesh.Conn.Request(context.Background(), crumbs.EndpointRunsExplain, crumbs.RunGet{RunID: run}, &raw); err != nil {
		t.Fatal(err)
	}
	schematest.CheckName(t, "runs.explained", raw)
	var x crumbs.RunExplained
	if err := json.Unmarshal(raw, &x); err != nil {
		t.Fatal(err)
	}
	return x
}

// A run that waits in a queue without workers, runs on a worker, and lies orphaned
// after that worker died is told apart, with what to do.
func TestExplain_WhereACallIs(t *testing.T) {
	t.Parallel()
	f := fleet.New(t, meshtest.Start(t, meshtest.WithTopology([]string{groupDemo}, []string{"script"}),
		meshtest.WithSettings(func(s *mesh.Settings) { s.PresenceTTL = 3 * time.Second })))
	f.Gateway()
	f.Orchestrator()
	entered, leave := make(chan struct{}), make(chan struct{})
	defer close(leave)
	slow := tool.Define("lookup", "Look up.", func(c tool.Context, _ input) (string, error) {
		close(entered)
		select {
		case <-leave:
		case <-c.Done():
		}
		return "", c.Err()
	})
	first := f.Tools(groupDemo, slow)
	first.Stop()
	f.Apply([]string{groupDemo}, scripted("slow", nil, []agent.Tool{workerTool(groupDemo, "lookup")}, agent.Turn{ToolCalls: []agent.ScriptCall{call("lookup")}}, agent.Turn{Text: "Done."}))
	f.Start("slow", "run_1")
	f.WaitType("run_1", crumbs.TypeToolCalled)
	x := explained(t, f, "run_1")
	w := only(t, x)
	if w.Kind != crumbs.WaitTool || w.Place != crumbs.PlaceQueue || w.Workers != 0 || w.Pending != 1 || w.Queue != groupDemo || x.Command != "start your worker of group demo" {
		t.Errorf("queued without workers: %+v; %s", w, x.Command)
	}
	hand := f.Tools(groupDemo, slow)
	<-entered
	f.Until("it runs on a worker that is present", func() bool { return only(t, explained(t, f, "run_1")).Place == crumbs.PlaceRunning })
	if w = only(t, explained(t, f, "run_1")); w.Place != crumbs.PlaceRunning || w.Worker != hand.Name || w.Starts != 1 || w.Workers != 1 || !w.Until.Before(w.StartBefore.Time) { // the tool's own limit, from its start
		t.Errorf("running: %+v", w)
	}
	hand.Kill()
	f.Until("the worker's row is gone", func() bool { return only(t, explained(t, f, "run_1")).Place == crumbs.PlaceOrphan })
	if w = only(t, explained(t, f, "run_1")); w.Place != crumbs.PlaceOrphan || w.Worker != hand.Name || w.Command == "" {
		t.Errorf("orphaned: %+v", w)
	}
}

func only(t *testing.T, x crumbs.RunExplained) crumbs.RunWait {
	t.Helper()
	if len(x.WaitsFor) != 1 {
		t.Fatalf("waits for %+v", x.WaitsFor)
	}
	return x.WaitsFor[0]
}

// A run that waits for a person, one that ended well, one that failed, and none.
func TestExplain_PeopleAndEnds(t *testing.T) {
	t.Parallel()
	f := serve(t, newMeters())
	f.Apply([]string{groupDemo}, clerk())
	f.Start("clerk", "run_1")
	f.WaitSuspended("run_1")
	x := explained(t, f, "run_1")
	w := only(t, x)
	if w.Kind != crumbs.WaitPerson || w.What != "tool_pay" || x.Command != "crumb approvals approve run_1.1.3" || x.Timer == nil || x.Limits.StepsMax != 5 || x.Limits.Steps != 1 {
		t.Errorf("suspended: %+v, %+v", w, x)
	}
	if x.Last == nil || x.Last.Error.Code != fault.ToolError && x.Last.Error.Code != fault.ToolNotFound {
		t.Errorf("the last error is %+v", x.Last)
	}
	verdicts := map[string]crumbs.RunTool{}
	for _, tl := range x.Tools {
		verdicts[tl.Tool] = tl
	}
	if pay := verdicts["tool:pay"]; pay.Verdict != "ask" || pay.Rule != "tool:pay" || pay.List != "permissions.ask" || pay.Workers != 1 || pay.Effect != crumbs.EffectOnce {
		t.Errorf("pay: %+v", pay)
	}
	if look := verdicts["tool:lookup"]; look.Verdict != "allow" || look.Rule != "" || look.List != "" {
		t.Errorf("lookup: %+v", look)
	}
	if _, err := f.Approve("run_1.1.3"); err != nil {
		t.Fatal(err)
	}
	f.WaitEnd("run_1")
	f.WaitTrimmed("run_1")
	x = explained(t, f, "run_1")
	if x.Run.Status != "completed" || len(x.WaitsFor) != 0 || x.Run.Usage == nil || x.Last == nil || len(x.Tools) != 3 {
		t.Errorf("completed: %+v", x)
	}
	f.Start("nobody", "run_2")
	f.WaitEnd("run_2")
	if x = explained(t, f, "run_2"); x.Run.Status != "failed" || x.Last == nil || x.Last.Error.Code != fault.AgentNotFound {
		t.Errorf("failed: %+v", x)
	}
	err := f.Mesh.Conn.Request(context.Background(), crumbs.EndpointRunsExplain, crumbs.RunGet{RunID: "run_9"}, &x)
	if fault.CodeOf(err) != fault.RunNotFound {
		t.Errorf("unknown: %v", err)
	}
}

// A tool that permissions keep from the model is told with the selector that did;
// a model attempt that waits for its next time is told too.
func TestExplain_DeniedToolsAndRetries(t *testing.T) {
	t.Parallel()
	f := serve(t, newMeters())
	d := scripted("again", nil, []agent.Tool{workerTool(groupDemo, "lookup"), workerTool(groupDemo, "pay")}, agent.Turn{Error: &agent.TurnError{Status: 529}}, agent.Turn{Text: "Done."})
	d.Permissions.Deny = []string{"tool:pay"}
	d.ErrorHandling = agent.ErrorHandling{Retry: &agent.Retry{Attempts: 3, BackoffMs: 60_000, BackoffMultiplier: 1}}
	f.Apply([]string{groupDemo}, d)
	f.Start("again", "run_1")
	f.WaitType("run_1", crumbs.TypeStepEnd)
	x := explained(t, f, "run_1")
	if w := only(t, x); w.Kind != crumbs.WaitRetry || w.Attempt != 2 || w.Until.IsZero() || x.Last == nil || x.Last.Type != crumbs.TypeStepEnd {
		t.Errorf("retry: %+v, last %+v", w, x.Last)
	}
	pay := x.Tools[len(x.Tools)-1]
	if pay.Tool != "tool:pay" || pay.Verdict != "deny" || pay.Rule != "tool:pay" || pay.List != "permissions.deny" || pay.Name != "" {
		t.Errorf("denied: %+v", pay)
	}
}
