package guard_test

import (
	"encoding/json"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/nats-io/nats.go"

	"github.com/crumbmesh/crumbmesh/internal/fleet"
	"github.com/crumbmesh/crumbmesh/internal/meshtest"
	"github.com/crumbmesh/crumbmesh/pkg/agent"
	"github.com/crumbmesh/crumbmesh/pkg/client"
	"github.com/crumbmesh/crumbmesh/pkg/crumbs"
	"github.com/crumbmesh/crumbmesh/pkg/decision"
	"github.com/crumbmesh/crumbmesh/pkg/fault"
	"github.com/crumbmesh/crumbmesh/pkg/mesh/access"
	"github.com/crumbmesh/crumbmesh/pkg/perm"
	"github.com/crumbmesh/crumbmesh/pkg/tool"
)

// payer asks a person twice: two runs of it have a question each.
func payer() *agent.Definition {
	return &agent.Definition{
		ID: "payer", Model: agent.Model{Provider: "script", Model: "main"}, Output: agent.Output{Format: agent.FormatText}, Steps: agent.Steps{Max: 5},
		Permissions: perm.Lists{Ask: []string{"tool:pay"}}, Tools: []agent.Tool{workerTool(payments, "pay")},
		Scripts: map[string]agent.Script{"main": {Turns: []agent.Turn{
			{ToolCalls: []agent.ScriptCall{{Name: "tool_pay", Args: json.RawMessage(`{"text":"42"}`)}}}, {Text: "Done."},
		}}},
	}
}

// Even with the key of the approvals service on NATS nobody decides without the key
// that signs: what is unsigned, signed by another, changed, or about another
// question is kept as a dead letter that says so, and the run waits on.
func TestDecision_ForgedIsRefusedAndKept(t *testing.T) {
	t.Parallel()
	f := fleet.New(t, meshtest.StartGuarded(t, []string{payments}, []string{"script"}))
	var paid atomic.Int64
	f.Gateway()
	f.Orchestrator()
	f.Approvals()
	f.Tools(payments, tool.Define("pay", "Pay.", func(_ tool.Context, in textIn) (string, error) { paid.Add(1); return "paid " + in.Text, nil }))
	f.Apply([]string{payments}, payer())
	var asked crumbs.HumanRequired
	for _, run := range []crumbs.RunID{"run_1", "run_2"} {
		f.Start("payer", run)
		f.WaitFor(run, func(c fleet.Stored) bool { return c.Base.Suspended })
		for _, c := range f.Crumbs(run) {
			if c.Base.Type == crumbs.TypeHumanRequired && run == "run_1" {
				if err := json.Unmarshal(c.Body, &asked); err != nil {
					t.Fatal(err)
				}
			}
		}
	}
	forge := func(change func(*crumbs.Decision), key *decision.Key) crumbs.Decision {
		d := crumbs.Decision{Type: crumbs.TypeDecision, RunID: "run_1", CheckpointID: asked.CheckpointID, ToolCallID: asked.CheckpointID, ArgsHash: asked.ArgsHash,
			Outcome: crumbs.DecideApprove, By: crumbs.Principal{Issuer: "local", Subject: "eve"}, Via: decision.ViaCLI}
		change(&d)
		if key != nil {
			if err := key.Sign(&d); err != nil {
				t.Fatal(err)
			}
		}
		return d
	}
	other, right := decision.NewKey(), f.Key
	same := func(*crumbs.Decision) {}
	signed := forge(func(d *crumbs.Decision) { d.RunID, d.CheckpointID, d.ToolCallID = "run_2", "run_2.1.0", "run_2.1.0" }, &right)
	attacker := f.Mesh.ConnectAs(access.RoleApprovals)
	for i, tc := range []struct {
		name string
		d    crumbs.Decision
	}{
		{"unsigned", forge(same, nil)},
		{"signed by another key", forge(same, &other)},
		{"changed after it was signed", func() crumbs.Decision {
			d := forge(func(d *crumbs.Decision) { d.Outcome = crumbs.DecideReject }, &right)
			d.Outcome = crumbs.DecideApprove
			return d
		}()},
		{"of another run, under this one's name", func() crumbs.Decision {
			d := signed
			d.RunID, d.CheckpointID, d.ToolCallID = "run_1", asked.CheckpointID, asked.CheckpointID
			return d
		}()},
		{"of another run, on this one's subject", signed},
	} {
		body, err := json.Marshal(tc.d)
		if err != nil {
			t.Fatal(err)
		}
		f.Until("the one before to be gone", func() bool {
			left, err := f.Mesh.Conn.Last(t.Context(), crumbs.StreamInbox, crumbs.DecisionSubject("run_1", asked.CheckpointID))
			return err == nil && left == nil
		})
		if err := attacker.PublishOnce(t.Context(), &nats.Msg{Subject: crumbs.DecisionSubject("run_1", asked.CheckpointID), Data: body}); err != nil {
			t.Fatalf("%s: %v", tc.name, err)
		}
		f.Until("a dead letter of "+tc.name, func() bool {
			return len(f.Messages(crumbs.StreamDead, crumbs.DeadFilter(crumbs.StreamInbox, "run_1"))) == i+1
		})
	}
	for i, m := range f.Messages(crumbs.StreamDead, crumbs.DeadFilter(crumbs.StreamInbox, "run_1")) {
		if code := m.Headers().Get(crumbs.DeadCode); code != string(fault.DecisionInvalid) && code != string(fault.InvalidMessage) {
			t.Errorf("letter %d says %s", i, code)
		}
	}
	if n := paid.Load(); n != 0 {
		t.Fatalf("paid %d times", n)
	}
	person, _ := as(t, f, access.RoleApprover)
	if _, err := person.Resume(t.Context(), asked.CheckpointID, client.Approve(asked, crumbs.Principal{Issuer: "local", Subject: "ada"})); err != nil {
		t.Fatal(err)
	}
	f.WaitEnd("run_1")
	if n := paid.Load(); n != 1 {
		t.Errorf("paid %d times, want once", n)
	}
	var types []string
	for _, c := range f.Crumbs("run_2") {
		types = append(types, c.Base.Type)
	}
	if strings.Contains(strings.Join(types, " "), crumbs.TypeHumanResumed) {
		t.Errorf("run_2 went on: %v", types)
	}
}
