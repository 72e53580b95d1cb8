package core_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/crumbmesh/crumbmesh/pkg/crumbs"
	"github.com/crumbmesh/crumbmesh/pkg/fault"
	"github.com/crumbmesh/crumbmesh/services/orchestrator/internal/core"
)

// bytesOf is a decision as what it leaves: its record and its blobs.
func bytesOf(t *rapid.T, s core.State) []byte {
	t.Helper()
	b, err := s.Encode()
	if err != nil {
		t.Fatal(err)
	}
	for _, blob := range s.Blobs {
		b = append(append(b, blob.Name...), blob.Data...)
	}
	return b
}

func TestProperty_DecideIsPure(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		live(t, func(p played) {
			before := bytesOf(t, p.before)
			first, err1 := core.Decide(p.m.p, p.before, p.event)
			second, err2 := core.Decide(p.m.p, p.before, p.event)
			if err1 != nil || err2 != nil {
				t.Fatalf("%s: decided once, then %v and %v", p.event.Kind, err1, err2)
			}
			if !bytes.Equal(bytesOf(t, first), bytesOf(t, second)) {
				t.Fatalf("%s: the same input twice gave two decisions:\n%s", p.event.Kind, apart(bytesOf(t, first), bytesOf(t, second)))
			}
			if !bytes.Equal(before, bytesOf(t, p.before)) {
				t.Fatalf("%s: deciding changed the state it was given", p.event.Kind)
			}
		})
	})
}

// A failed event is no message: what failed is decided again on redelivery.
func TestProperty_AnEventTwiceChangesNothing(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		live(t, func(p played) {
			if p.event.Kind == core.Broken {
				return
			}
			again, err := core.Decide(p.m.p, p.after, p.event)
			if err != nil {
				t.Fatal(err)
			}
			if again.Decision != p.after.Decision {
				t.Fatalf("%s changed the run again: decision %d after %d", p.event.Kind, again.Decision, p.after.Decision)
			}
		})
	})
}

// rank is the place of a crumb inside its decision (wire.md §3).
func rank(typ string) int {
	return slices.Index([]string{crumbs.TypeRunStarted, crumbs.TypeHumanResumed, crumbs.TypeStepEnd, "settled", crumbs.TypeToolBlocked, crumbs.TypeToolCalled,
		crumbs.TypeHumanRequired, "terminal"}, group(typ))
}

func group(typ string) string {
	switch {
	case typ == crumbs.TypeToolResulted || typ == crumbs.TypeToolErrored:
		return "settled"
	case crumbs.Terminal(typ):
		return "terminal"
	}
	return typ
}

func TestProperty_CrumbsAreNumberedAndInOrder(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		last, ended := uint64(0), false
		live(t, func(p played) {
			if !p.changed() {
				return
			}
			place := 0
			for i, c := range p.after.Outbox.Crumbs {
				if c.Seq != last+1 || ended {
					t.Fatalf("crumb %d %s after crumb %d (terminal: %v)", c.Seq, c.Type, last, ended)
				}
				if r := rank(c.Type); r < place {
					t.Fatalf("%s stands after a crumb that comes later in a decision", c.Type)
				} else {
					place = r
				}
				last, ended = c.Seq, crumbs.Terminal(c.Type)
				suspended := p.after.Status == core.Suspended && i == len(p.after.Outbox.Crumbs)-1
				var head crumbs.Base
				if err := json.Unmarshal(p.m.body(c), &head); err != nil {
					t.Fatal(err)
				}
				if head.Seq != c.Seq || head.Suspended != suspended {
					t.Fatalf("crumb %d says seq %d, suspended %v; want %v", c.Seq, head.Seq, head.Suspended, suspended)
				}
			}
			if p.after.Seq != last {
				t.Fatalf("the state says crumb %d, the last is %d", p.after.Seq, last)
			}
		})
	})
}

// settled is what a crumb says became of a call.
type settled struct {
	Type        string          `json:"type"`
	ToolCallID  crumbs.CallID   `json:"toolCallId"`
	ToolCallIDs []crumbs.CallID `json:"toolCallIds"`
	Outcome     string          `json:"outcome"`
}

func (c settled) settles() bool {
	switch c.Type {
	case crumbs.TypeToolResulted, crumbs.TypeToolErrored, crumbs.TypeToolBlocked:
		return true
	case crumbs.TypeHumanResumed:
		return c.Outcome != crumbs.ResumedApproved && c.Outcome != crumbs.ResumedEdited
	}
	return false
}

func TestProperty_EveryCallHasOneOutcomeAndEveryRunEnds(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		outcomes, terminal := map[crumbs.CallID]int{}, 0
		p := live(t, func(p played) {
			if !p.changed() {
				return
			}
			for _, c := range p.after.Outbox.Crumbs {
				var s settled
				if err := json.Unmarshal(p.m.body(c), &s); err != nil {
					t.Fatal(err)
				}
				for _, id := range s.ToolCallIDs {
					outcomes[id] = 0
				}
				if s.settles() {
					outcomes[s.ToolCallID]++
				}
				if crumbs.Terminal(s.Type) {
					terminal++
				}
			}
		})
		for id, n := range outcomes {
			if n != 1 {
				t.Fatalf("call %s has %d outcomes", id, n)
			}
		}
		if !p.s.Status.Ended() || terminal != 1 {
			t.Fatalf("the run is %s with %d terminal crumbs", p.s.Status, terminal)
		}
	})
}

func TestProperty_BodiesFitTheirSchemas(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		live(t, func(p played) {
			if !p.changed() {
				return
			}
			for _, c := range p.after.Outbox.Crumbs {
				valid(t, p.m.body(c))
			}
			for _, intent := range p.after.Outbox.Intents {
				cmd, _, err := core.Render(p.m.p, p.after, intent, p.m.load)
				if err != nil {
					t.Fatal(err)
				}
				valid(t, cmd.Body)
			}
		})
	})
}

// Whatever a turn holds, the record stays a good part under its bound, so that
// the failed event always fits; a suspended one is small for each question.
func TestProperty_RecordsAreBounded(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		live(t, func(p played) {
			size := len(bytesOf(t, p.after)) // what was decoded has no blobs
			if size > core.RecordMax*3/4 {
				t.Fatalf("a record of %d bytes with %d calls", size, len(p.after.Calls))
			}
			if asked := len(p.after.Calls); p.after.Status == core.Suspended && size > 4096+4096*asked {
				t.Fatalf("a suspended record of %d bytes with %d calls", size, asked)
			}
		})
	})
}

// No decision sends a call again: attempts are made by nobody but the worker's
// redelivery, which its claim rules.
func TestProperty_ACallIsSentOnce(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		sent := map[crumbs.CallID]bool{}
		live(t, func(p played) {
			if !p.changed() {
				return
			}
			for _, i := range p.after.Outbox.Intents {
				if i.Kind == core.SendTool && (sent[i.Call] || i.Attempt != 1) {
					t.Fatalf("%s is sent again, as attempt %d", i.Call, i.Attempt)
				}
				sent[i.Call] = i.Kind == core.SendTool || sent[i.Call]
			}
		})
	})
}

// A process that keeps its State and one that reads it back before each event,
// after a crash at any of them, say the same.
func TestProperty_CrashAndRedeliveryGiveTheSameCrumbs(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		var kept core.State
		live(t, func(p played) {
			next, err := core.Decide(p.m.p, kept, p.event)
			if err != nil {
				t.Fatal(err)
			}
			kept, kept.Blobs = next, nil
			if kept, readBack := bytesOf(t, kept), bytesOf(t, p.after); !bytes.Equal(kept, readBack) {
				t.Fatalf("%s: kept and read back differ:\n%s", p.event.Kind, apart(kept, readBack))
			}
			crashed, err := core.Decide(p.m.p, p.before, p.event) // decided, not written, decided again
			if err != nil {
				t.Fatal(err)
			}
			crashed.Blobs = nil
			if once, twice := bytesOf(t, p.after), bytesOf(t, crashed); !bytes.Equal(once, twice) {
				t.Fatalf("%s: decided again after a crash it differs:\n%s", p.event.Kind, apart(once, twice))
			}
		})
	})
}

// apart shows where two long texts part.
func apart(a, b []byte) string {
	const around = 200
	i := 0
	for i < min(len(a), len(b)) && a[i] == b[i] {
		i++
	}
	cut := func(s []byte) []byte { return s[max(0, i-around):min(len(s), i+around)] }
	return fmt.Sprintf("%s\n%s", cut(a), cut(b))
}

// The order in which the results of one turn come decides nothing but the
// numbers of their crumbs.
func TestProperty_ResultsOfATurnInAnyOrder(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		p := &play{machine: newMachine(), t: t, started: map[string]bool{}, revoked: map[string]bool{}, observe: func(played) {}}
		e := p.request()
		e.Request.Refused, e.Request.Run.MaxSteps, e.Request.Run.DeadlineAt = nil, 2, crumbs.Time{}
		p.deliver(e)
		turn := &crumbs.ModelResult{CallID: "run_1.1.m", Attempt: 1, Status: crumbs.StatusOK, Message: &crumbs.Message{Role: crumbs.RoleAssistant}}
		for range rapid.IntRange(2, 6).Draw(t, "calls") {
			turn.Message.Parts = append(turn.Message.Parts, p.part(0))
		}
		p.open = nil
		p.deliver(core.Event{Kind: core.ModelResult, At: crumbs.At(p.at), Model: turn})
		var answers []core.Event
		for _, cmd := range p.open {
			if cmd.Type != crumbs.TypeToolCall {
				continue // every call was blocked: the next step is out already
			}
			answers = append(answers, core.Event{Kind: core.CallResult, At: crumbs.At(p.at), Result: p.toolOutcome(cmd)})
		}
		for _, c := range p.s.Calls {
			if c.Phase == core.Asking {
				answers = append(answers, core.Event{Kind: core.Decided, At: crumbs.At(p.at), Decision: &crumbs.Decision{CheckpointID: c.ID, ArgsHash: c.ArgsHash, Outcome: crumbs.DecideReject}})
			}
		}
		permuted := *p.machine
		for _, e := range answers {
			settle(t, p.machine, e)
		}
		for _, i := range rapid.Permutation(indices(len(answers))).Draw(t, "order") {
			settle(t, &permuted, answers[i])
		}
		if a, b := standing(t, p.machine), standing(t, &permuted); !bytes.Equal(a, b) {
			t.Fatalf("the model is told something else:\n%s", apart(a, b))
		}
	})
}

func settle(t *rapid.T, m *machine, e core.Event) {
	t.Helper()
	if changed, err := m.step(e); err != nil || !changed {
		t.Fatalf("an answer settles nothing: %v", err)
	}
}

func indices(n int) []int {
	out := make([]int, n)
	for i := range out {
		out[i] = i
	}
	return out
}

// standing is all that the model has been told, wherever it is kept, and how the
// run stands.
func standing(t *rapid.T, m *machine) []byte {
	t.Helper()
	var told []crumbs.Message
	for _, segment := range m.s.Transcript.Segments {
		var messages []crumbs.Message
		if err := json.Unmarshal(m.blobs[segment], &messages); err != nil {
			t.Fatal(err)
		}
		told = append(told, messages...)
	}
	s := m.s
	b, err := json.Marshal([]any{append(told, s.Transcript.Inline...), s.Step, s.Status, s.Calls, s.Seq, s.Usage})
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// arbitrary is any well-formed event about the run, right or wrong in its state.
func arbitrary(p *play) core.Event {
	step, i := rapid.IntRange(0, 4).Draw(p.t, "step"), rapid.IntRange(0, 5).Draw(p.t, "i")
	call := crumbs.ToolCallID("run_1", step, i)
	attempt := rapid.IntRange(0, 4).Draw(p.t, "attempt")
	e := core.Event{At: crumbs.At(p.at.Add(time.Duration(rapid.IntRange(-3600, 3600).Draw(p.t, "at")) * time.Second))}
	words := func(label string, words ...string) string { return rapid.SampledFrom(words).Draw(p.t, label) }
	switch e.Kind = core.EventKind(words("kind", string(core.ModelResult), string(core.CallResult), string(core.Decided), string(core.TimerDue), string(core.Control), string(core.Broken), string(core.Requested))); e.Kind {
	case core.ModelResult:
		e.Model = p.modelTurn(core.Command{Body: json.RawMessage(`{"runId":"run_1"}`)})
		e.Model.CallID, e.Model.Attempt, e.Model.Status = crumbs.ModelCallID("run_1", step), attempt, words("status", crumbs.StatusOK, crumbs.StatusOK, crumbs.StatusError, crumbs.StatusCancelled, "what")
		if rapid.IntRange(0, 3).Draw(p.t, "no message") == 0 {
			e.Model.Message = nil
		}
	case core.CallResult:
		e.Result = &crumbs.ToolResult{CallID: call, Attempt: attempt, Group: words("group", "demo", "pay", "scripts", ""), Result: p.value("result"),
			Status: words("status", crumbs.StatusOK, crumbs.StatusError, crumbs.StatusUnknown, crumbs.StatusCancelled, "what")}
	case core.Decided:
		e.Decision = &crumbs.Decision{CheckpointID: call, Outcome: words("outcome", crumbs.DecideApprove, crumbs.DecideReject, crumbs.DecideAnswer, "what"), ArgsHash: p.hashOf(call)}
		if rapid.Bool().Draw(p.t, "with values") {
			e.Decision.Args, e.Decision.Response = p.value("args"), p.value("response")
		}
	case core.TimerDue:
		e.Timer = &crumbs.TimerDue{V: uint64(rapid.IntRange(0, int(p.s.Timer.V)+1).Draw(p.t, "v"))}
	case core.Control:
		e.Control = &crumbs.RunControl{RunID: "run_1", Action: words("action", crumbs.ActionCancel, crumbs.ActionPause, crumbs.ActionUnpause, crumbs.ActionMessage, "what")}
	case core.Broken:
		e.Broken = fault.New(fault.InternalError, "deciding failed")
	case core.Requested:
		e.Request = p.request().Request
	}
	return e
}

func TestProperty_NoEventPanics(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		p := &play{machine: newMachine(), t: t, started: map[string]bool{}, revoked: map[string]bool{}}
		p.observe = func(played) {}
		p.try(arbitrary(p))
		p.try(p.request())
		for range rapid.IntRange(0, playSteps).Draw(t, "steps") {
			if rapid.Bool().Draw(t, "arbitrary") {
				p.try(arbitrary(p))
			} else {
				p.act()
			}
		}
	})
}

// try delivers an event that may be nonsense; rapid reports a panic.
func (p *play) try(e core.Event) {
	status := p.s.Status
	p.deliver(e)
	if status.Ended() && !p.s.Run.Tombstone && p.s.Status != status && e.Kind != core.Requested {
		p.t.Fatalf("%s made a run that was %s %s", e.Kind, status, p.s.Status)
	}
}

// The largest turn there is: as many calls as are answered at all, each with
// arguments and results as large as stand in a record.
func TestRecord_OfTheLargestTurn(t *testing.T) {
	t.Parallel()
	m := newMachine()
	deliver := func(line string) {
		t.Helper()
		e, err := m.parse(line)
		if err != nil {
			t.Fatal(err)
		}
		if changed, err := m.step(e); err != nil || !changed {
			t.Fatalf("%s: changed %v, %v", line, changed, err)
		}
	}
	deliver(`requested run_1 input="go"`)
	deliver(fmt.Sprintf(`model.result run_1.1.m repeat=%d argsize=8000 textsize=8000`, core.AskedMax))
	for i := range core.CallsMax {
		deliver(fmt.Sprintf(`tool.result run_1.1.%d ok size=8000 group=scripts`, i))
	}
	if m.s.Step != 2 {
		t.Errorf("the run is at step %d, want 2", m.s.Step)
	}
}
