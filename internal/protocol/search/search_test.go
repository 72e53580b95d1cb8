package search_test

import (
	"fmt"
	"testing"

	"github.com/crumbmesh/crumbmesh/internal/protocol/search"
)

// maze is a model given by its edges; it ends in the node `exit`.
type maze struct {
	edges map[int][]edge
	exit  int
	judge search.Invariant
}

type edge struct {
	to     int
	breaks search.Invariant
	fault  bool
}

type door struct{ from, to int }

func (d door) String() string { return fmt.Sprintf("%d to %d", d.from, d.to) }

func (m maze) Initial() int { return 0 }

// Canonical folds the mirrored half of a maze, its negative numbers, on the other.
func (m maze) Canonical(at int) int       { return max(at, -at) }
func (m maze) Ended(at int) bool          { return at == m.exit }
func (m maze) Judge(int) search.Invariant { return m.judge }

func (m maze) Moves(at int, out []search.Move[int, door]) []search.Move[int, door] {
	for _, e := range m.edges[at] {
		out = append(out, search.Move[int, door]{To: e.to, Step: door{at, e.to}, Breaks: e.breaks, Fault: e.fault})
	}
	return out
}

const statesMax = 100

func TestRun_VisitsEveryState(t *testing.T) {
	t.Parallel()
	got := search.Run[int, door](maze{exit: 3, edges: map[int][]edge{0: {{to: 1}, {to: 2}}, 1: {{to: 3}}, 2: {{to: 3}, {to: 0}}}}, statesMax)
	if got.States != 4 || !got.Complete || len(got.Violations) != 0 {
		t.Errorf("want 4 states, complete, no violation; got %+v", got)
	}
}

func TestRun_KeepsTheShortestTrace(t *testing.T) {
	t.Parallel()
	m := maze{exit: 4, edges: map[int][]edge{0: {{to: 1}, {to: 2}}, 1: {{to: 3}}, 2: {{to: 4, breaks: "broken"}}, 3: {{to: 4, breaks: "broken"}}}}
	got, found := search.Run[int, door](m, statesMax).Of("broken")
	if want := "broken, shortest trace (2 steps):\n   1  0 to 2\n   2  2 to 4"; !found || got.String() != want {
		t.Errorf("want\n%s\ngot\n%s", want, got)
	}
}

func TestRun_JudgesEndedStates(t *testing.T) {
	t.Parallel()
	got, found := search.Run[int, door](maze{exit: 1, judge: "lost", edges: map[int][]edge{0: {{to: 1}}}}, statesMax).Of("lost")
	if !found || len(got.Trace) != 1 {
		t.Errorf("want the ended state judged after 1 step; got %v, %v", got, found)
	}
}

func TestRun_FindsADeadEnd(t *testing.T) {
	t.Parallel()
	// 1 and 2 go round in a ring: they always have a move, and never end.
	m := maze{exit: 3, edges: map[int][]edge{0: {{to: 1}, {to: 3}}, 1: {{to: 2}}, 2: {{to: 1}}}}
	got, found := search.Run[int, door](m, statesMax).Of(search.NeverEnds)
	if !found || len(got.Trace) != 1 || got.Trace[0] != (door{0, 1}) {
		t.Errorf("want the dead end behind door 0 to 1; got %v, %v", got, found)
	}
}

func TestRun_AFaultIsNoWayOut(t *testing.T) {
	t.Parallel()
	m := maze{exit: 2, edges: map[int][]edge{0: {{to: 1}}, 1: {{to: 2, fault: true}}}}
	if _, found := search.Run[int, door](m, statesMax).Of(search.NeverEnds); !found {
		t.Error("want a dead end, since only a fault leads to the exit; got none")
	}
}

func TestRun_VisitsInterchangeableStatesOnce(t *testing.T) {
	t.Parallel()
	m := maze{exit: 3, edges: map[int][]edge{0: {{to: -1}, {to: 1}}, -1: {{to: 3}}}}
	got := search.Run[int, door](m, statesMax)
	if got.States != 3 || len(got.Violations) != 0 {
		t.Errorf("want 3 states, 1 and -1 being the same, and the exit found from it; got %+v", got)
	}
}

func TestRun_SaysWhenItIsIncomplete(t *testing.T) {
	t.Parallel()
	edges := map[int][]edge{}
	for i := range 2 * statesMax {
		edges[i] = []edge{{to: i + 1}}
	}
	if got := search.Run[int, door](maze{exit: -1, edges: edges}, statesMax); got.Complete {
		t.Errorf("want an incomplete search beyond %d states; got %+v", statesMax, got)
	}
}
