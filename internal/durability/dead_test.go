package durability_test

import (
	"context"
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/crumbmesh/crumbmesh/pkg/crumbs"
	"github.com/crumbmesh/crumbmesh/pkg/fault"
	"github.com/crumbmesh/crumbmesh/pkg/mesh"
	"github.com/crumbmesh/crumbmesh/pkg/tool"
)

// ask asks an endpoint of dead letters.
func (s scene) ask(subject string, in, out any) error {
	return s.Mesh.Conn.Request(context.Background(), subject, in, out)
}

func by(name string) *crumbs.Principal { return &crumbs.Principal{Issuer: "local", Subject: name} }

func (s scene) redrive(r crumbs.DeadRedrive) (crumbs.DeadReceipt, error) {
	if r.By == nil {
		r.By = by("ada")
	}
	var receipt crumbs.DeadReceipt
	return receipt, s.ask(crumbs.EndpointDeadRedrive, r, &receipt)
}

func (s scene) answer(a crumbs.DeadAnswer) (crumbs.DeadReceipt, error) {
	if a.By == nil {
		a.By = by("ada")
	}
	var receipt crumbs.DeadReceipt
	return receipt, s.ask(crumbs.EndpointDeadAnswer, a, &receipt)
}

// letters are the dead letters of a run, the newest first.
func (s scene) letters(run crumbs.RunID) []crumbs.DeadLetter {
	s.t.Helper()
	var page crumbs.DeadPage
	if err := s.ask(crumbs.EndpointDeadList, crumbs.DeadList{RunID: run}, &page); err != nil {
		s.t.Fatal(err)
	}
	return page.Letters
}

// refused checks the code of an order that was not followed and returns what it said.
func refused(t *testing.T, err error, code fault.Code, says ...string) {
	t.Helper()
	f := fault.From(err)
	if fault.CodeOf(err) != code {
		t.Fatalf("got %v, want %s", err, code)
	}
	for _, text := range says {
		if !strings.Contains(f.Message, text) {
			t.Errorf("%s does not say %q", f.Message, text)
		}
	}
}

// A call waits for a worker that never comes. An operator supplies its outcome: the
// run goes on with it and says by whom; the call can never start any more, and who
// answers second is told who was first.
func TestDead_AnswerOfACallThatNobodyTakes(t *testing.T) {
	bubble(t, func(t *testing.T, s scene) {
		s.Gateway()
		s.announced(groupBench, "pay")
		s.apply(clerk("clerk", turn("", call("pay")), turn("Done.")))
		s.Orchestrator()
		s.Start("clerk", "run_1")
		s.WaitType("run_1", crumbs.TypeToolCalled)
		id := crumbs.ToolCallID("run_1", 1, 0)
		receipt, err := s.answer(crumbs.DeadAnswer{CallID: id, Result: json.RawMessage(`{"receipt":7}`), Reason: "paid by hand"})
		if err != nil || !receipt.Applied || receipt.Already || receipt.By != "local:ada" || receipt.Attempt != 1 {
			t.Fatalf("%+v %v", receipt, err)
		}
		again, err := s.answer(crumbs.DeadAnswer{CallID: id, Result: json.RawMessage(`{"receipt":8}`)})
		if err != nil || !again.Already || again.At == nil {
			t.Errorf("the same person again: %+v %v", again, err)
		}
		_, err = s.answer(crumbs.DeadAnswer{CallID: id, Result: json.RawMessage(`1`), By: by("bob")})
		refused(t, err, fault.CallSettled, "answered by local:ada")
		s.WaitEnd("run_1")
		h := account(t, s.Fleet, "run_1").completed("Done.").ended("1.0:ok")
		if r := h.results[id]; string(r.Result) != `{"receipt":7}` || r.By == nil || r.By.Subject != "ada" || r.Reason != "paid by hand" || r.Worker != "" {
			t.Errorf("the crumb says %+v", r)
		}
		s.WaitTrimmed("run_1")
		if held, _ := s.Stream(crumbs.StreamToolCalls); held != 0 {
			t.Errorf("%d messages wait for a worker although the call has its outcome", held)
		}
		_, err = s.answer(crumbs.DeadAnswer{CallID: id, Error: fault.New(fault.ToolError, "no"), By: by("bob")})
		refused(t, err, fault.CallSettled, "answered by local:ada")
		s.Tools(groupBench, s.counted()...)
		s.empty(crumbs.StreamToolCalls, crumbs.StreamInbox)
		s.want(t, "run_1", "")
		notes := s.Messages(crumbs.StreamDead, "dead.TOOLCALLS.run_1.*.answer")
		if len(notes) != 1 || notes[0].Headers().Get(crumbs.DeadActor) != "local:ada" {
			t.Errorf("%d notes on the answer", len(notes))
		}
	})
}

// An attempt is given up for the next one: what waited in the queue is dropped, the
// next one runs once, under a claim of its own.
func TestDead_RedriveOfACall(t *testing.T) {
	bubble(t, func(t *testing.T, s scene) {
		s.Gateway()
		s.announced(groupBench, "pay")
		s.apply(clerk("clerk", turn("", call("pay")), turn("Done.")))
		s.Orchestrator()
		s.Start("clerk", "run_1")
		s.WaitType("run_1", crumbs.TypeToolCalled)
		id := crumbs.ToolCallID("run_1", 1, 0)
		receipt, err := s.redrive(crumbs.DeadRedrive{CallID: id, Reason: "workers are back"})
		if err != nil || !receipt.Applied || receipt.Attempt != 2 {
			t.Fatalf("%+v %v", receipt, err)
		}
		if held, _ := s.Stream(crumbs.StreamToolCalls); held != 1 {
			t.Errorf("%d messages wait, want the next attempt alone", held)
		}
		s.Tools(groupBench, s.counted()...)
		s.WaitEnd("run_1")
		account(t, s.Fleet, "run_1").completed("Done.").ended("1.0:ok")
		s.want(t, "run_1", "1.0:1")
		if first, second := s.Claim(id, 1), s.Claim(id, 2); first.State != mesh.ClaimRevoked || first.Starts != 0 || second.Starts != 1 {
			t.Errorf("claims: %+v %+v", first, second)
		}
		s.empty(crumbs.StreamToolCalls, crumbs.StreamInbox)
		_, err = s.redrive(crumbs.DeadRedrive{CallID: id})
		refused(t, err, fault.RunEnded)
	})
}

// A redrive that is repeated while its attempt is in flight is told of the first and
// changes nothing. By force, or when that attempt is nowhere any more, another is sent.
func TestDead_RedriveOfACallIsNotRepeated(t *testing.T) {
	bubble(t, func(t *testing.T, s scene) {
		s.Gateway()
		s.announced(groupBench, "pay")
		s.apply(clerk("clerk", turn("", call("pay")), turn("Done.")))
		s.Orchestrator()
		s.Start("clerk", "run_1")
		s.WaitType("run_1", crumbs.TypeToolCalled)
		id := crumbs.ToolCallID("run_1", 1, 0)
		wants := func(r crumbs.DeadRedrive, attempt int, already bool) {
			t.Helper()
			got, err := s.redrive(r)
			if err != nil || !got.Applied || got.Attempt != attempt || got.Already != already || got.By != "local:ada" || already && got.At == nil {
				t.Errorf("%+v %v; expected attempt %d of local:ada, already %v", got, err, attempt, already)
			}
		}
		wants(crumbs.DeadRedrive{CallID: id}, 2, false)
		wants(crumbs.DeadRedrive{CallID: id}, 2, true)
		wants(crumbs.DeadRedrive{CallID: id, By: by("bob")}, 2, true)
		d := &mesh.Delivery{Subject: "tool.call.bench.run_1", Sequence: 71, Header: nats.Header{"ce-id": {id.Attempt(1)}}, Data: []byte("{}")}
		letter, err := s.Mesh.Conn.DeadLetter(t.Context(), crumbs.StreamToolCalls, "run_1", d, fault.New(fault.ToolLost, "test"))
		if err != nil {
			t.Fatal(err)
		}
		wants(crumbs.DeadRedrive{ID: letter}, 2, true)
		_, err = s.redrive(crumbs.DeadRedrive{ID: letter, By: by("bob")})
		refused(t, err, fault.CallSettled, "redriven as attempt 2 by local:ada")
		wants(crumbs.DeadRedrive{CallID: id, Force: true}, 3, false)
		wants(crumbs.DeadRedrive{CallID: id}, 3, true)
		calls, err := s.Mesh.Conn.JS.Stream(t.Context(), crumbs.StreamToolCalls)
		if err == nil {
			err = calls.Purge(t.Context())
		}
		if err != nil {
			t.Fatal(err)
		}
		wants(crumbs.DeadRedrive{CallID: id}, 3, true) // it may be on its way
		<-time.After(2 * time.Minute)
		wants(crumbs.DeadRedrive{CallID: id}, 4, false)
		s.Tools(groupBench, s.counted()...)
		s.WaitEnd("run_1")
		h := account(t, s.Fleet, "run_1").completed("Done.").ended("1.0:ok")
		if got := h.results[id].Attempt; got != 4 {
			t.Errorf("the crumb names attempt %d, want 4", got)
		}
		s.want(t, "run_1", "1.0:1")
	})
}

// A redrive that is repeated when its attempt had started does not say that all is
// well: it names the holder of a call that must not happen twice. What may be repeated
// goes to the next worker by itself.
func TestDead_RepeatedRedriveOfAStartedCall(t *testing.T) {
	bubble(t, func(t *testing.T, s scene) {
		s.Gateway()
		s.Tools(groupBench, s.tool("pay", crumbs.EffectOnce), s.tool("peek", crumbs.EffectPure)).Stop()
		s.apply(clerk("clerk", turn("", call("pay"), call("peek")), turn("Done.")))
		s.Orchestrator()
		s.Start("clerk", "run_1")
		s.WaitType("run_1", crumbs.TypeToolCalled)
		pay, peek := crumbs.ToolCallID("run_1", 1, 0), crumbs.ToolCallID("run_1", 1, 1)
		for _, id := range []crumbs.CallID{pay, peek} {
			if got, err := s.redrive(crumbs.DeadRedrive{CallID: id}); err != nil || got.Attempt != 2 {
				t.Fatalf("%+v %v", got, err)
			}
		}
		hangs := func(c tool.Context, nth int) error {
			if nth > 1 {
				return nil
			}
			<-c.Done()
			return c.Err()
		}
		w := s.Tools(groupBench, s.doing("pay", crumbs.EffectOnce, hangs), s.doing("peek", crumbs.EffectPure, hangs))
		s.Until("both run", func() bool { return s.total("run_1") == 2 })
		for _, id := range []crumbs.CallID{pay, peek} {
			_, err := s.redrive(crumbs.DeadRedrive{CallID: id})
			refused(t, err, fault.CallStarted, "attempt 2", "is present")
		}
		w.Kill()
		<-time.After(time.Minute)
		_, err := s.redrive(crumbs.DeadRedrive{CallID: pay})
		refused(t, err, fault.CallStarted, "attempt 2", "is gone")
		if got, err := s.redrive(crumbs.DeadRedrive{CallID: peek}); err != nil || !got.Already || got.Attempt != 2 {
			t.Errorf("%+v %v", got, err)
		}
		s.Tools(groupBench, s.doing("pay", crumbs.EffectOnce, hangs), s.doing("peek", crumbs.EffectPure, hangs))
		s.WaitEnd("run_1")
		account(t, s.Fleet, "run_1").completed("Done.").ended("1.0:unknown 1.1:ok")
		s.want(t, "run_1", "1.0:1 1.1:2")
	})
}

// A call whose time is over is in its grace, and its claim is revoked: that it had
// started is not forgotten. It must not be sent again without force.
func TestDead_OnceCallInItsGrace(t *testing.T) {
	bubble(t, func(t *testing.T, s scene) {
		s.Gateway()
		w := s.Tools(groupBench, s.doing("pay", crumbs.EffectOnce, func(c tool.Context, _ int) error { <-c.Done(); return c.Err() }))
		s.apply(clerk("clerk", turn("", call("pay")), turn("Done.")))
		s.Orchestrator()
		s.Start("clerk", "run_1")
		s.Until("the call runs", func() bool { return s.total("run_1") == 1 })
		w.Kill()
		id := crumbs.ToolCallID("run_1", 1, 0)
		s.Until("its time is over", func() bool { return s.Claim(id, 1).State == mesh.ClaimRevoked })
		_, err := s.redrive(crumbs.DeadRedrive{CallID: id})
		refused(t, err, fault.CallStarted, "must not happen twice")
		s.WaitEnd("run_1")
		account(t, s.Fleet, "run_1").completed("Done.").ended("1.0:unknown")
		s.want(t, "run_1", "1.0:1")
	})
}

// A model call that was redriven is not sent again by a repeated redrive either.
func TestDead_RedriveOfAModelCallIsNotRepeated(t *testing.T) {
	bubble(t, func(t *testing.T, s scene) {
		s.apply(clerk("clerk", turn("never asked for"), turn("Done.")))
		s.Orchestrator()
		s.Start("clerk", "run_1")
		id := crumbs.ModelCallID("run_1", 1)
		s.WaitType("run_1", crumbs.TypeRunStarted)
		for n, want := range []bool{false, true} {
			if got, err := s.redrive(crumbs.DeadRedrive{CallID: id}); err != nil || got.Already != want || got.Attempt != 2 {
				t.Fatalf("redrive %d: %+v %v", n+1, got, err)
			}
		}
		s.Gateway()
		s.WaitEnd("run_1")
		account(t, s.Fleet, "run_1").completed("Done.")
	})
}

// A letter that is edited after its redrive is another message: it is redriven anew,
// once, and what the first redrive sent stays as it is.
func TestDead_EditAfterARedriveIsRedrivenAnew(t *testing.T) {
	bubble(t, func(t *testing.T, s scene) {
		s.Gateway()
		s.apply(clerk("clerk", turn("Done.")))
		s.Orchestrator()
		if _, err := s.Mesh.Conn.Publish(t.Context(), &nats.Msg{Subject: "run.request.NO", Data: []byte(`{}`)}); err != nil {
			t.Fatal(err)
		}
		s.Until("it is a dead letter", func() bool { held, _ := s.Stream(crumbs.StreamDead); return held == 1 })
		edit := func(body string) uint64 {
			t.Helper()
			var receipt crumbs.DeadReceipt
			if err := s.ask(crumbs.EndpointDeadEdit, crumbs.DeadEdit{ID: 1, By: by("ada"), Body: json.RawMessage(body)}, &receipt); err != nil {
				t.Fatal(err)
			}
			return receipt.ID
		}
		wants := func(id uint64, run crumbs.RunID, already bool) {
			t.Helper()
			if got, err := s.redrive(crumbs.DeadRedrive{ID: id}); err != nil || got.Already != already || !already && got.RunID != run {
				t.Fatalf("%+v %v; expected run %s, already %v", got, err, run, already)
			}
		}
		older := edit(`{"agentId":"clerk","runId":"run_1","input":1}`)
		wants(1, "run_1", false)
		wants(1, "run_1", true)
		newer := edit(`{"agentId":"clerk","runId":"run_2","input":2}`)
		var l crumbs.DeadLetter
		if err := s.ask(crumbs.EndpointDeadGet, crumbs.DeadGet{ID: 1}, &l); err != nil || l.Status != crumbs.DeadEdited {
			t.Errorf("after the edit: %+v %v", l, err)
		}
		wants(older, "run_1", true)
		wants(newer, "run_2", false)
		wants(1, "run_2", true)
		s.WaitEnd("run_1")
		s.WaitEnd("run_2")
		edit(`{"agentId":"clerk","runId":"run_2","input":3}`)
		_, err := s.redrive(crumbs.DeadRedrive{ID: 1})
		refused(t, err, fault.RunConflict, "crumb dead edit 1`")
	})
}

// The same holds for controls, also within the time in which the server drops what
// is sent twice.
func TestDead_EditedControlIsSentAnew(t *testing.T) {
	bubble(t, func(t *testing.T, s scene) {
		s.apply(clerk("clerk", turn("Done.")))
		s.Orchestrator()
		s.Start("clerk", "run_1")
		s.WaitType("run_1", crumbs.TypeRunStarted)
		if _, err := s.Mesh.Conn.Publish(t.Context(), &nats.Msg{Subject: crumbs.ControlSubject("run_1"), Data: []byte("no json")}); err != nil {
			t.Fatal(err)
		}
		s.Until("it is a dead letter", func() bool { held, _ := s.Stream(crumbs.StreamDead); return held == 1 })
		for _, body := range []string{`{"runId":"run_1","controlId":"ctl_1","action":"pause"}`, `{"runId":"run_1","controlId":"ctl_2","action":"cancel"}`} {
			edit := crumbs.DeadEdit{ID: 1, Body: json.RawMessage(body), By: by("ada")}
			if err := s.ask(crumbs.EndpointDeadEdit, edit, new(crumbs.DeadReceipt)); err != nil {
				t.Fatal(err)
			}
			if got, err := s.redrive(crumbs.DeadRedrive{ID: 1}); err != nil || got.Already {
				t.Fatalf("%s: %+v %v", body, got, err)
			}
		}
		s.WaitEnd("run_1")
	})
}

// A call that had started is not given up by a slip: its holder is named. With force
// it is interrupted, and the next attempt is the operator's word against its effect.
func TestDead_StartedCallNeedsForce(t *testing.T) {
	bubble(t, func(t *testing.T, s scene) {
		s.Gateway()
		w := s.Tools(groupBench, s.doing("pay", crumbs.EffectOnce, func(c tool.Context, nth int) error {
			if nth == 1 {
				<-c.Done()
				return c.Err()
			}
			return nil
		}))
		s.apply(clerk("clerk", turn("", call("pay")), turn("Done.")))
		s.Orchestrator()
		s.Start("clerk", "run_1")
		s.Until("the call runs", func() bool { return s.total("run_1") == 1 })
		id := crumbs.ToolCallID("run_1", 1, 0)
		_, err := s.redrive(crumbs.DeadRedrive{CallID: id})
		refused(t, err, fault.CallStarted, "is present")
		if f := fault.From(err); f.Context["worker"] != w.Name {
			t.Errorf("the holder is %v", f.Context["worker"])
		}
		_, err = s.answer(crumbs.DeadAnswer{CallID: id, Result: json.RawMessage(`1`)})
		refused(t, err, fault.CallStarted, "is present")
		receipt, err := s.redrive(crumbs.DeadRedrive{CallID: id, Force: true, Reason: "it hangs"})
		if err != nil || receipt.Attempt != 2 {
			t.Fatalf("%+v %v", receipt, err)
		}
		s.WaitEnd("run_1")
		account(t, s.Fleet, "run_1").completed("Done.").ended("1.0:ok")
		s.want(t, "run_1", "1.0:2")
		s.empty(crumbs.StreamToolCalls, crumbs.StreamInbox)
	})
}

// A `once` call whose worker died is not redriven without force: whether its effect
// happened nobody knows. An operator who looked may answer.
func TestDead_OrphanedOnceCall(t *testing.T) {
	bubble(t, func(t *testing.T, s scene) {
		s.Gateway()
		w := s.Tools(groupBench, s.doing("pay", crumbs.EffectOnce, func(c tool.Context, _ int) error { <-c.Done(); return c.Err() }))
		s.apply(clerk("clerk", turn("", call("pay")), turn("Done.")))
		s.Orchestrator()
		s.Start("clerk", "run_1")
		s.Until("the call runs", func() bool { return s.total("run_1") == 1 })
		w.Kill()
		<-time.After(time.Minute)
		id := crumbs.ToolCallID("run_1", 1, 0)
		_, err := s.redrive(crumbs.DeadRedrive{CallID: id})
		refused(t, err, fault.CallStarted, "is gone")
		if _, err := s.answer(crumbs.DeadAnswer{CallID: id, Error: fault.New(fault.OutcomeUnknown, "the bank does not say")}); err != nil {
			t.Fatal(err)
		}
		s.WaitEnd("run_1")
		h := account(t, s.Fleet, "run_1").completed("Done.").ended("1.0:unknown")
		if e := h.errors[id]; e.By == nil || e.By.Subject != "ada" || e.Error.Message != "the bank does not say" {
			t.Errorf("%+v", e)
		}
		s.want(t, "run_1", "1.0:1")
	})
}

// A request under a used run id lies among the dead letters. It is refused as it is;
// edited it starts its run, once, and the letter stays as it was.
func TestDead_RequestIsEditedAndRedriven(t *testing.T) {
	bubble(t, func(t *testing.T, s scene) {
		s.Gateway()
		s.apply(clerk("clerk", turn("Done.")))
		s.Orchestrator()
		s.Start("clerk", "run_1")
		s.WaitEnd("run_1")
		if err := s.Request(crumbs.RunRequest{AgentID: "clerk", RunID: "run_1", Input: json.RawMessage(`{"other":true}`)}); err != nil {
			t.Fatal(err)
		}
		s.Until("the request is given up", func() bool { return len(s.letters("run_1")) == 1 })
		l := s.letters("run_1")[0]
		if l.Code != fault.RunConflict || l.Stream != crumbs.StreamRequests || l.Subject != "run.request.clerk" || l.Status != crumbs.DeadOpen || l.Deliveries == 0 || l.StoredAt == nil || l.By != "orchestrator" {
			t.Errorf("%+v", l)
		}
		_, err := s.redrive(crumbs.DeadRedrive{ID: l.ID})
		refused(t, err, fault.RunConflict, "crumb dead edit")
		edit := crumbs.DeadEdit{ID: l.ID, By: by("ada"), Reason: "another id", Body: json.RawMessage(`{"agentId":"clerk","runId":"run_2","input":7,"deltas":"x"}`)}
		var receipt crumbs.DeadReceipt
		refused(t, s.ask(crumbs.EndpointDeadEdit, edit, &receipt), fault.InvalidMessage, "deltas")
		edit.Body = json.RawMessage(`{"agentId":"clerk","runId":"run_2","input":7}`)
		if err := s.ask(crumbs.EndpointDeadEdit, edit, &receipt); err != nil || receipt.Of != l.ID || receipt.ID == l.ID {
			t.Fatalf("%+v %v", receipt, err)
		}
		for n, id := range []uint64{l.ID, l.ID, receipt.ID} {
			got, err := s.redrive(crumbs.DeadRedrive{ID: id})
			if err != nil || got.Already != (n > 0) {
				t.Fatalf("redrive %d: %+v %v", n, got, err)
			}
		}
		s.WaitEnd("run_2")
		account(t, s.Fleet, "run_2").completed("Done.")
		var whole crumbs.DeadLetter
		if err := s.ask(crumbs.EndpointDeadGet, crumbs.DeadGet{ID: l.ID}, &whole); err != nil {
			t.Fatal(err)
		}
		if !strings.Contains(string(whole.Body), `"other":true`) || len(whole.Acts) != 2 || whole.Acts[0].Act != crumbs.ActEdit || whole.Acts[0].By != "local:ada" || whole.Status != crumbs.DeadRedriven {
			t.Errorf("the letter is %+v", whole)
		}
		if list := s.letters("run_1"); len(list) != 1 || list[0].Status != crumbs.DeadRedriven {
			t.Errorf("listed: %+v", list)
		}
	})
}

// What must not be sent again is refused, with what can be done instead.
func TestDead_RedriveIsRefused(t *testing.T) {
	bubble(t, func(t *testing.T, s scene) {
		s.Gateway()
		s.Approvals()
		s.announced(groupBench, "pay")
		s.apply(asking(clerk("asker", turn("", call("pay")), turn("Done.")), "pay"), clerk("clerk", turn("", call("pay")), turn("Done.")))
		s.Orchestrator()
		s.Start("asker", "run_1")
		s.WaitSuspended("run_1")
		s.Start("clerk", "run_2")
		s.WaitType("run_2", crumbs.TypeToolCalled)
		dead := func(stream string, run crumbs.RunID, subject, body string, header map[string][]string) uint64 {
			id, err := s.Mesh.Conn.DeadLetter(context.Background(), stream, run, &mesh.Delivery{Subject: subject, Sequence: 1, Header: header, Data: []byte(body)}, fault.New(fault.InvalidMessage, "test"))
			if err != nil {
				t.Fatal(err)
			}
			return id
		}
		waiting := crumbs.ToolCallID("run_2", 1, 0)
		for _, c := range []struct {
			id   uint64
			code fault.Code
			says string
		}{
			{dead("KV_runs", "run_9", "$KV.runs.run_9", "{broken", nil), fault.RedriveRefused, "record"},
			{dead(crumbs.StreamTimers, "run_2", "timer.due.run_2.77", "{}", nil), fault.RedriveRefused, "arms its timers itself"},
			{dead(crumbs.StreamInbox, "run_2", "tool.result.bench.run_2.run_2-1-0-7", "{}", nil), fault.RedriveRefused, "crumb dead answer"},
			{dead(crumbs.StreamInbox, "run_8", "model.result.script.run_8.run_8-1-m-1", "{}", nil), fault.RedriveRefused, "RUN.STEP.m"},
			{dead(crumbs.StreamInbox, "run_6", "approval.decision.run_6.run_6-1-0", "{}", nil), fault.RedriveRefused, "approvals service"},
			{dead(crumbs.StreamInbox, "run_5", "run.control.run_5", "{}", nil), fault.RedriveRefused, "crumb dead edit"},
			{dead(crumbs.StreamCrumbs, "run_2", "crumb.clerk.run_2.human.required", "{}", nil), fault.RedriveRefused, "a crumb"},
			{dead(crumbs.StreamToolCalls, "run_2", "tool.call.bench.run_2", "{}", nil), fault.RedriveRefused, "which call"},
			{dead(crumbs.StreamToolCalls, "run_1", "tool.call.bench.run_1", "{}", map[string][]string{"ce-id": {"run_1.1.0.1"}}), fault.RedriveRefused, "crumb approvals"},
			{dead(crumbs.StreamRequests, "run_7", "run.request.clerk", "{", nil), fault.RedriveRefused, "crumb dead edit"},
			{999_999, fault.DeadLetterNotFound, ""},
		} {
			_, err := s.redrive(crumbs.DeadRedrive{ID: c.id})
			refused(t, err, c.code, c.says)
		}
		_, err := s.answer(crumbs.DeadAnswer{CallID: waiting})
		refused(t, err, fault.InvalidMessage, "result")
		_, err = s.answer(crumbs.DeadAnswer{CallID: waiting, Error: fault.New("NO_SUCH_CODE", "x")})
		refused(t, err, fault.InvalidMessage, "docs/errors.md")
		_, err = s.answer(crumbs.DeadAnswer{CallID: crumbs.ModelCallID("run_2", 1), Result: json.RawMessage(`1`)})
		refused(t, err, fault.CallSettled)
		_, err = s.redrive(crumbs.DeadRedrive{ID: 1, CallID: waiting})
		refused(t, err, fault.InvalidMessage, "not both")
		_, err = s.redrive(crumbs.DeadRedrive{CallID: waiting, By: &crumbs.Principal{}})
		refused(t, err, fault.InvalidMessage, "by:")
	})
}

// given is what the mesh says of its dead letters.
func (s scene) given() crumbs.MeshDead {
	s.t.Helper()
	var v crumbs.MeshView
	if err := s.ask(crumbs.EndpointMeshGet, struct{}{}, &v); err != nil {
		s.t.Fatal(err)
	}
	return v.Dead
}

// A letter of a run that has ended can be neither redriven nor answered: it is closed,
// with a reason, and is open no more. Notes count as no letters.
func TestDead_Close(t *testing.T) {
	bubble(t, func(t *testing.T, s scene) {
		s.Gateway()
		s.apply(clerk("clerk", turn("Done.")))
		s.Orchestrator()
		s.Start("clerk", "run_1")
		s.WaitEnd("run_1")
		if _, err := s.Mesh.Conn.Publish(t.Context(), &nats.Msg{Subject: crumbs.ControlSubject("run_1"), Data: []byte("no json")}); err != nil {
			t.Fatal(err)
		}
		s.Until("it is a dead letter", func() bool { held, _ := s.Stream(crumbs.StreamDead); return held == 1 })
		l := s.letters("run_1")[0]
		edit := crumbs.DeadEdit{ID: l.ID, Body: json.RawMessage(`{"runId":"run_1","controlId":"ctl_1","action":"cancel"}`), By: by("ada")}
		if err := s.ask(crumbs.EndpointDeadEdit, edit, new(crumbs.DeadReceipt)); err != nil {
			t.Fatal(err)
		}
		if d := s.given(); d.Letters != 1 || d.Open != 1 || d.Newest.IsZero() {
			t.Errorf("before: %+v", d)
		}
		_, err := s.redrive(crumbs.DeadRedrive{ID: l.ID})
		refused(t, err, fault.RunEnded)
		var receipt, again crumbs.DeadReceipt
		refused(t, s.ask(crumbs.EndpointDeadClose, crumbs.DeadClose{ID: l.ID, By: by("ada")}, &receipt), fault.InvalidMessage, "reason")
		refused(t, s.ask(crumbs.EndpointDeadClose, crumbs.DeadClose{ID: 99, By: by("ada"), Reason: "none"}, &receipt), fault.DeadLetterNotFound)
		if err := s.ask(crumbs.EndpointDeadClose, crumbs.DeadClose{ID: l.ID, By: by("ada"), Reason: "the run has ended"}, &receipt); err != nil || receipt.Already || receipt.ID != l.ID {
			t.Errorf("%+v %v", receipt, err)
		}
		if err := s.ask(crumbs.EndpointDeadClose, crumbs.DeadClose{ID: l.ID, By: by("bob"), Reason: "too late"}, &again); err != nil || !again.Already || again.By != "local:ada" {
			t.Errorf("again: %+v %v", again, err)
		}
		l = s.letters("run_1")[0]
		if l.Status != crumbs.DeadClosed || len(l.Acts) != 1 || l.Acts[0].Reason != "the run has ended" {
			t.Errorf("the list says %+v", l)
		}
		if d := s.given(); d.Letters != 1 || d.Open != 0 || !d.Newest.IsZero() {
			t.Errorf("after: %+v", d)
		}
	})
}

// A request that lacks several fields is told of all at once, and of the letter's id,
// also when it was edited.
func TestDead_RedriveNamesAllThatARequestLacks(t *testing.T) {
	bubble(t, func(t *testing.T, s scene) {
		s.Orchestrator()
		if _, err := s.Mesh.Conn.Publish(t.Context(), &nats.Msg{Subject: "run.request.NO", Data: []byte(`{}`)}); err != nil {
			t.Fatal(err)
		}
		s.Until("it is a dead letter", func() bool { held, _ := s.Stream(crumbs.StreamDead); return held == 1 })
		_, err := s.redrive(crumbs.DeadRedrive{ID: 1})
		refused(t, err, fault.RedriveRefused, "agentId", "runId", "crumb dead edit 1`")
	})
}
