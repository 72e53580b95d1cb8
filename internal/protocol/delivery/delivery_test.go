package delivery_test

import (
	"fmt"
	"testing"

	"github.com/crumbmesh/crumbmesh/internal/protocol/delivery"
	"github.com/crumbmesh/crumbmesh/internal/protocol/search"
)

// statesMax stops a search that a mistake in the model has made endless.
const statesMax = 2_000_000

type result = search.Result[delivery.Step]

func explore(m delivery.Model) result {
	return search.Run[delivery.State, delivery.Step](m, statesMax)
}

// holds fails unless m was searched completely, has at least statesMin states
// (fewer mean that the model has lost some of its faults) and breaks no promise.
func holds(t *testing.T, m delivery.Model, statesMin int) {
	t.Helper()
	got := explore(m)
	for _, v := range got.Violations {
		t.Errorf("%+v breaks a promise: %s", m, v)
	}
	if !got.Complete || got.States < statesMin {
		t.Errorf("want a complete search of at least %d states; got %d, complete: %v", statesMin, got.States, got.Complete)
	}
}

// breaks fails unless m breaks want; the log has the shortest trace.
func breaks(t *testing.T, m delivery.Model, want search.Invariant) {
	t.Helper()
	got := explore(m)
	for _, v := range got.Violations {
		t.Log(v)
	}
	if _, found := got.Of(want); !found {
		t.Errorf("want %q broken under %+v; got the violations above in %d states", want, m, got.States)
	}
}

// needs fails unless m keeps every promise by the rules as they are built and
// breaks want, under the same faults, once without has taken a rule away.
func needs(t *testing.T, m delivery.Model, without func(*delivery.Rules), want search.Invariant) {
	t.Helper()
	m.Rules = delivery.Protocol()
	holds(t, m, 1)
	without(&m.Rules)
	breaks(t, m, want)
}

// mesh returns a run with two events that wait for two replicas.
func mesh(f delivery.Faults) delivery.Model {
	return delivery.Model{Rules: delivery.Protocol(), Faults: f, Replicas: 2, Events: 2}
}

func TestDelivery_HoldsUnderCrashRefusalAndStaleReads(t *testing.T) {
	t.Parallel()
	holds(t, mesh(delivery.Faults{Crashes: 1, Refusals: 1, Stale: true}), 100_000)
}

func TestDelivery_HoldsUnderTwoCrashesAndACopy(t *testing.T) {
	t.Parallel()
	holds(t, mesh(delivery.Faults{Crashes: 2, Copies: 1}), 75_000)
}

func TestDelivery_HoldsWithThreeReplicas(t *testing.T) {
	t.Parallel()
	m := mesh(delivery.Faults{})
	m.Replicas = 3
	holds(t, m, 100_000)
}

func TestDelivery_HoldsWithThreeEvents(t *testing.T) {
	t.Parallel()
	m := mesh(delivery.Faults{})
	m.Events = 3
	holds(t, m, 20_000)
}

func TestDelivery_HoldsWhenEventsAnswerCommands(t *testing.T) {
	t.Parallel()
	m := mesh(delivery.Faults{Crashes: 1, Refusals: 1, Stale: true})
	m.Chained = true
	holds(t, m, 50_000)
}

// A publication may reach its stream long after its sender gave it up, from a
// reconnect buffer or a paused process.
func TestDelivery_HoldsUnderLatePublications(t *testing.T) {
	t.Parallel()
	holds(t, mesh(delivery.Faults{Late: 1, Copies: 1}), 75_000)
}

// Commands first is cheaper (the last crumb is the receipt of the whole
// Outbox); crumbs first is as safe.
func TestDelivery_P2_CrumbsFirstIsEquallySafe(t *testing.T) {
	t.Parallel()
	m := mesh(delivery.Faults{Crashes: 1, Stale: true})
	m.Rules.CommandsFirst = false
	holds(t, m, 20_000)
}

// No crash at all: A's own Outbox, half delivered, is overwritten by A.
func TestDelivery_P1_AnOwnFailedPublishIsHelpedToo(t *testing.T) {
	t.Parallel()
	needs(t, mesh(delivery.Faults{Refusals: 1}), func(r *delivery.Rules) { r.Help = delivery.HelpForeign }, search.NeverEnds)
}

// A crash, and nobody comes by before the window has passed.
func TestDelivery_P1_HelpingIsUnbounded(t *testing.T) {
	t.Parallel()
	needs(t, mesh(delivery.Faults{Crashes: 1, Windows: 1}), func(r *delivery.Rules) { r.Help = delivery.HelpInWindow }, search.NeverEnds)
}

// Without the fence the hole is not refused but passed over.
func TestDelivery_P1_WindowAloneLosesACommand(t *testing.T) {
	t.Parallel()
	m := mesh(delivery.Faults{Refusals: 1})
	m.Rules = delivery.WindowOnly()
	breaks(t, m, delivery.CommandLost)
}

func TestDelivery_P1_WindowAloneLosesOrder(t *testing.T) {
	t.Parallel()
	m := mesh(delivery.Faults{Windows: 1})
	m.Rules = delivery.WindowOnly()
	breaks(t, m, delivery.CrumbOrder)
}

// Helping without a bound makes every slow replica a second publisher.
func TestDelivery_P2_CrumbsAreFenced(t *testing.T) {
	t.Parallel()
	needs(t, mesh(delivery.Faults{Windows: 1}), func(r *delivery.Rules) { r.Fence = false }, delivery.CrumbTwice)
}

func TestDelivery_P2_FenceStopsLatePublications(t *testing.T) {
	t.Parallel()
	m := mesh(delivery.Faults{Windows: 1, Late: 1})
	m.Replicas = 1
	needs(t, m, func(r *delivery.Rules) { r.Fence = false }, delivery.CrumbTwice)
}

// A fence that only says "on top of whatever is last" lets a refused publisher
// append what its helper has stored.
func TestDelivery_P2_SeqIsPreviousPlusOne(t *testing.T) {
	t.Parallel()
	needs(t, mesh(delivery.Faults{}), func(r *delivery.Rules) { r.Successor = false }, delivery.CrumbTwice)
}

func TestDelivery_P2_CrumbsGoOutOneByOne(t *testing.T) {
	t.Parallel()
	m := mesh(delivery.Faults{Reorders: 1})
	m.Replicas = 1
	needs(t, m, func(r *delivery.Rules) { r.Serial = false }, delivery.CrumbOrder)
}

// A decision sent twice, more than a window apart: no other fault.
func TestDelivery_P2_LateCopySendsNothing(t *testing.T) {
	t.Parallel()
	m := mesh(delivery.Faults{Windows: 1, Copies: 1})
	m.Replicas, m.Events = 1, 1
	needs(t, m, func(r *delivery.Rules) { *r = delivery.WindowOnly() }, delivery.CrumbTwice)
}

// The one case in which the window is enough: it never passes, crumbs go out
// one by one, and a replica helps unless it has seen the Outbox delivered.
func TestDelivery_P2_InsideTheWindowHelpingIsEnough(t *testing.T) {
	t.Parallel()
	m := mesh(delivery.Faults{Crashes: 1, Refusals: 1, Stale: true})
	m.Rules = delivery.Rules{Help: delivery.HelpInWindow, Serial: true}
	holds(t, m, 50_000)
}

// The answer to a command meets a State that does not know the command yet.
func TestDelivery_P3_NothingChangesMeansReadTheLeader(t *testing.T) {
	t.Parallel()
	m := mesh(delivery.Faults{Stale: true})
	m.Chained = true
	needs(t, m, func(r *delivery.Rules) { r.LeaderRead = false }, delivery.EventLost)
}

// The protocol does not promise that a command is stored once, which is why
// the receiver of a command takes a claim.
func TestDelivery_P4_ACommandMayArriveTwice(t *testing.T) {
	t.Parallel()
	breaks(t, mesh(delivery.Faults{Crashes: 1, Windows: 1, CommandOnce: true}), delivery.CommandTwice)
}

// An Outbox that its own writer failed to deliver is overwritten by the next
// decision; the fence then refuses every later crumb for ever.
func Example_overwrittenOutbox() {
	m := mesh(delivery.Faults{Refusals: 1})
	m.Rules.Help = delivery.HelpForeign
	broken, _ := explore(m).Of(search.NeverEnds)
	fmt.Println(broken)
	// Output:
	// never ends, shortest trace (8 steps):
	//    1  A receives e1
	//    2  A reads revision 0
	//    3  A commits revision 1 for e1 (crumbs 1,2, command 1)
	//    4  A reads the last crumb: 0
	//    5  A fails to publish; nak
	//    6  A receives e2
	//    7  A reads revision 1
	//    8  A commits revision 2 for e2 (crumbs 3,4, command 2)
}
