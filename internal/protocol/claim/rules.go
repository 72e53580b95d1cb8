package claim

import "github.com/crumbmesh/crumbmesh/internal/protocol/search"

// What an observer of a call must never see.
const (
	// EffectTwice: the effect of a `once` call happens twice.
	EffectTwice search.Invariant = "effect of a once call happens twice"
	// StartAfterEnd: the handler starts after the call was decided `cancelled` or `lost`.
	StartAfterEnd search.Invariant = "start after the call was ended"
	// HiddenEffect: a `once` call is `cancelled` or `lost`, yet its effect happens.
	HiddenEffect search.Invariant = "cancelled or lost hides an effect"
	// FalseUnknown: `unknown` although no holder died, nobody cancelled and the deadline is not over.
	FalseUnknown search.Invariant = "unknown without a cause"
	// FalseLost: `lost` while a handler runs, nobody cancelled and the deadline is not over.
	FalseLost search.Invariant = "lost while a handler runs"
	// AnswerOverruled: another outcome is decided although `ok` came first and waits.
	AnswerOverruled search.Invariant = "a waiting ok is overruled"
)

// Effect is what a second execution after a crash would mean.
type Effect int8

const (
	// Once must not happen twice: a redelivery does not run it again.
	Once Effect = iota
	// Idempotent may run again after a crash; `pure` and model calls are like it.
	Idempotent
)

// Rules are the rules of a call that a search can leave out, one by one.
type Rules struct {
	// StartBefore: no call starts after its startBefore, its request leaves the
	// queue by then, and claims outlive it (P4). Without it a claim may expire
	// under a request.
	StartBefore bool
	// Revoke: cancel and the deadline take the claim before they are decided; a
	// call found started gets a grace for its own result (P5). Without it they
	// are decided at once.
	Revoke bool
	// Nonce: a claim carries a nonce of the attempt to start, by which an
	// ambiguous write is recognised (P4). Without it the worker's id is compared.
	Nonce bool
	// Deadline: the run has a durable timer for the call (P7).
	Deadline bool
	// ResultOnce: at most one result of a call waits in INBOX (P8).
	ResultOnce bool
	// HolderLives: a redelivery that may not start the call is naked while the
	// holder of the claim is present: before it answers `unknown`, until the
	// deadline; before it answers `lost`, without end (P12).
	HolderLives bool
	// StartsCounted: a call is given up after startsMax starts, counted in its
	// claim (P7). Without it deliveries are counted.
	StartsCounted bool
	// AnswersFirst: a deadline or a grace is decided only if INBOX holds no
	// result of the call (P8).
	AnswersFirst bool
	// AgeMatters: a claim found missing after it could have expired proves
	// nothing, so the call is taken for started (P5).
	AgeMatters bool
	// ReleaseOwn: a worker that stops gives its start back only by a
	// compare-and-set on the claim as it wrote it (P20). Without it the claim is
	// overwritten, whoever has it.
	ReleaseOwn bool
	// ReleaseUntouched: of a `once` call only a start whose handler was not
	// entered is given back (P20).
	ReleaseUntouched bool
}

// Protocol returns the rules as they are built.
func Protocol() Rules {
	return Rules{
		StartBefore: true, Revoke: true, Nonce: true, Deadline: true, ResultOnce: true,
		HolderLives: true, StartsCounted: true, AnswersFirst: true, AgeMatters: true,
		ReleaseOwn: true, ReleaseUntouched: true,
	}
}

// Faults bound what may go wrong. The counts are totals over one trace.
// Redeliveries need no bound: a request that is not acknowledged may reach any
// idle worker at any moment, also while another still works on it.
type Faults struct {
	Crashes   int8 // a worker loses its memory and its id, at any line
	Stops     int8 // a worker is stopped gracefully and gives up what it has in hand, at any line
	Losses    int8 // the answer to a claim's write or to an ack is lost
	Stale     bool // a look at the claim may be from before it was written
	Republish bool // the request is stored a second time, at any distance
	Expire    bool // claims expire, as early as the rules allow
	Cancel    bool // the run is cancelled, at any moment
}
