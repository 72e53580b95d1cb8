package durability_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/crumbmesh/crumbmesh/pkg/agent"
	"github.com/crumbmesh/crumbmesh/pkg/client"
	"github.com/crumbmesh/crumbmesh/pkg/crumbs"
	"github.com/crumbmesh/crumbmesh/pkg/decision"
	"github.com/crumbmesh/crumbmesh/pkg/fault"
	"github.com/crumbmesh/crumbmesh/pkg/perm"
	"github.com/crumbmesh/crumbmesh/pkg/tool"
)

// prompt is what the nth model call of those heard is told. Each call in it must
// have exactly one result (F147).
func prompt(t *testing.T, heard []*nats.Msg, n int) (results map[crumbs.CallID]crumbs.Part) {
	t.Helper()
	if len(heard) < n {
		t.Fatalf("%d model calls", len(heard))
	}
	var c crumbs.ModelCall
	if err := json.Unmarshal(heard[n-1].Data, &c); err != nil {
		t.Fatal(err)
	}
	results, asked := map[crumbs.CallID]crumbs.Part{}, map[crumbs.CallID]int{}
	for _, m := range c.Messages {
		for _, p := range m.Parts {
			switch p.Type {
			case crumbs.PartToolCall:
				asked[p.ToolCallID]++
			case crumbs.PartToolResult:
				asked[p.ToolCallID]--
				results[p.ToolCallID] = p
			}
		}
	}
	for id, open := range asked {
		if open != 0 {
			t.Errorf("the model is told of %s with %+d results", id, 1-open)
		}
	}
	return results
}

// Three calls that need a yes, a question and a free call in one turn: all four
// questions stand at once, the free call ran meanwhile and does not run again. One
// is rejected. The model is told of all five.
func TestQuestion_OneTurn_F023_CF_H08_CF_H16_CF_H18(t *testing.T) {
	bubble(t, func(t *testing.T, s scene) {
		s.Gateway()
		s.Approvals()
		s.Tools(groupBench, s.counted()...)
		heard := s.overheard("model.call.>")
		s.apply(human(asking(clerk("clerk", turn("", call("pay"), call("peek"), call("put"), question("confirm"), call("pay")), turn("Done.")), "pay", "put"), "confirm", time.Hour))
		s.Orchestrator()
		s.Start("clerk", "run_1")
		s.WaitSuspended("run_1")
		s.want(t, "run_1", "1.1:1")
		var page decision.Page
		s.Until("all are listed", func() bool {
			err := s.Mesh.Conn.Request(context.Background(), crumbs.EndpointApprovalsList, decision.Query{RunID: "run_1", Status: decision.StatusOpen}, &page)
			return err == nil && len(page.Approvals) == 4
		})
		approve(s, "run_1", 0, 4)
		for _, a := range []decision.Answer{
			{CheckpointID: "run_1.1.2", Outcome: crumbs.DecideReject},
			{CheckpointID: "run_1.1.3", Outcome: crumbs.DecideAnswer, Response: json.RawMessage(`false`)},
		} {
			if _, err := s.Decide(a); err != nil {
				t.Fatal(err)
			}
		}
		s.WaitEnd("run_1")
		account(t, s.Fleet, "run_1").completed("Done.").ended("1.0:ok 1.1:ok 1.2:rejected 1.3:answered 1.4:ok")
		s.want(t, "run_1", "1.0:1 1.1:1 1.4:1")
		results := prompt(t, heard(), 2)
		if got := string(results["run_1.1.2"].Output); got != `{"denied":true,"reason":"rejected by human"}` {
			t.Errorf("CF-H08: the model is told %s", got)
		}
		if got := string(results["run_1.1.3"].Output); got != "false" || len(results) != 5 {
			t.Errorf("the answer is %s, the model knows %d results", got, len(results))
		}
	})
}

// An approved tool runs; then the model fails. The person sends the answer again
// and hears that it was applied; the run goes on from the stored result.
func TestQuestion_AnswerTwice_F018_CF_H07(t *testing.T) {
	bubble(t, func(t *testing.T, s scene) {
		s.Gateway()
		s.Approvals()
		s.Tools(groupBench, s.counted()...)
		d := asking(clerk("clerk", turn("", call("pay")), agent.Turn{Error: &agent.TurnError{Status: 500}}, turn("Done.")), "pay")
		d.ErrorHandling.Retry = &agent.Retry{Attempts: 2, BackoffMs: 30_000, BackoffMultiplier: 1}
		s.apply(d)
		s.Orchestrator()
		s.Start("clerk", "run_1")
		s.WaitSuspended("run_1")
		approve(s, "run_1", 0)
		s.WaitFor("run_1", func(c stored) bool { return c.Base.Type == crumbs.TypeStepEnd && c.Base.Step == 2 })
		s.Until("the answer is applied", func() bool { return s.Row("run_1.1.0").Status == decision.StatusApplied })
		again, err := s.Approve("run_1.1.0")
		if err != nil || !again.Applied {
			t.Errorf("the same answer again: %+v, %v", again, err)
		}
		s.WaitEnd("run_1")
		account(t, s.Fleet, "run_1").completed("Done.").ended("1.0:ok")
		s.want(t, "run_1", "1.0:1")
	})
}

// Four rounds of a counted call and a question, with another orchestrator after
// each. Every call runs once, and the numbers of the crumbs go on.
func TestQuestion_Rounds_F146_CF_H15(t *testing.T) {
	bubble(t, func(t *testing.T, s scene) {
		s.Gateway()
		s.Approvals()
		s.Tools(groupBench, s.counted()...)
		const rounds = 4
		var turns []agent.Turn
		for range rounds {
			turns = append(turns, turn("", call("put"), question("confirm")))
		}
		heard := s.overheard("model.call.>")
		s.apply(human(clerk("clerk", append(turns, turn("Done."))...), "confirm", time.Hour))
		replica := s.Orchestrator()
		s.Start("clerk", "run_1")
		for round := 1; round <= rounds; round++ {
			id := crumbs.ToolCallID("run_1", round, 1)
			s.WaitFor("run_1", func(c stored) bool { return c.Base.Suspended && c.Base.Step == round })
			replica.Kill()
			replica = s.Orchestrator()
			if _, err := s.Decide(decision.Answer{CheckpointID: id, Outcome: crumbs.DecideAnswer, Response: json.RawMessage(`""`)}); err != nil {
				t.Fatal(err)
			}
		}
		s.WaitEnd("run_1")
		account(t, s.Fleet, "run_1").completed("Done.")
		s.want(t, "run_1", "1.0:1 2.0:1 3.0:1 4.0:1")
		calls := heard()
		if n := len(prompt(t, calls, rounds+1)); n != 2*rounds || len(calls) != rounds+1 {
			t.Errorf("%d model calls, the last knows %d results", len(calls), n)
		}
	})
}

// The answer to a question that was settled arrives late, while the run waits for
// another one: it does not resume the run; the right one does.
func TestQuestion_LateAnswer_F157(t *testing.T) {
	bubble(t, func(t *testing.T, s scene) {
		s.Gateway()
		s.Approvals()
		heard := s.overheard("approval.decision.>")
		s.apply(human(clerk("clerk", turn("", question("confirm")), turn("", question("confirm")), turn("Done.")), "confirm", time.Hour))
		s.Orchestrator()
		s.Start("clerk", "run_1")
		answer := func(id crumbs.CheckpointID) {
			if _, err := s.Decide(decision.Answer{CheckpointID: id, Outcome: crumbs.DecideAnswer, Response: json.RawMessage(`1`)}); err != nil {
				t.Fatal(err)
			}
		}
		s.WaitSuspended("run_1")
		answer("run_1.1.0")
		s.WaitFor("run_1", func(c stored) bool { return c.Base.Suspended && c.Base.Step == 2 })
		s.again(heard()[0])
		s.empty(crumbs.StreamInbox)
		if v := s.View("run_1"); v.Status != "suspended" || len(v.Checkpoints) != 1 || v.Checkpoints[0] != "run_1.2.0" {
			t.Errorf("after the late answer the run is %s on %v", v.Status, v.Checkpoints)
		}
		answer("run_1.2.0")
		s.WaitEnd("run_1")
		account(t, s.Fleet, "run_1").completed("Done.").ended("1.0:answered 2.0:answered")
	})
}

// While two runs wait, their agent is changed: the call needs no yes any more, then
// the tool is gone from it. The runs go on as they were started: each call runs
// once, after its answer.
func TestQuestion_AgentChanged_F031_F156(t *testing.T) {
	bubble(t, func(t *testing.T, s scene) {
		s.Gateway()
		s.Approvals()
		s.Tools(groupBench, s.counted()...)
		d := asking(clerk("clerk", turn("", call("pay")), turn("Done.")), "pay")
		s.apply(d)
		replica := s.Orchestrator()
		for i, change := range []func(){
			func() { d.Permissions = perm.Lists{} },
			func() { d.Permissions, d.Tools = perm.Lists{}, nil },
		} {
			run := crumbs.RunID("run_" + itoa(i))
			s.apply(asking(clerk("clerk", turn("", call("pay")), turn("Done.")), "pay"))
			s.Start("clerk", run)
			s.WaitSuspended(run)
			replica.Stop()
			change()
			s.apply(d)
			replica = s.Orchestrator()
			s.want(t, run, "")
			approve(s, run, 0)
			s.WaitEnd(run)
			account(t, s.Fleet, run).completed("Done.").ended("1.0:ok")
			s.want(t, run, "1.0:1")
		}
	})
}

// An approved tool streams: its partials are live and before its result.
func TestQuestion_ApprovedToolStreams_CF_S10_CF_H13(t *testing.T) {
	bubble(t, func(t *testing.T, s scene) {
		s.Gateway()
		s.Approvals()
		s.Tools(groupBench, tool.New("pay", "Pay in parts.", func(c tool.Context, _ json.RawMessage, yield tool.Yield) (json.RawMessage, error) {
			s.add(c.CallID)
			for i := range 3 {
				<-time.After(time.Second)
				if err := yield(json.RawMessage(itoa(i))); err != nil {
					return nil, err
				}
			}
			return json.RawMessage(`2`), nil
		}, tool.Stream()))
		s.apply(asking(clerk("clerk", turn("", call("pay")), turn("Done.")), "pay"))
		s.Orchestrator()
		live := s.overheard("delta.>", "crumb.*.*.tool.>")
		s.Start("clerk", "run_1")
		s.WaitSuspended("run_1")
		approve(s, "run_1", 0)
		s.WaitEnd("run_1")
		account(t, s.Fleet, "run_1").completed("Done.").ended("1.0:ok")
		s.want(t, "run_1", "1.0:1")
		var order []string
		for _, m := range live() {
			switch {
			case strings.Contains(m.Subject, ".tool.partial."):
				order = append(order, "partial")
			case strings.HasSuffix(m.Subject, ".tool.result"):
				order = append(order, "result")
			}
		}
		if got := strings.Join(order, " "); got != "partial partial partial result" {
			t.Errorf("a watcher saw %s", got)
		}
	})
}

// Who watches a run at one replica stays over its question and gets what another
// replica does after the answer, live tokens included.
func TestQuestion_WatcherStays_CF_H27(t *testing.T) {
	bubble(t, func(t *testing.T, s scene) {
		s.Gateway()
		s.Approvals()
		s.apply(human(clerk("clerk", turn("", question("confirm")), agent.Turn{Chunks: []string{"Do", "ne."}}), "confirm", time.Hour))
		replica := s.Orchestrator()
		s.Start("clerk", "run_1")
		seen, ended := make(chan string, 64), make(chan error, 1)
		go func() {
			defer close(seen)
			for item, err := range client.New(s.Mesh.Connect("watcher")).Follow(context.Background(), "run_1", client.Started("clerk"), client.WithDeltas()) {
				if err != nil {
					ended <- err
					return
				}
				seen <- item.Type
			}
			ended <- nil
		}()
		s.WaitSuspended("run_1")
		replica.Kill()
		s.Orchestrator()
		if _, err := s.Decide(decision.Answer{CheckpointID: crumbs.ToolCallID("run_1", 1, 0), Outcome: crumbs.DecideAnswer, Response: json.RawMessage(`true`)}); err != nil {
			t.Fatal(err)
		}
		if err := <-ended; err != nil {
			t.Fatal(err)
		}
		var got []string
		for typ := range seen {
			got = append(got, typ)
		}
		want := "agent:run:start tool:input:start tool:input:delta tool:input:end step:end human:required human:resumed text:delta text:delta step:end agent:run:end"
		if strings.Join(got, " ") != want {
			t.Errorf("the watcher saw\n%s, want\n%s", strings.Join(got, " "), want)
		}
	})
}

// Two runs of one agent at once: each one's subject has its own crumbs only, in
// order. The crumb of a failed tool has code, message and context, no cause.
func TestQuestion_RunsApart_CF_N15_CF_N16(t *testing.T) {
	bubble(t, func(t *testing.T, s scene) {
		s.Gateway()
		secret := errors.New("secret of the cause")
		s.Tools(groupBench, s.doing("pay", crumbs.EffectOnce, func(tool.Context, int) error {
			return fault.Wrap(fault.ToolError, secret, "the bank said no").With("bank", "north")
		}))
		s.apply(clerk("clerk", turn("", call("pay")), turn("Done.")))
		s.Orchestrator()
		s.Start("clerk", "run_1")
		s.Start("clerk", "run_10")
		for _, run := range []crumbs.RunID{"run_1", "run_10"} {
			s.WaitEnd(run)
			h := account(t, s.Fleet, run).completed("Done.").ended("1.0:error")
			for _, c := range h.stored {
				if c.Base.RunID != run {
					t.Errorf("%s is among the crumbs of %s", c.Base.RunID, run)
				}
				if bytes.Contains(c.Body, []byte("secret")) || bytes.Contains(c.Body, []byte("goroutine")) {
					t.Errorf("a crumb tells a cause or a stack: %s", c.Body)
				}
			}
			e := h.errors[crumbs.ToolCallID(run, 1, 0)].Error
			if e.Code != fault.ToolError || e.Message != "the bank said no" || e.Context["bank"] != "north" {
				t.Errorf("the error came back as %+v %v", e, e.Context)
			}
		}
	})
}

// While a person thinks, the agent is taken out of the project and the worker is
// replaced by one without the tool. The question stays listed, its run goes on with
// what it pinned, the approved call ends as TOOL_NOT_FOUND, and the model is told. A
// new run of that agent is refused.
func TestQuestion_AgentAndToolGone_CF_H22_CF_H23(t *testing.T) {
	bubble(t, func(t *testing.T, s scene) {
		s.Gateway()
		s.Approvals()
		first := s.Tools(groupBench, s.counted()...)
		s.apply(asking(clerk("clerk", turn("", call("pay")), turn("Done.")), "pay"))
		heard := s.overheard("model.call.>")
		s.Orchestrator()
		s.Start("clerk", "run_1")
		s.WaitSuspended("run_1")
		first.Stop()
		s.apply(clerk("other", turn("Done.")))
		s.Tools(groupBench, s.tool("peek", crumbs.EffectPure))
		s.Start("clerk", "run_2")
		if code := failure(t, s, "run_2"); code != fault.AgentNotFound {
			t.Errorf("a new run of the agent: %s", code)
		}
		s.Until("the question is listed", func() bool {
			var page decision.Page
			err := s.Mesh.Conn.Request(context.Background(), crumbs.EndpointApprovalsList, decision.Query{Status: decision.StatusOpen}, &page)
			return err == nil && len(page.Approvals) == 1 && page.Approvals[0].AgentID == "clerk"
		})
		approve(s, "run_1", 0)
		s.WaitEnd("run_1")
		h := account(t, s.Fleet, "run_1").completed("Done.").ended("1.0:error")
		if e := h.errors["run_1.1.0"].Error; e.Code != fault.ToolNotFound {
			t.Errorf("the approved call: %v", e)
		}
		s.want(t, "run_1", "")
		if r := prompt(t, heard(), 2)["run_1.1.0"]; !strings.Contains(string(r.Output), "TOOL_NOT_FOUND") {
			t.Errorf("the model is told %s", r.Output)
		}
	})
}
