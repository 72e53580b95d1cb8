package claim

// stop appends how a worker that is stopped gracefully leaves its request. The
// process that takes its place has another id.
func (m Model) stop(s State, i int8, out []Move) []Move {
	s.stops++
	switch s.workers[i].phase {
	case looking, taking:
		s.leave(i)
		return append(out, Move{To: s, Step: Step{action: stopped, worker: i}, Fault: true})
	case unsure, publishing: // they have their last words: as if nothing had happened, or a crash
		return out
	}
	if m.Effect == Once && s.workers[i].phase != claimed && m.Rules.ReleaseUntouched {
		s.holderDied = true
		move := m.publish(s, i, Step{action: interrupted, worker: i, outcome: Unknown})
		move.Fault = true
		return append(out, move)
	}
	return m.giveBack(s, i, out)
}

// giveBack appends the write that makes the claim free again, and the ways in
// which its answer may be lost.
func (m Model) giveBack(s State, i int8, out []Move) []Move {
	own := s.claim.state == started && s.claim.holder == i && s.claim.current
	if !own && m.Rules.ReleaseOwn {
		if s.claim.state == revoked {
			move := m.publish(s, i, Step{action: gaveBackInVain, worker: i, outcome: Cancelled})
			move.Fault = true
			return append(out, move)
		}
		s.leave(i)
		return append(out, Move{To: s, Step: Step{action: gaveBackNotStored, worker: i}, Fault: true})
	}
	if s.losses < m.Faults.Losses { // nothing was written, and the process is gone
		n := s
		n.losses++
		n.claim.holder, n.claim.current, n.holderDied = gone, false, true
		n.workers[i] = worker{}
		out = append(out, Move{To: n, Step: Step{action: gaveBackNotStored, worker: i}, Fault: true})
	}
	s.claim = register{starts: max(s.claim.starts-1, 0)}
	s.workers[i] = worker{}
	if s.losses < m.Faults.Losses {
		n := s
		n.losses++
		out = append(out, Move{To: n, Step: Step{action: gaveBackAnswerLost, worker: i}, Fault: true})
	}
	return append(out, Move{To: s, Step: Step{action: gaveBack, worker: i}, Fault: true})
}
