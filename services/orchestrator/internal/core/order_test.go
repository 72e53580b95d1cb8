package core_test

import (
	"bytes"
	"encoding/json"
	"testing"

	"pgregory.net/rapid"

	"github.com/crumbmesh/crumbmesh/pkg/crumbs"
	"github.com/crumbmesh/crumbmesh/services/orchestrator/internal/core"
)

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
