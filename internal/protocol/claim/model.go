package claim

import "github.com/crumbmesh/crumbmesh/internal/protocol/search"

// Move is a step of this model.
type Move = search.Move[State, Step]

// Model is one attempt of one call: its request, the workers that may get it
// and the orchestrator that waits for it.
type Model struct {
	Rules   Rules
	Faults  Faults
	Effect  Effect
	Workers int8 // 0 (a group without workers) to 2
}

// Initial returns a call whose request has just been stored.
func (m Model) Initial() State { return State{} }

// Canonical returns s with its workers in order: they differ only in their numbers.
func (m Model) Canonical(s State) State {
	w := &s.workers
	if w[0].phase > w[1].phase || w[0].phase == w[1].phase && w[0].request > w[1].request {
		w[0], w[1] = w[1], w[0]
		if s.claim.state != none && s.claim.present() {
			s.claim.holder = workersMax - 1 - s.claim.holder
		}
	}
	return s
}

// Ended reports whether the call has its outcome.
func (m Model) Ended(s State) bool { return s.outcome != Pending }

// Judge finds nothing: what is wrong with an outcome shows in the step that decides it.
func (m Model) Judge(State) search.Invariant { return "" }

// Moves appends what may happen next: to the world, at the orchestrator, at one
// line of a worker.
func (m Model) Moves(s State, out []Move) []Move {
	out = m.world(s, out)
	if s.outcome == Pending {
		out = m.orchestrator(s, out)
	}
	for i := range m.Workers {
		out = m.worker(s, i, out)
	}
	return out
}

// world appends what time and the server do.
func (m Model) world(s State, out []Move) []Move {
	if m.Faults.Republish && !s.second {
		n := s
		n.second = true
		out = append(out, Move{To: n, Step: Step{action: republished}, Fault: true})
	}
	if m.mayExpire(&s) {
		n := s
		n.claim = register{}
		out = append(out, Move{To: n, Step: Step{action: claimExpired}, Fault: true})
	}
	if s.clock < pastClaimsExpiry && !m.holdsTime(&s) {
		n := s
		n.clock++
		out = append(out, Move{To: n, Step: Step{action: clockMoved, clock: n.clock}})
	}
	for request := range int8(requestsMax) {
		if m.Rules.StartBefore && s.clock >= pastStartBefore && s.waits(request) {
			n := s
			n.gone[request] = true
			out = append(out, Move{To: n, Step: Step{action: requestExpired, request: request}, Fault: true})
		}
	}
	return out
}

// waits reports whether a request is stored and not acknowledged.
func (s *State) waits(request int8) bool {
	return !s.gone[request] && (request == 0 || s.second)
}

// mayExpire reports whether the claim may be gone by now.
func (m Model) mayExpire(s *State) bool {
	return m.Faults.Expire && s.claim != (register{}) && (!m.Rules.StartBefore || s.clock == pastClaimsExpiry)
}

// holdsTime reports whether claims of this age cannot have expired yet, because
// a worker is about to write one: it is taken for granted that no worker stops
// between its look at the clock and its claim for the day that lies between the
// last startBefore and the end of the first claim.
func (m Model) holdsTime(s *State) bool {
	if !m.Rules.StartBefore || s.clock != pastClaimsExpiry-1 {
		return false
	}
	for i := range s.workers {
		if s.workers[i].phase == taking || s.workers[i].phase == unsure {
			return true
		}
	}
	return false
}
