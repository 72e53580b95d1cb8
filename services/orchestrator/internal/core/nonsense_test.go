package core_test

import (
	"encoding/json"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/crumbmesh/crumbmesh/pkg/crumbs"
	"github.com/crumbmesh/crumbmesh/pkg/fault"
	"github.com/crumbmesh/crumbmesh/services/orchestrator/internal/core"
)

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
