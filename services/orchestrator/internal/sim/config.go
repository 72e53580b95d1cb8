package sim

import (
	"errors"
	"time"
)

// Durations of the mesh, those of pkg/mesh's DefaultSettings.
const (
	ackWait         = 4 * time.Second
	heartbeat       = ackWait / 3
	presenceTTL     = 15 * time.Second
	duplicateWindow = 2 * time.Minute
	requestTimeout  = 2 * time.Second
	nakDelay        = time.Second
	inboxFirst      = time.Second
	fullPause       = time.Second
	runTTL          = 15 * 24 * time.Hour
	tombstoneTTL    = 24 * time.Hour
	claimTTL        = 48 * time.Hour
	shortClaimTTL   = 2 * time.Minute // with Rules.LongClaims off
	startsMax       = 3
	conflictsMax    = 64
	publishAgain    = 30 * time.Second // approvals, until the run has resumed
)

var (
	errTimeout  = errors.New("no answer")
	errConflict = errors.New("conflict")
	errFull     = errors.New("full")
	errWaits    = errors.New("an answer waits in INBOX")
)

// Faults are what goes wrong while a simulation runs; its last part is calm.
type Faults struct {
	Crash    float64 // probability at each line
	LongDown float64 // of the crashes: down for longer than the duplicate window
	Loss     float64 // of a request or its answer
	Late     float64 // of the losses: the request arrives minutes later
	Pause    float64 // of a process, up to three times
	Restart  bool    // the server forgets the ids of acknowledged messages, twice
	AllDown  bool    // all orchestrators at once, for 3 to 5 minutes
	Night    bool    // with AllDown: for 40 minutes, longer than a question waits
	Poison   bool    // some calls kill their worker whenever they start
	Dead     bool    // a group without workers
	Full     bool    // TOOLCALLS takes few messages
	Cancel   float64 // of the runs
}

// Rules are those of docs/protocol.md that can be switched off.
type Rules struct {
	Help        bool // an Outbox not seen delivered is delivered before it is overwritten
	Fence       bool // a crumb is stored only on top of the one before
	FreshRead   bool // what changes nothing is decided again on a fresh read
	InboxFirst  bool // a deadline waits for an answer that is stored
	Revoke      bool // cancel and deadlines take the claims of what they settle
	Timers      bool // every pending thing has a deadline
	ModelClaim  bool // model calls take a claim
	Nonce       bool // an ambiguous claim is read back
	ResultOnce  bool // at most one result of an attempt waits
	HolderLives bool // a call whose holder is present is not given up
	Tombstone   bool // a cancel without a run is remembered
	LongClaims  bool // claims outlive what can ask for them
	Now         bool // what a decision begins is timed from when it is decided
}

// AllRules is the protocol as it is.
func AllRules() Rules {
	return Rules{Help: true, Fence: true, FreshRead: true, InboxFirst: true, Revoke: true, Timers: true, ModelClaim: true, Nonce: true,
		ResultOnce: true, HolderLives: true, Tombstone: true, LongClaims: true, Now: true}
}

// Config of one simulation.
type Config struct {
	Seed     uint64
	Runs     int
	Replicas int // orchestrators
	Faults   Faults
	Rules    Rules
	Trace    bool // keep what happened, for Report.Trace
}
