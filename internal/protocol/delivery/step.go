package delivery

import "fmt"

// action says what happened in a Step.
type action int8

const (
	received action = iota
	read
	sawTail
	published
	skippedDuplicate
	refused
	cannotFollow
	gaveUp
	timedOut
	committed
	conflicted
	rereads
	changesNothing
	acknowledged
	crashed
	windowPassed
	copied
	arrived
	arrivedRefused
)

// Step is one line of a trace.
type Step struct {
	action  action
	replica int8
	event   int8
	rev     int8
	item    int8
	last    int8 // the run's last crumb, where the step shows it
	helps   bool // the replica delivers an Outbox before it decides
	stale   bool
	receipt bool // the last crumb proves the Outbox delivered
}

// String renders the step. Replicas are A, B, C; events e1, e2, e3. Revision n
// applied one event and decided command n and the two crumbs 2n-1 and 2n.
func (s Step) String() string {
	switch s.action {
	case windowPassed:
		return "-- the duplicate window passes --"
	case copied:
		return fmt.Sprintf("-- a second copy of %s is published --", s.eventName())
	case arrived:
		return fmt.Sprintf("-- the late %s arrives and is taken --", s.itemName())
	case arrivedRefused:
		return fmt.Sprintf("-- the late %s arrives and is refused: the last crumb is %d --", s.itemName(), s.last)
	default:
		return string(rune('A'+s.replica)) + " " + s.ofReplica()
	}
}

func (s Step) ofReplica() string {
	switch s.action {
	case received:
		return "receives " + s.eventName()
	case read:
		return fmt.Sprintf("reads revision %d%s%s", s.rev, when(s.stale, " (stale)"), when(s.helps, ": its Outbox first"))
	case sawTail:
		return fmt.Sprintf("reads the last crumb: %d%s", s.last, when(s.receipt, ", the receipt for all of it"))
	case published:
		return fmt.Sprintf("%s %s: %s", s.verb(), s.itemName(), s.answer())
	case skippedDuplicate:
		return fmt.Sprintf("%s %s: the window knows its id", s.verb(), s.itemName())
	case refused:
		return fmt.Sprintf("%s %s: refused, the last crumb is %d", s.verb(), s.itemName(), s.last)
	case cannotFollow:
		return fmt.Sprintf("cannot send %s on top of crumb %d; nak", s.itemName(), s.last)
	case gaveUp:
		return "fails to publish; nak"
	case timedOut:
		return fmt.Sprintf("%s %s: timeout, it may be stored later", s.verb(), s.itemName())
	case committed:
		return fmt.Sprintf("commits revision %d for %s (crumbs %d,%d, command %d)", s.rev, s.eventName(), firstSeq(s.rev), lastSeq(s.rev), s.rev)
	case conflicted:
		return fmt.Sprintf("conflicts on revision %d", s.rev)
	case rereads:
		return "would change nothing; reads again through the leader"
	case changesNothing:
		return "finds that " + s.eventName() + " changes nothing"
	case acknowledged:
		return "acks " + s.eventName()
	case crashed:
		return "crashes"
	default:
		panic(fmt.Sprintf("delivery: action %d has no words", s.action))
	}
}

func (s Step) verb() string {
	if s.helps {
		return "helps with"
	}
	return "sends"
}

// answer is the stream's. A command's id is followed only where a search asks
// for it, so its answer does not say whether it was there already.
func (s Step) answer() string {
	if s.item == itemCommand {
		return "acked"
	}
	return "stored"
}

func (s Step) eventName() string { return fmt.Sprintf("e%d", s.event+1) }

func (s Step) itemName() string {
	if s.item == itemCommand {
		return fmt.Sprintf("command %d", s.rev)
	}
	return fmt.Sprintf("crumb %d", seqOf(s.rev, s.item))
}

func when(yes bool, text string) string {
	if yes {
		return text
	}
	return ""
}
