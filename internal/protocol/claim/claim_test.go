package claim_test

import (
	"fmt"
	"testing"

	"github.com/crumbmesh/crumbmesh/internal/protocol/claim"
	"github.com/crumbmesh/crumbmesh/internal/protocol/search"
)

// statesMax stops a search that a mistake in the model has made endless.
const statesMax = 2_000_000

type result = search.Result[claim.Step]

func explore(m claim.Model) result {
	return search.Run[claim.State, claim.Step](m, statesMax)
}

// holds fails unless m was searched completely, has at least statesMin states
// (fewer mean that the model has lost some of its faults) and breaks no promise.
func holds(t *testing.T, m claim.Model, statesMin int) {
	t.Helper()
	got := explore(m)
	for _, v := range got.Violations {
		t.Errorf("%+v breaks a promise: %s", m, v)
	}
	if !got.Complete || got.States < statesMin {
		t.Errorf("want a complete search of at least %d states; got %d, complete: %v", statesMin, got.States, got.Complete)
	}
}

// needs fails unless m keeps every promise by the rules as they are built and
// breaks want, under the same faults, once without has taken a rule away. The
// log has the shortest trace.
func needs(t *testing.T, m claim.Model, without func(*claim.Rules), want search.Invariant) {
	t.Helper()
	holds(t, m, 1)
	without(&m.Rules)
	got := explore(m)
	for _, v := range got.Violations {
		t.Log(v)
	}
	if _, found := got.Of(want); !found {
		t.Errorf("want %q broken under %+v; got the violations above in %d states", want, m, got.States)
	}
}

// call returns a call that two workers may get.
func call(e claim.Effect, f claim.Faults) claim.Model {
	return claim.Model{Rules: claim.Protocol(), Faults: f, Effect: e, Workers: 2}
}

func TestClaim_OnceHoldsUnderAllFaults(t *testing.T) {
	t.Parallel()
	holds(t, call(claim.Once, claim.Faults{Crashes: 1, Losses: 1, Stale: true, Republish: true, Expire: true, Cancel: true}), 80_000)
}

func TestClaim_IdempotentHoldsUnderLostAnswers(t *testing.T) {
	t.Parallel()
	holds(t, call(claim.Idempotent, claim.Faults{Losses: 1, Stale: true, Republish: true, Expire: true, Cancel: true}), 65_000)
}

func TestClaim_IdempotentHoldsUnderACrash(t *testing.T) {
	t.Parallel()
	holds(t, call(claim.Idempotent, claim.Faults{Crashes: 1, Republish: true, Expire: true, Cancel: true}), 80_000)
}

// Every start dies: the call is given up, and nothing starts it again.
func TestClaim_PoisonHolds(t *testing.T) {
	t.Parallel()
	holds(t, call(claim.Idempotent, claim.Faults{Crashes: 3, Cancel: true}), 30_000)
}

// Workers are replaced while they work, as in a rollout.
func TestClaim_OnceHoldsUnderStops(t *testing.T) {
	t.Parallel()
	holds(t, call(claim.Once, claim.Faults{Stops: 2, Losses: 1, Republish: true, Expire: true, Cancel: true}), 20_000)
}

func TestClaim_IdempotentHoldsUnderStops(t *testing.T) {
	t.Parallel()
	holds(t, call(claim.Idempotent, claim.Faults{Stops: 2, Losses: 1, Cancel: true}), 20_000)
}

func TestClaim_HoldsUnderAStopAndACrash(t *testing.T) {
	t.Parallel()
	holds(t, call(claim.Once, claim.Faults{Stops: 1, Crashes: 1, Stale: true, Cancel: true}), 5_000)
	holds(t, call(claim.Idempotent, claim.Faults{Stops: 1, Crashes: 1, Republish: true}), 10_000)
}

// A start that is given back is none: any number of them loses no call.
func TestClaim_P20_StopsAreNoPoison(t *testing.T) {
	t.Parallel()
	got := explore(call(claim.Idempotent, claim.Faults{Stops: 4}))
	if broken, found := got.Of(claim.FalseLost); found || !got.Complete || len(got.Violations) > 0 {
		t.Errorf("complete: %v, %v %v", got.Complete, broken, got.Violations)
	}
}

// What the cancel has taken stays taken.
func TestClaim_P20_OnlyTheOwnStartIsGivenBack(t *testing.T) {
	t.Parallel()
	m := call(claim.Idempotent, claim.Faults{Stops: 1, Cancel: true})
	needs(t, m, func(r *claim.Rules) { r.ReleaseOwn = false }, claim.StartAfterEnd)
}

func TestClaim_P20_AnEnteredOnceCallIsNotGivenBack(t *testing.T) {
	t.Parallel()
	m := call(claim.Once, claim.Faults{Stops: 1})
	needs(t, m, func(r *claim.Rules) { r.ReleaseUntouched = false }, claim.EffectTwice)
}

func TestClaim_P4_NothingStartsAfterStartBefore(t *testing.T) {
	t.Parallel()
	needs(t, call(claim.Once, claim.Faults{Expire: true}), func(r *claim.Rules) { r.StartBefore = false }, claim.EffectTwice)
}

// The worker's id is no nonce: the same worker gets the second request.
func TestClaim_P4_NonceIsOfTheAttempt(t *testing.T) {
	t.Parallel()
	m := call(claim.Once, claim.Faults{Losses: 1, Stale: true, Republish: true})
	needs(t, m, func(r *claim.Rules) { r.Nonce = false }, claim.EffectTwice)
}

func TestClaim_P5_CancelTakesTheClaim(t *testing.T) {
	t.Parallel()
	m := call(claim.Once, claim.Faults{Cancel: true})
	needs(t, m, func(r *claim.Rules) { r.Revoke = false }, claim.StartAfterEnd)
}

func TestClaim_P5_CancelHidesNoEffect(t *testing.T) {
	t.Parallel()
	m := call(claim.Once, claim.Faults{Cancel: true})
	needs(t, m, func(r *claim.Rules) { r.Revoke = false }, claim.HiddenEffect)
}

func TestClaim_P5_DeadlineTakesTheClaim(t *testing.T) {
	t.Parallel()
	m := call(claim.Once, claim.Faults{})
	needs(t, m, func(r *claim.Rules) { r.Revoke = false }, claim.StartAfterEnd)
}

// All orchestrators were down for longer than a claim lives.
func TestClaim_P5_AnAgedMissingClaimProvesNothing(t *testing.T) {
	t.Parallel()
	m := call(claim.Once, claim.Faults{Crashes: 1, Expire: true})
	needs(t, m, func(r *claim.Rules) { r.AgeMatters = false }, claim.HiddenEffect)
}

func TestClaim_P7_DeadlineEndsTheCallOfADeadGroup(t *testing.T) {
	t.Parallel()
	m := call(claim.Once, claim.Faults{})
	m.Workers = 0
	needs(t, m, func(r *claim.Rules) { r.Deadline = false }, search.NeverEnds)
}

// Past startBefore its workers drop the request, and nobody answers.
func TestClaim_P7_DeadlineEndsTheCallThatNobodyMayStart(t *testing.T) {
	t.Parallel()
	needs(t, call(claim.Once, claim.Faults{}), func(r *claim.Rules) { r.Deadline = false }, search.NeverEnds)
}

// Deliveries are also used up by naks while the holder lives.
func TestClaim_P7_StartsAreCountedInTheClaim(t *testing.T) {
	t.Parallel()
	needs(t, call(claim.Once, claim.Faults{}), func(r *claim.Rules) { r.StartsCounted = false }, claim.HiddenEffect)
}

// A worker publishes `ok` and dies before its ack; the redelivery's `unknown`
// must not overtake it.
func TestClaim_P8_OneResultWaits(t *testing.T) {
	t.Parallel()
	m := call(claim.Once, claim.Faults{Crashes: 1})
	needs(t, m, func(r *claim.Rules) { r.ResultOnce = false }, claim.AnswerOverruled)
}

func TestClaim_P8_AnswersAreDecidedBeforeDeadlines(t *testing.T) {
	t.Parallel()
	needs(t, call(claim.Once, claim.Faults{}), func(r *claim.Rules) { r.AnswersFirst = false }, claim.AnswerOverruled)
}

func TestClaim_P12_NoUnknownWhileTheHolderLives(t *testing.T) {
	t.Parallel()
	needs(t, call(claim.Once, claim.Faults{}), func(r *claim.Rules) { r.HolderLives = false }, claim.FalseUnknown)
}

func TestClaim_P12_NoLostWhileTheHolderLives(t *testing.T) {
	t.Parallel()
	m := call(claim.Idempotent, claim.Faults{Crashes: 2})
	needs(t, m, func(r *claim.Rules) { r.HolderLives = false }, claim.FalseLost)
}

// A worker that is only slow: its request is redelivered while it runs.
func Example_holderLives() {
	m := call(claim.Once, claim.Faults{})
	m.Rules.HolderLives = false
	broken, _ := explore(m).Of(claim.FalseUnknown)
	fmt.Println(broken)
	// Output:
	// unknown without a cause, shortest trace (6 steps):
	//    1  W1 receives request 1
	//    2  W1 finds that it may start
	//    3  W1 claims
	//    4  W2 receives request 1
	//    5  W2 publishes unknown
	//    6  O decides the result unknown
}
