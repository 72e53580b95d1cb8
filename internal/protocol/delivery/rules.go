package delivery

import "github.com/crumbmesh/crumbmesh/internal/protocol/search"

// What an observer of a run must never see.
const (
	// CrumbTwice: a crumb's number is stored a second time.
	CrumbTwice search.Invariant = "crumb stored twice"
	// CrumbOrder: a crumb is stored on top of one that is not its predecessor.
	CrumbOrder search.Invariant = "crumb out of order"
	// CrumbLost: every event is acknowledged, a crumb that was decided is not stored.
	CrumbLost search.Invariant = "crumb lost"
	// CommandLost: every event is acknowledged, a command that was decided was never sent.
	CommandLost search.Invariant = "command lost"
	// CommandTwice: a command is stored a second time. The protocol does not
	// promise otherwise (the claim drops the second); see Faults.CommandOnce.
	CommandTwice search.Invariant = "command stored twice"
	// EventLost: an event is acknowledged and was never decided.
	EventLost search.Invariant = "event lost"
)

// HelpRule says whose Outbox a replica delivers before it decides on top of it.
type HelpRule int8

const (
	// HelpAlways delivers every Outbox this replica has not itself seen
	// delivered, however old it is and whoever wrote it. The rule of the protocol.
	HelpAlways HelpRule = iota
	// HelpInWindow does so only for Outboxes younger than the duplicate window.
	HelpInWindow
	// HelpForeign does so only inside the window and only for another process.
	HelpForeign
)

// Rules are the rules of the run machine that a search can leave out, one by one.
type Rules struct {
	// Help is step 2: no Outbox is ever overwritten undelivered (P1).
	Help HelpRule
	// Fence is step 4: a crumb is stored only while the run's last crumb is the
	// one its publisher has read (P2). Without it crumbs carry a Nats-Msg-Id,
	// which the stream forgets with its duplicate window.
	Fence bool
	// Successor is step 4: a crumb's number is that of the run's last crumb plus
	// one; what the stream has already is not sent again (P2). Without it a
	// refused publisher chains its crumb on whatever is last.
	Successor bool
	// Serial is step 4: crumbs go out one after the other, every ack awaited
	// (P2). Without it an Outbox's crumbs are pipelined and only the first can
	// be fenced, since the position of the others is not known yet.
	Serial bool
	// CommandsFirst is step 4: commands go out before crumbs, which makes the
	// last crumb the receipt for the whole Outbox. Cheaper, not safer.
	CommandsFirst bool
	// LeaderRead is step 2: a decision that changes nothing is made again on a
	// read through the leader before the event is acknowledged (P3).
	LeaderRead bool
}

// Protocol returns the rules as they are built.
func Protocol() Rules {
	return Rules{Help: HelpAlways, Fence: true, Successor: true, Serial: true, CommandsFirst: true, LeaderRead: true}
}

// WindowOnly returns the rules of a design that leans on the duplicate window
// alone: it is what a first reading of JetStream suggests, and does not hold.
func WindowOnly() Rules { return Rules{Help: HelpForeign} }

// Faults bound what may go wrong. All counts are totals over one trace.
// Redeliveries need no bound: an event that is not acknowledged may reach any
// idle replica at any moment, also while another still works on it.
type Faults struct {
	Crashes     int8 // a replica loses its memory, at any line
	Windows     int8 // a duplicate window passes: the stream forgets all Nats-Msg-Ids
	Refusals    int8 // a publish fails for good (full, no leader): the event is naked
	Late        int8 // a publish times out and is stored at any later moment, or never
	Reorders    int8 // a pipelined crumb is stored although an earlier one was dropped
	Copies      int8 // an acknowledged event is published again
	Stale       bool // a read that is not through the leader may return any older revision
	CommandOnce bool // also hold a promise that the protocol does not make: CommandTwice
}
