package claim

import "github.com/crumbmesh/crumbmesh/internal/protocol/search"

// orchestrator appends how the pending call may be ended.
func (m Model) orchestrator(s State, out []Move) []Move {
	for kind := OK; kind <= Cancelled; kind++ {
		if s.waiting&(1<<kind) != 0 {
			out = append(out, m.decide(s, Step{action: decidedResult, outcome: kind}))
		}
	}
	switch s.settling {
	case notSettling:
		if m.Faults.Cancel {
			move := m.settle(s, true)
			move.Fault = true
			out = append(out, move)
		}
		if m.Rules.Deadline && s.clock >= pastDeadline && m.mayOverrule(&s) {
			out = append(out, m.settle(s, false))
		}
	case foundUnused:
		out = append(out, m.decide(s, Step{action: decided, cancel: s.cancelled, outcome: unusedOutcome(s.cancelled)}))
	case foundOnItsWay:
		if m.mayOverrule(&s) {
			out = append(out, m.decide(s, Step{action: graceOver, outcome: m.overdueOutcome()}))
		}
	}
	return out
}

// mayOverrule reports whether the call may be ended without a result.
func (m Model) mayOverrule(s *State) bool { return !m.Rules.AnswersFirst || s.waiting == 0 }

// unusedOutcome is how a call ends that never started.
func unusedOutcome(cancelled bool) Outcome {
	if cancelled {
		return Cancelled
	}
	return Lost
}

// overdueOutcome is how a call ends that started and gave no result in its grace.
func (m Model) overdueOutcome() Outcome {
	if m.Effect == Once {
		return Unknown
	}
	return Cancelled
}

// settle takes the claim of the call for a cancel or its deadline. Without
// Rules.Revoke it decides at once.
func (m Model) settle(s State, cancel bool) Move {
	if !m.Rules.Revoke {
		return m.decide(s, Step{action: decided, cancel: cancel, outcome: unusedOutcome(cancel)})
	}
	s.settling, s.cancelled = foundUnused, cancel
	aged := m.Rules.AgeMatters && s.clock == pastClaimsExpiry
	if s.claim.state == started || s.claim.starts > 0 || aged { // also a start that was not the one given back
		s.settling = foundOnItsWay
	}
	if s.claim.state == none {
		s.claim.holder = gone
	}
	s.claim.state = revoked
	return Move{To: s, Step: Step{action: tookClaim, cancel: cancel, settling: s.settling}}
}

// decide commits the outcome of the call. What waits in INBOX is acknowledged
// later and changes nothing.
func (m Model) decide(s State, step Step) Move {
	broken := m.judge(&s, step.outcome)
	s.outcome, s.waiting, s.firstIn = step.outcome, 0, Pending
	return Move{To: s, Step: step, Breaks: broken}
}

// judge returns the promise that an outcome breaks, or "".
func (m Model) judge(s *State, outcome Outcome) search.Invariant {
	excused := s.settling != notSettling || s.clock >= pastDeadline
	switch {
	case outcome != OK && s.firstIn == OK:
		return AnswerOverruled
	case (outcome == Cancelled || outcome == Lost) && m.Effect == Once && s.effects > 0:
		return HiddenEffect
	case outcome == Unknown && !s.holderDied && !excused:
		return FalseUnknown
	case outcome == Lost && s.claim.state == started && s.claim.current && !excused:
		return FalseLost
	}
	return ""
}
