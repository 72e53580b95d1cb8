package delivery

// Bounds of the arrays in a State, so that it stays a comparable value.
const (
	replicasMax = 3
	eventsMax   = 3
)

// crumbsEach is the number of crumbs in the Outbox of one decision; it holds
// one command besides. Two are the least that can be stored halfway.
const crumbsEach = 2

// set is a bit set of small numbers.
type set uint16

func (s set) has(n int8) bool { return s&(1<<n) != 0 }
func (s *set) add(n int8)     { *s |= 1 << n }

// An Outbox's items by number: the command, then its crumbs.
const (
	itemCommand int8 = 0
	itemsEach   int8 = 1 + crumbsEach
	allItems    set  = 1<<itemsEach - 1
)

// firstSeq returns the number of the first crumb that revision rev decided.
func firstSeq(rev int8) int8 { return (rev-1)*crumbsEach + 1 }

// lastSeq returns the number of the last crumb that revision rev decided.
func lastSeq(rev int8) int8 { return rev * crumbsEach }

// phase is the line at which a replica stands.
type phase int8

const (
	idle     phase = iota
	reading        // step 1
	helping        // step 2, another decision's Outbox
	deciding       // steps 2 and 3
	sending        // step 4
	acking         // step 5
)

// replica is one process of the orchestrator and what it remembers.
type replica struct {
	phase     phase
	event     int8 // the event at hand
	rev       int8 // the revision it read or wrote
	done      set  // items of rev's Outbox it need not send any more
	known     int8 // the newest revision whose Outbox it has seen delivered
	tail      int8 // the run's last crumb, as it believes; valid while sawTail
	sawTail   bool
	viaLeader bool // its next read goes through the leader
	life      int8 // counts its restarts, where a rule depends on who wrote a record
}

// key packs all that a replica holds into one number, so that replicas can be
// put in an order.
func (r *replica) key() uint64 {
	key := uint64(0)
	for _, field := range [...]int8{int8(r.phase), r.event, r.rev, int8(r.done), r.known, r.tail, flag(r.sawTail), flag(r.viaLeader)} {
		key = key<<8 | uint64(uint8(field))
	}
	return key
}

func flag(yes bool) int8 {
	if yes {
		return 1
	}
	return 0
}

// record is one revision of the run's State.
type record struct {
	event  int8 // the event it applied
	writer int8 // who wrote it, where a rule depends on that
	fresh  bool // younger than the duplicate window, where a rule depends on that
}

// publication is a message on its way to a stream after its sender gave it up.
type publication struct {
	rev, item int8
	expected  int8 // the last crumb it is fenced on
	fenced    bool
	late      bool // there is one
}

// State is the whole world of one run.
//
// The run's crumbs need no list: a step that would store one twice or out of
// order is a violation, where the search stops, so they are always 1 … stored.
type State struct {
	replicas   [replicasMax]replica
	records    [eventsMax + 1]record // records[0] is the run before any event
	head       int8                  // the newest revision
	stored     int8                  // crumbs on the stream
	crumbIDs   set                   // crumbs whose Nats-Msg-Id the stream remembers
	commandIDs set                   // the same of commands
	commands   set                   // revisions whose command was stored
	acked      set                   // events
	flight     publication
	spent      spent
}

// spent counts the faults that happened.
type spent struct{ crashes, windows, refusals, late, reorders, copies int8 }

// applied reports whether the State of revision rev has event in it.
func (s *State) applied(event, rev int8) bool {
	for r := int8(1); r <= rev; r++ {
		if s.records[r].event == event {
			return true
		}
	}
	return false
}
