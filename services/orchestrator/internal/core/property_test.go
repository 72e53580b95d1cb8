package core_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/crumbmesh/crumbmesh/pkg/crumbs"
	"github.com/crumbmesh/crumbmesh/services/orchestrator/internal/core"
)

// property watches one random run: see each delivered event, end its end.
type property func(t *rapid.T) (see func(played), end func(*play))

// A generated run is dear and a look at it cheap, so that all look at the same.
func TestProperty_RandomRuns_F088(t *testing.T) {
	t.Parallel()
	properties := []property{decideIsPure, eventTwiceChangesNothing, crashChangesNothing, crumbsAreNumberedAndInOrder,
		callsHaveOneOutcome, callsAreSentOnce, bodiesFitTheirSchemas, recordsAreBounded}
	rapid.Check(t, func(t *rapid.T) {
		var see []func(played)
		var end []func(*play)
		for _, p := range properties {
			s, e := p(t)
			see, end = append(see, s), append(end, e)
		}
		p := live(t, func(p played) {
			for _, look := range see {
				look(p)
			}
		})
		for _, look := range end {
			look(p)
		}
	})
}

func nothing(*play) {}

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

func decide(t *rapid.T, p played, s core.State) core.State {
	t.Helper()
	next, err := core.Decide(p.m.p, s, p.event)
	if err != nil {
		t.Fatalf("%s: decided once, then %v", p.event.Kind, err)
	}
	return next
}

// decideIsPure: the same input gives the same bytes and is left alone.
func decideIsPure(t *rapid.T) (func(played), func(*play)) {
	return func(p played) {
		before := bytesOf(t, p.before)
		first, second := bytesOf(t, decide(t, p, p.before)), bytesOf(t, decide(t, p, p.before))
		if !bytes.Equal(first, second) {
			t.Fatalf("%s: the same input twice gave two decisions:\n%s", p.event.Kind, apart(first, second))
		}
		if !bytes.Equal(before, bytesOf(t, p.before)) {
			t.Fatalf("%s: deciding changed the state it was given", p.event.Kind)
		}
	}, nothing
}

// eventTwiceChangesNothing; a failed event is no message: what failed is decided
// again on redelivery.
func eventTwiceChangesNothing(t *rapid.T) (func(played), func(*play)) {
	return func(p played) {
		if p.event.Kind == core.Broken {
			return
		}
		if again := decide(t, p, p.after); again.Decision != p.after.Decision {
			t.Fatalf("%s changed the run again: decision %d after %d", p.event.Kind, again.Decision, p.after.Decision)
		}
	}, nothing
}

// crashChangesNothing: a process that keeps its State through the run, and one
// that reads the record back before each event, leave the same.
func crashChangesNothing(t *rapid.T) (func(played), func(*play)) {
	var kept core.State
	return func(p played) {
		kept = decide(t, p, kept)
		kept.Blobs = nil
		if kept, readBack := bytesOf(t, kept), bytesOf(t, p.after); !bytes.Equal(kept, readBack) {
			t.Fatalf("%s: kept and read back differ:\n%s", p.event.Kind, apart(kept, readBack))
		}
	}, nothing
}

// place is where a crumb stands inside its decision.
func place(typ string) int {
	switch {
	case typ == crumbs.TypeToolErrored, typ == crumbs.TypeResultPartial:
		typ = crumbs.TypeToolResulted
	case crumbs.Terminal(typ):
		typ = crumbs.TypeAgentError
	}
	return slices.Index([]string{crumbs.TypeRunStarted, crumbs.TypeHumanResumed, crumbs.TypeStepEnd, crumbs.TypeHookErrored, crumbs.TypeToolResulted, crumbs.TypeToolBlocked,
		crumbs.TypeToolCalled, crumbs.TypeHumanRequired, crumbs.TypeAgentError}, typ)
}

// crumbsAreNumberedAndInOrder: 1, 2, 3 …, in the order of a decision, suspended on
// the last of one that suspends, exactly one terminal, last.
func crumbsAreNumberedAndInOrder(t *rapid.T) (func(played), func(*play)) {
	last, ended := uint64(0), false
	see := func(p played) {
		if !p.changed() {
			return
		}
		at := 0
		for i, c := range p.after.Outbox.Crumbs {
			if c.Seq != last+1 || ended {
				t.Fatalf("crumb %d %s after crumb %d (terminal: %v)", c.Seq, c.Type, last, ended)
			}
			stands := place(c.Type)
			if c.Type == crumbs.TypeFileGenerated || shortCircuited(p, i) {
				stands = at // beside what it belongs to
			}
			if stands < at {
				t.Fatalf("%s stands after a crumb that comes later in a decision", c.Type)
			}
			last, ended, at = c.Seq, crumbs.Terminal(c.Type), stands
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
	}
	return see, func(p *play) {
		if !ended {
			t.Fatalf("the run is %s and has no terminal crumb", p.s.Status)
		}
	}
}

// shortCircuited reports whether a tool:call stands before the tool:result that a
// hook gave it.
func shortCircuited(p played, i int) bool {
	all := p.after.Outbox.Crumbs
	return all[i].Type == crumbs.TypeToolCalled && i+1 < len(all) && all[i+1].Type == crumbs.TypeToolResulted
}

// settling is what a crumb says of calls.
type settling struct {
	Type        string          `json:"type"`
	ToolCallID  crumbs.CallID   `json:"toolCallId"`
	ToolCallIDs []crumbs.CallID `json:"toolCallIds"`
	Outcome     string          `json:"outcome"`
}

func (c settling) settles() bool {
	switch c.Type {
	case crumbs.TypeToolResulted, crumbs.TypeToolErrored, crumbs.TypeToolBlocked:
		return true
	case crumbs.TypeHumanResumed:
		return c.Outcome != crumbs.ResumedApproved && c.Outcome != crumbs.ResumedEdited
	}
	return false
}

// callsHaveOneOutcome: what a step:end names is settled by exactly one crumb.
func callsHaveOneOutcome(t *rapid.T) (func(played), func(*play)) {
	outcomes := map[crumbs.CallID]int{}
	see := func(p played) {
		if !p.changed() {
			return
		}
		for _, c := range p.after.Outbox.Crumbs {
			var s settling
			if err := json.Unmarshal(p.m.body(c), &s); err != nil {
				t.Fatal(err)
			}
			for _, id := range s.ToolCallIDs {
				outcomes[id] = 0
			}
			if s.settles() {
				outcomes[s.ToolCallID]++
			}
		}
	}
	return see, func(*play) {
		for id, n := range outcomes {
			if n != 1 {
				t.Fatalf("call %s has %d outcomes", id, n)
			}
		}
	}
}

// callsAreSentOnce: an attempt is made once and in order, also of a hook and a parser,
// and the next one of a call only when somebody orders it or after the one before it
// failed; what a redelivery to a worker does, the claim rules.
func callsAreSentOnce(t *rapid.T) (func(played), func(*play)) {
	sent := map[crumbs.CallID]int{}
	return func(p played) {
		if !p.changed() {
			return
		}
		for _, i := range p.after.Outbox.Intents {
			if i.Kind != core.SendTool && i.Kind != core.SendErrand {
				continue
			}
			if i.Attempt != sent[i.Call]+1 || i.Kind == core.SendTool && i.Attempt > 1 && !mayRepeat(p, i.Call) {
				t.Fatalf("%s is sent as attempt %d, after %d, by %s", i.Call, i.Attempt, sent[i.Call], p.event.Kind)
			}
			sent[i.Call] = i.Attempt
		}
	}, nothing
}

// mayRepeat reports whether an event may bring another attempt of a call: an order, or
// what follows a failure, its time or its hook.
func mayRepeat(p played, id crumbs.CallID) bool {
	if p.event.Kind == core.Ordered {
		return true
	}
	for _, c := range p.before.Calls {
		if c.ID == id {
			return c.Phase == core.Waiting || c.Phase == core.Hooking && c.Failed != nil ||
				p.event.Kind == core.CallResult && p.event.Result.Status == crumbs.StatusError
		}
	}
	return false
}

func bodiesFitTheirSchemas(t *rapid.T) (func(played), func(*play)) {
	return func(p played) {
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
	}, nothing
}

// recordsAreBounded: a good part under the bound, so that a failed event always
// fits; a suspended one small for each question.
func recordsAreBounded(t *rapid.T) (func(played), func(*play)) {
	const suspendedMax = 4096
	return func(p played) {
		size, calls := len(bytesOf(t, p.after)), len(p.after.Calls)
		if size > core.RecordMax*3/4 {
			t.Fatalf("a record of %d bytes with %d calls", size, calls)
		}
		if p.after.Status == core.Suspended && size > suspendedMax*(1+calls) {
			t.Fatalf("a suspended record of %d bytes with %d calls", size, calls)
		}
	}, nothing
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
