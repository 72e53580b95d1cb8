package claim

// Bounds of the arrays in a State, and of what is counted.
const (
	workersMax    = 2
	requestsMax   = 2
	startsMax     = 3 // a call that was started so often and never finished is given up
	deliveriesMax = 3 // the same bound by deliveries, where Rules.StartsCounted is off
	effectsMax    = 2 // more are not told apart
)

// clock is the time as far as the rules tell moments apart.
type clock int8

const (
	early            clock = iota
	pastStartBefore        // no call may start
	pastDeadline           // the call's deadline is over
	pastClaimsExpiry       // no claim of this call need exist any more
)

// phase is the line at which a worker stands.
type phase int8

const (
	idle       phase = iota
	looking          // it has the request, arguments and credentials are settled
	taking           // it has found that it may start; next is the compare-and-set
	unsure           // the answer to that write was lost: read back
	claimed          // the claim is its own, the handler is not entered
	running          // the handler has started, its effect has not happened
	effected         // the effect has happened
	publishing       // its result is stored or was refused; next is the ack
)

// worker is one slot of a worker process.
type worker struct {
	phase   phase
	request int8 // the stored request it works on
}

// claimState is the state of the register.
type claimState int8

const (
	none claimState = iota
	started
	revoked
)

// gone is the holder of a claim whose process has died.
const gone int8 = -1

// register is the claim of the call: `claims/<call>.<attempt>`.
type register struct {
	state   claimState
	request int8 // the message sequence it records
	holder  int8 // the worker that wrote it, or gone
	current bool // the attempt that wrote it is still at work; stands for its nonce
	starts  int8
}

// Outcome is how a call ended.
type Outcome int8

// Outcomes of a call, and kinds of results. Pending is neither.
const (
	Pending Outcome = iota
	OK
	Unknown
	Lost
	Cancelled
)

// settling is what the orchestrator has found when it took the claim.
type settling int8

const (
	notSettling   settling = iota
	foundUnused            // the call never started, and never will
	foundOnItsWay          // it has started: its own result has a grace to come
)

// State is the whole world of one attempt of one call.
type State struct {
	workers    [workersMax]worker
	second     bool // the request was stored twice
	gone       [requestsMax]bool
	deliveries [requestsMax]int8 // counted only without Rules.StartsCounted
	claim      register
	clock      clock
	effects    int8
	waiting    uint8   // results in INBOX, a bit an Outcome
	firstIn    Outcome // the one that came first
	outcome    Outcome
	settling   settling
	cancelled  bool // settling was begun by a cancel, not by the deadline
	holderDied bool // or was stopped in the middle
	crashes    int8
	stops      int8
	losses     int8
}

// present reports whether the claim's holder is still in the registry.
func (r register) present() bool { return r.holder != gone }

// leave ends worker i's attempt; the process goes on to other requests.
func (s *State) leave(i int8) {
	if s.claim.state != none && s.claim.holder == i {
		s.claim.current = false
	}
	s.workers[i] = worker{}
}

// drop acknowledges the request of worker i and ends its attempt.
func (s *State) drop(i int8) {
	s.gone[s.workers[i].request] = true
	s.leave(i)
}
