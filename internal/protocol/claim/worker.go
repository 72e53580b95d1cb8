package claim

import "github.com/crumbmesh/crumbmesh/internal/protocol/search"

// worker appends what worker i may do next.
func (m Model) worker(s State, i int8, out []Move) []Move {
	if s.workers[i].phase != idle && s.crashes < m.Faults.Crashes {
		out = append(out, crash(s, i))
	}
	if s.workers[i].phase != idle && s.stops < m.Faults.Stops {
		out = m.stop(s, i, out)
	}
	switch s.workers[i].phase {
	case idle:
		return m.receive(s, i, out)
	case looking:
		return append(m.lookStale(s, i, out), m.look(s, i))
	case taking:
		return m.take(s, i, out)
	case unsure:
		return append(out, m.readBack(s, i))
	case claimed:
		return append(out, enter(s, i))
	case running, effected:
		return m.run(s, i, out)
	default:
		return m.ack(s, i, out)
	}
}

// crash takes a worker's memory and, with its process, its id.
func crash(s State, i int8) Move {
	s.crashes++
	if s.claim.state != none && s.claim.holder == i {
		s.holderDied = true
		s.claim.holder, s.claim.current = gone, false
	}
	s.workers[i] = worker{}
	return Move{To: s, Step: Step{action: crashed, worker: i}, Fault: true}
}

// receive hands any waiting request to an idle worker.
func (m Model) receive(s State, i int8, out []Move) []Move {
	for request := range int8(requestsMax) {
		if !s.waits(request) || !m.Rules.StartsCounted && s.deliveries[request] == deliveriesMax {
			continue
		}
		n := s
		n.workers[i] = worker{phase: looking, request: request}
		if !m.Rules.StartsCounted {
			n.deliveries[request]++
		}
		out = append(out, Move{To: n, Step: Step{action: received, worker: i, request: request}})
	}
	return out
}

// look is all a worker does with a request short of starting it.
func (m Model) look(s State, i int8) Move {
	request := s.workers[i].request
	switch {
	case s.claim.state == revoked:
		return dropped(s, i, droppedRevoked)
	case s.claim.state == started && s.claim.request != request:
		return dropped(s, i, droppedSecond)
	case !m.Rules.StartsCounted && s.deliveries[request] == deliveriesMax:
		return m.publish(s, i, Step{action: publishedResult, worker: i, outcome: Lost})
	case s.claim.state == started && (m.Effect == Once || m.Rules.StartsCounted && s.claim.starts == startsMax):
		return m.giveUp(s, i)
	case m.late(&s):
		return dropped(s, i, droppedLate)
	}
	s.workers[i].phase = taking
	return Move{To: s, Step: Step{action: mayStart, worker: i}}
}

// late reports whether no call may start any more.
func (m Model) late(s *State) bool { return m.Rules.StartBefore && s.clock >= pastStartBefore }

// lookStale appends a look through a follower that has not got the claim yet.
func (m Model) lookStale(s State, i int8, out []Move) []Move {
	if !m.Faults.Stale || s.claim.state == none || m.late(&s) {
		return out
	}
	s.workers[i].phase = taking
	return append(out, Move{To: s, Step: Step{action: looksStale, worker: i}, Fault: true})
}

// giveUp answers for a call that was started before and must not start again.
func (m Model) giveUp(s State, i int8) Move {
	if m.Rules.HolderLives && m.waitsForHolder(&s) {
		s.leave(i)
		return Move{To: s, Step: Step{action: nakedHolderLives, worker: i}}
	}
	outcome := Lost
	if m.Effect == Once {
		outcome = Unknown
	}
	return m.publish(s, i, Step{action: publishedResult, worker: i, outcome: outcome})
}

// waitsForHolder reports whether the holder of the claim may still answer. Past
// the deadline `unknown` covers whatever it does; `lost` never would, so that
// is left to the orchestrator, which revokes the claim first.
func (m Model) waitsForHolder(s *State) bool {
	return s.claim.present() && (m.Effect != Once || s.clock < pastDeadline)
}

func dropped(s State, i int8, why action) Move {
	s.drop(i)
	return Move{To: s, Step: Step{action: why, worker: i}}
}

// take appends the compare-and-set by which a call starts, and the ways in
// which its answer may be lost.
func (m Model) take(s State, i int8, out []Move) []Move {
	request := s.workers[i].request
	restart := s.claim.state == started && s.claim.request == request && m.Effect != Once &&
		(s.claim.starts < startsMax || !m.Rules.StartsCounted)
	if s.claim.state != none && !restart {
		n := s
		n.workers[i].phase = looking
		out = append(out, Move{To: n, Step: Step{action: claimChanged, worker: i}})
		return m.loseAnswer(s, i, answerLost, out)
	}
	written, lost := claims, claimsAnswerLost
	if restart {
		written, lost = takesOver, takesOverAnswerLost
	}
	n := s
	n.claim = register{state: started, request: request, holder: i, current: true, starts: min(s.claim.starts+1, startsMax)}
	out = m.loseAnswer(n, i, lost, out)
	return append(out, m.start(n, i, written))
}

// loseAnswer appends the write s whose answer does not arrive.
func (m Model) loseAnswer(s State, i int8, what action, out []Move) []Move {
	if s.losses == m.Faults.Losses {
		return out
	}
	s.losses++
	s.workers[i].phase = unsure
	return append(out, Move{To: s, Step: Step{action: what, worker: i}, Fault: true})
}

// start lets worker i go on to its handler.
func (m Model) start(s State, i int8, how action) Move {
	s.workers[i].phase = claimed
	var broken search.Invariant
	if s.outcome == Cancelled || s.outcome == Lost {
		broken = StartAfterEnd
	}
	return Move{To: s, Step: Step{action: how, worker: i}, Breaks: broken}
}

// enter runs the handler of worker i.
func enter(s State, i int8) Move {
	s.workers[i].phase = running
	return Move{To: s, Step: Step{action: entered, worker: i}}
}

// readBack settles an ambiguous write.
func (m Model) readBack(s State, i int8) Move {
	own := s.claim.state == started && s.claim.holder == i
	if m.Rules.Nonce {
		own = own && s.claim.current
	}
	if own {
		return m.start(s, i, ownClaim)
	}
	s.workers[i].phase = looking
	return Move{To: s, Step: Step{action: notOwnClaim, worker: i}}
}

// run appends the effect, the result and the interruption of a handler.
func (m Model) run(s State, i int8, out []Move) []Move {
	if s.claim.state == revoked {
		interruptedAs := Cancelled
		if m.Effect == Once {
			interruptedAs = Unknown
		}
		out = append(out, m.publish(s, i, Step{action: interrupted, worker: i, outcome: interruptedAs}))
	}
	if s.workers[i].phase == effected {
		return append(out, m.publish(s, i, Step{action: publishedResult, worker: i, outcome: OK}))
	}
	s.workers[i].phase = effected
	s.effects = min(s.effects+1, effectsMax)
	var broken search.Invariant
	switch {
	case m.Effect == Once && s.effects > 1:
		broken = EffectTwice
	case m.Effect == Once && (s.outcome == Cancelled || s.outcome == Lost):
		broken = HiddenEffect
	}
	return append(out, Move{To: s, Step: Step{action: effect, worker: i}, Breaks: broken})
}

// publish stores a result of the call; a worker holds on to it until it is stored.
func (m Model) publish(s State, i int8, step Step) Move {
	s.workers[i].phase = publishing
	refused := m.Rules.ResultOnce && s.waiting != 0
	if s.outcome == Pending && !refused {
		s.waiting |= 1 << step.outcome
		if s.firstIn == Pending {
			s.firstIn = step.outcome
		}
	}
	return Move{To: s, Step: step}
}

// ack appends the acknowledgement of the request, and its loss.
func (m Model) ack(s State, i int8, out []Move) []Move {
	request := s.workers[i].request
	if s.losses < m.Faults.Losses {
		n := s
		n.losses++
		n.leave(i)
		out = append(out, Move{To: n, Step: Step{action: ackLost, worker: i, request: request}, Fault: true})
	}
	s.drop(i)
	return append(out, Move{To: s, Step: Step{action: acknowledged, worker: i, request: request}})
}
