package delivery

import "github.com/crumbmesh/crumbmesh/internal/protocol/search"

// seqOf returns the number of an Outbox's crumb.
func seqOf(rev, item int8) int8 { return firstSeq(rev) + item - 1 }

// readsTail reports whether the rules look at the run's last crumb at all.
func (m Model) readsTail() bool { return m.Rules.Fence || m.Rules.Successor }

// fenced reports whether an item is published on top of the crumb its sender has read.
func (m Model) fenced(item int8) bool {
	return m.Rules.Fence && item != itemCommand && (m.Rules.Serial || item == 1)
}

// startSending begins to deliver the Outbox of the revision at hand.
func (m Model) startSending(r *replica, to phase) {
	r.phase, r.done = to, 0
	m.skipStored(r)
}

// skipStored marks what the last crumb proves delivered.
func (m Model) skipStored(r *replica) {
	if !r.sawTail || !m.Rules.Successor {
		return
	}
	for item := itemCommand + 1; item < itemsEach; item++ {
		if seqOf(r.rev, item) <= r.tail {
			r.done.add(item)
		}
	}
	if m.Rules.CommandsFirst && r.tail >= lastSeq(r.rev) {
		r.done = allItems
	}
	r.finish()
}

// finish goes on to the next line once the whole Outbox is delivered.
func (r *replica) finish() {
	if r.done != allItems {
		return
	}
	r.known, r.done = max(r.known, r.rev), 0
	if r.phase == helping {
		r.phase = deciding
	} else {
		r.phase, r.rev = acking, 0
	}
}

// deliver appends the next steps of a replica that delivers an Outbox.
func (m Model) deliver(s State, i int8, out []Move) []Move {
	r := &s.replicas[i]
	if m.readsTail() && !r.sawTail {
		return append(out, m.readTail(s, i))
	}
	for place, item := range m.next(r) {
		reordered := place > 0
		if reordered && s.spent.reorders == m.Faults.Reorders {
			break
		}
		n := s
		if reordered {
			n.spent.reorders++
		}
		move := m.publish(n, i, item)
		move.Fault = reordered
		out = append(out, move)
		if m.possible(r, item) && s.spent.late < m.Faults.Late && !s.flight.late {
			out = append(out, m.timeOut(n, i, item))
		}
	}
	if s.spent.refusals < m.Faults.Refusals {
		n := s
		n.spent.refusals++
		n.replicas[i].rest()
		out = append(out, Move{To: n, Step: Step{action: gaveUp, replica: i}, Fault: true})
	}
	return out
}

// readTail reads the run's last crumb through the leader.
func (m Model) readTail(s State, i int8) Move {
	r := &s.replicas[i]
	step := Step{action: sawTail, replica: i, last: s.stored}
	step.receipt = m.Rules.Successor && m.Rules.CommandsFirst && s.stored >= lastSeq(r.rev)
	r.tail, r.sawTail = s.stored, true
	m.skipStored(r)
	return Move{To: s, Step: step}
}

// next returns the items that may reach the stream next, the regular one first.
func (m Model) next(r *replica) []int8 {
	order := [itemsEach]int8{1, 2, itemCommand}
	if m.Rules.CommandsFirst {
		order = [itemsEach]int8{itemCommand, 1, 2}
	}
	var waiting []int8
	for _, item := range order {
		if !r.done.has(item) {
			waiting = append(waiting, item)
		}
	}
	pipelined := 1
	for !m.Rules.Serial && waiting[0] != itemCommand && pipelined < len(waiting) && waiting[pipelined] != itemCommand {
		pipelined++
	}
	return waiting[:pipelined]
}

// possible reports whether the rules let the replica send the item at all.
func (m Model) possible(r *replica, item int8) bool {
	return !m.fenced(item) || !m.Rules.Successor || seqOf(r.rev, item) == r.tail+1
}

// publish sends one item and takes the stream's answer.
func (m Model) publish(s State, i, item int8) Move {
	r := &s.replicas[i]
	step := Step{replica: i, rev: r.rev, item: item, last: s.stored, helps: r.phase == helping}
	if !m.possible(r, item) {
		step.action, step.last = cannotFollow, r.tail
		r.rest()
		r.sawTail = false
		return Move{To: s, Step: step}
	}
	broken, taken, again := m.take(&s, publication{rev: r.rev, item: item, expected: r.tail, fenced: m.fenced(item)})
	if !taken {
		r.sawTail = false
		step.action = refused
		return Move{To: s, Step: step}
	}
	step.action = published
	if again {
		step.action = skippedDuplicate
	}
	if item != itemCommand && m.readsTail() {
		r.tail = s.stored
	}
	r.done.add(item)
	r.finish()
	return Move{To: s, Step: step, Breaks: broken}
}

// timeOut leaves a publication on its way; its sender reads the last crumb, or
// sends the item again.
func (m Model) timeOut(s State, i, item int8) Move {
	r := &s.replicas[i]
	s.flight = publication{rev: r.rev, item: item, expected: r.tail, fenced: m.fenced(item), late: true}
	s.spent.late++
	r.sawTail = false
	return Move{To: s, Fault: true, Step: Step{action: timedOut, replica: i, rev: r.rev, item: item, helps: r.phase == helping}}
}

// arrive hands a late publication to its stream.
func (m Model) arrive(s State) Move {
	p := s.flight
	s.flight = publication{}
	step := Step{action: arrived, rev: p.rev, item: p.item, last: s.stored}
	broken, taken, _ := m.take(&s, p)
	if !taken {
		step.action = arrivedRefused
	}
	return Move{To: s, Step: step, Breaks: broken, Fault: true}
}

// take is the stream's side of a publication: whether it breaks a promise, was
// accepted, and was accepted only because its Nats-Msg-Id is remembered.
func (m Model) take(s *State, p publication) (broken search.Invariant, taken, again bool) {
	if p.item == itemCommand {
		broken, again = m.takeCommand(s, p.rev)
		return broken, true, again
	}
	seq := seqOf(p.rev, p.item)
	switch {
	case p.fenced && p.expected != s.stored:
		return "", false, false
	case !m.Rules.Fence || !m.Rules.Serial:
		if s.crumbIDs.has(seq) {
			return "", true, true
		}
		s.crumbIDs.add(seq)
	}
	switch {
	case seq <= s.stored:
		return CrumbTwice, true, false
	case seq > s.stored+1:
		return CrumbOrder, true, false
	}
	s.stored = seq
	return "", true, false
}

// takeCommand stores the command of revision rev. Its id matters only to a
// search that asks whether a command is stored once.
func (m Model) takeCommand(s *State, rev int8) (broken search.Invariant, again bool) {
	switch {
	case !m.Faults.CommandOnce:
	case s.commandIDs.has(rev):
		return "", true
	case s.commands.has(rev):
		return CommandTwice, false
	default:
		s.commandIDs.add(rev)
	}
	s.commands.add(rev)
	return "", false
}
