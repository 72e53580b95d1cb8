package delivery

import "github.com/crumbmesh/crumbmesh/internal/protocol/search"

// Move is a step of this model.
type Move = search.Move[State, Step]

// Model is one run, the replicas that may handle it and the events it gets.
type Model struct {
	Rules    Rules
	Faults   Faults
	Replicas int8 // 1 to 3
	Events   int8 // 1 to 3
	// Chained makes event n+1 the answer to the command that event n decided:
	// it exists once that command is stored, and means nothing to a State that
	// lacks event n. Otherwise all events wait from the start, like the results
	// of parallel calls.
	Chained bool
}

// Initial returns a run without a decision, all its events waiting.
func (m Model) Initial() State { return State{} }

// Canonical sorts the replicas, which differ only in their letters, unless a
// rule tells them apart by who wrote a record.
func (m Model) Canonical(s State) State {
	if m.Rules.Help == HelpForeign {
		return s
	}
	for i := range m.Replicas {
		for j := i; j > 0 && s.replicas[j].key() < s.replicas[j-1].key(); j-- {
			s.replicas[j], s.replicas[j-1] = s.replicas[j-1], s.replicas[j]
		}
	}
	return s
}

// Ended reports whether every event is acknowledged and every replica is idle.
func (m Model) Ended(s State) bool {
	for i := range s.replicas {
		if s.replicas[i].phase != idle {
			return false
		}
	}
	return s.acked == 1<<m.Events-1
}

// Judge returns what an ended run lacks.
func (m Model) Judge(s State) search.Invariant {
	for event := range m.Events {
		if !s.applied(event, s.head) {
			return EventLost
		}
	}
	for rev := int8(1); rev <= s.head; rev++ {
		if !s.commands.has(rev) {
			return CommandLost
		}
	}
	if s.stored < lastSeq(s.head) {
		return CrumbLost
	}
	return ""
}

// Moves appends what may happen next: to the world, or at one line of a replica.
func (m Model) Moves(s State, out []Move) []Move {
	out = m.world(s, out)
	for i := range m.Replicas {
		if s.replicas[i].phase != idle && s.spent.crashes < m.Faults.Crashes {
			out = append(out, m.crash(s, i))
		}
		switch s.replicas[i].phase {
		case idle:
			out = m.receive(s, i, out)
		case reading:
			out = m.read(s, i, out)
		case deciding:
			out = append(out, m.decide(s, i))
		case helping, sending:
			out = m.deliver(s, i, out)
		case acking:
			out = append(out, m.ack(s, i))
		}
	}
	return out
}

// world appends what happens outside the replicas.
func (m Model) world(s State, out []Move) []Move {
	if s.spent.windows < m.Faults.Windows {
		if n := forget(s); n != s {
			n.spent.windows++
			out = append(out, Move{To: n, Step: Step{action: windowPassed}, Fault: true})
		}
	}
	for event := range m.Events {
		if s.acked.has(event) && s.spent.copies < m.Faults.Copies {
			n := s
			n.acked &^= 1 << event
			n.spent.copies++
			out = append(out, Move{To: n, Step: Step{action: copied, event: event}, Fault: true})
		}
	}
	if s.flight.late {
		out = append(out, m.arrive(s))
	}
	return out
}

// forget returns s without all that depends on the duplicate window.
func forget(s State) State {
	s.crumbIDs, s.commandIDs = 0, 0
	for rev := range s.records {
		s.records[rev].fresh = false
	}
	return s
}

// crash forgets all that replica i remembers.
func (m Model) crash(s State, i int8) Move {
	life := s.replicas[i].life
	if m.Rules.Help == HelpForeign {
		life++
	}
	s.spent.crashes++
	s.replicas[i] = replica{life: life}
	return Move{To: s, Step: Step{action: crashed, replica: i}, Fault: true}
}

// receive hands any waiting event to an idle replica.
func (m Model) receive(s State, i int8, out []Move) []Move {
	for event := range m.Events {
		if s.acked.has(event) || !m.exists(&s, event) {
			continue
		}
		n := s
		n.replicas[i].phase, n.replicas[i].event = reading, event
		out = append(out, Move{To: n, Step: Step{action: received, replica: i, event: event}})
	}
	return out
}

// exists reports whether an event has been published yet.
func (m Model) exists(s *State, event int8) bool {
	if !m.Chained || event == 0 {
		return true
	}
	for rev := int8(1); rev <= s.head; rev++ {
		if s.records[rev].event == event-1 {
			return s.commands.has(rev)
		}
	}
	return false
}

// read is step 1: the newest revision, or an older one from a follower or a cache.
func (m Model) read(s State, i int8, out []Move) []Move {
	oldest := s.head
	if m.Faults.Stale && !s.replicas[i].viaLeader {
		oldest = 0
	}
	for rev := oldest; rev <= s.head; rev++ {
		n := s
		r := &n.replicas[i]
		r.rev, r.phase = rev, deciding
		if m.mustHelp(&s, i, rev) {
			m.startSending(r, helping)
		}
		stale := rev < s.head
		out = append(out, Move{To: n, Fault: stale, Step: Step{action: read, replica: i, rev: rev, stale: stale, helps: r.phase == helping}})
	}
	return out
}

// mustHelp reports whether replica i delivers rev's Outbox before it decides.
func (m Model) mustHelp(s *State, i, rev int8) bool {
	if rev == 0 {
		return false
	}
	r, written := &s.replicas[i], s.records[rev]
	switch m.Rules.Help {
	case HelpAlways:
		return r.known < rev
	case HelpInWindow:
		return written.fresh && r.known < rev || s.applied(r.event, rev)
	default:
		// An event that was applied before goes through step 4 again.
		return written.fresh && written.writer != m.writer(r, i) || s.applied(r.event, rev)
	}
}

// writer names a replica's present life, where the rules ask who wrote a record.
func (m Model) writer(r *replica, i int8) int8 {
	if m.Rules.Help != HelpForeign {
		return 0
	}
	return r.life*replicasMax + i
}

// decide is steps 2 and 3: one compare-and-set, or a decision that changes nothing.
func (m Model) decide(s State, i int8) Move {
	r := &s.replicas[i]
	step := Step{replica: i, event: r.event, rev: r.rev}
	switch {
	case !m.changes(&s, r) && m.Rules.LeaderRead && !r.viaLeader:
		r.readAgain()
		step.action = rereads
	case !m.changes(&s, r):
		r.phase, r.rev = acking, 0
		step.action = changesNothing
	case r.rev != s.head:
		r.readAgain()
		step.action = conflicted
	default:
		s.head++
		s.records[s.head] = record{event: r.event, writer: m.writer(r, i), fresh: m.Rules.Help != HelpAlways}
		r.rev, r.viaLeader = s.head, false
		m.startSending(r, sending)
		step.action, step.rev = committed, s.head
	}
	return Move{To: s, Step: step}
}

// readAgain goes back to step 1, through the leader.
func (r *replica) readAgain() { r.phase, r.rev, r.viaLeader = reading, 0, true }

// changes reports whether the event changes the State that the replica has read.
func (m Model) changes(s *State, r *replica) bool {
	known := !m.Chained || r.event == 0 || s.applied(r.event-1, r.rev)
	return known && !s.applied(r.event, r.rev)
}

// ack is step 5.
func (m Model) ack(s State, i int8) Move {
	event := s.replicas[i].event
	s.acked.add(event)
	s.replicas[i].rest()
	return Move{To: s, Step: Step{action: acknowledged, replica: i, event: event}}
}

// rest makes a replica idle; it keeps what it has learnt of the run.
func (r *replica) rest() {
	*r = replica{known: r.known, tail: r.tail, sawTail: r.sawTail, life: r.life}
}
