// Package search walks every reachable state of a small model, breadth first,
// and keeps the shortest trace to each invariant that a step or a state breaks.
//
// It also proves that the model can always come to its end: a state from which
// no steady move leads to an ended state breaks NeverEnds. Steady moves are the
// ones the system makes by itself; faults and luck (a crash that happens to
// repair something) do not count as a way out.
package search

import (
	"fmt"
	"strings"
)

// Invariant is a promise of a model, named by what an observer sees when it is
// broken.
type Invariant string

// NeverEnds is broken by a state from which no sequence of steady moves ends.
const NeverEnds Invariant = "never ends"

// Move is one step out of a state. S is the whole state of a model: a value
// that is compared, never a pointer. T names the step; it is rendered only when
// a trace is printed.
type Move[S comparable, T fmt.Stringer] struct {
	To     S
	Step   T
	Breaks Invariant // the promise this step breaks, or ""; the search goes no further here
	Fault  bool      // a fault or a coincidence: possible, but no way out of a dead end
}

// Model is what a search explores.
type Model[S comparable, T fmt.Stringer] interface {
	Initial() S
	// Canonical returns one and the same state for all that differ from s only
	// in the names of interchangeable parts; s itself if there are none.
	Canonical(s S) S
	// Moves appends every step that is possible in s, in an order that depends on s alone.
	Moves(s S, out []Move[S, T]) []Move[S, T]
	// Ended reports whether the work is over in s. An ended state may still have moves.
	Ended(s S) bool
	// Judge returns the promise that an ended state breaks, or "".
	Judge(s S) Invariant
}

// Violation is a broken invariant with the shortest trace to it.
type Violation[T fmt.Stringer] struct {
	Invariant Invariant
	Trace     []T
}

// String renders the trace, one numbered step a line.
func (v Violation[T]) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s, shortest trace (%d steps):", v.Invariant, len(v.Trace))
	for i, step := range v.Trace {
		fmt.Fprintf(&b, "\n%4d  %s", i+1, step)
	}
	return b.String()
}

// Result is what a search found.
type Result[T fmt.Stringer] struct {
	States     int            // distinct states visited, up to the names of interchangeable parts
	Complete   bool           // every reachable state short of a violation was visited
	Violations []Violation[T] // one an invariant, in the order of discovery
}

// Of returns the violation of an invariant.
func (r Result[T]) Of(i Invariant) (Violation[T], bool) {
	for _, v := range r.Violations {
		if v.Invariant == i {
			return v, true
		}
	}
	return Violation[T]{}, false
}

// Run explores m until it has seen every state or statesMax of them.
func Run[S comparable, T fmt.Stringer](m Model[S, T], statesMax int) Result[T] {
	w := &walk[S, T]{model: m, index: map[S]int32{}}
	w.visit(m.Initial(), root, *new(T))
	for at := int32(0); int(at) < len(w.nodes); at++ {
		if len(w.nodes) > statesMax {
			w.result.States = len(w.nodes)
			return w.result
		}
		w.expand(at)
	}
	w.result.States, w.result.Complete = len(w.nodes), true
	if dead, found := w.deadEnd(); found {
		w.report(NeverEnds, w.trace(dead))
	}
	return w.result
}

// root is the parent of the initial state.
const root int32 = -1

// node is a visited state and how the search first came to it.
type node[S comparable, T fmt.Stringer] struct {
	state  S
	parent int32
	step   T
	goal   bool // ended, or one step short of a violation that is reported itself
}

type walk[S comparable, T fmt.Stringer] struct {
	model  Model[S, T]
	nodes  []node[S, T]
	index  map[S]int32 // by canonical state
	steady graph
	moves  []Move[S, T] // reused
	result Result[T]
}

// visit returns the number of a state, new or known.
func (w *walk[S, T]) visit(s S, parent int32, step T) int32 {
	key := w.model.Canonical(s)
	if at, known := w.index[key]; known {
		return at
	}
	at := int32(len(w.nodes))
	w.index[key] = at
	w.nodes = append(w.nodes, node[S, T]{state: s, parent: parent, step: step})
	return at
}

// expand takes every step out of one state.
func (w *walk[S, T]) expand(at int32) {
	s := w.nodes[at].state
	if w.model.Ended(s) {
		w.nodes[at].goal = true
		if broken := w.model.Judge(s); broken != "" {
			w.report(broken, w.trace(at))
		}
	}
	w.moves = w.model.Moves(s, w.moves[:0])
	for i := range w.moves {
		move := &w.moves[i]
		if move.Breaks != "" {
			w.nodes[at].goal = true
			w.report(move.Breaks, append(w.trace(at), move.Step))
			continue
		}
		to := w.visit(move.To, at, move.Step)
		if !move.Fault {
			w.steady.add(at, to)
		}
	}
}

// report keeps the first, and so the shortest, trace of an invariant.
func (w *walk[S, T]) report(i Invariant, trace []T) {
	if _, known := w.result.Of(i); !known {
		w.result.Violations = append(w.result.Violations, Violation[T]{Invariant: i, Trace: trace})
	}
}

// trace returns the steps from the initial state to a node.
func (w *walk[S, T]) trace(at int32) []T {
	depth := 0
	for i := at; w.nodes[i].parent != root; i = w.nodes[i].parent {
		depth++
	}
	steps := make([]T, depth)
	for i := at; w.nodes[i].parent != root; i = w.nodes[i].parent {
		depth--
		steps[depth] = w.nodes[i].step
	}
	return steps
}

// deadEnd returns the first state from which steady moves reach no goal.
func (w *walk[S, T]) deadEnd() (int32, bool) {
	goals := make([]bool, len(w.nodes))
	for i := range w.nodes {
		goals[i] = w.nodes[i].goal
	}
	for i, reaches := range w.steady.reaching(goals) {
		if !reaches {
			return int32(i), true
		}
	}
	return 0, false
}
