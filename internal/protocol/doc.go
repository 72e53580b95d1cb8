// Package protocol holds models of the two protocols that the mesh lives by,
// and tests that search them exhaustively.
//
//   - delivery models how the orchestrator handles the events of one run: read,
//     help, decide, compare-and-set, deliver the Outbox, acknowledge.
//   - claim models one attempt of one call: the request, the claim, the start,
//     the result, and a cancel or a deadline that wants to end it.
//   - search is the breadth-first search that both use.
//
// A model is a small state and a list of moves: every line at which a process
// can stand, and everything that can happen there, faults included. The search
// visits every state that any order of moves can reach, so within the bounds of
// a test (a few processes, a few messages, a counted number of faults) it proves
// a promise rather than sampling it. Redeliveries are not counted: a message
// that is not acknowledged may be delivered again at any moment, also while
// somebody works on it.
//
// Each rule of the protocol is a field of a Rules struct. A test either holds
// the full set against a mix of faults, or takes one rule away and demands the
// invariant that must break then. So no rule stands in the code that is not
// needed, and whoever wants to relax one can see what it costs. The number in
// the name of a test (P1, P2 …) is that of the problem in docs/protocol.md.
//
// # Reading a trace
//
// A test that takes a rule away logs the shortest way to the damage
// (go test -v). In delivery:
//
//	never ends, shortest trace (8 steps):
//	   1  A receives e1
//	   2  A reads revision 0
//	   3  A commits revision 1 for e1 (crumbs 1,2, command 1)
//	   4  A reads the last crumb: 0
//	   5  A fails to publish; nak
//	   6  A receives e2
//	   7  A reads revision 1
//	   8  A commits revision 2 for e2 (crumbs 3,4, command 2)
//
// A, B and C are replicas, W1 and W2 workers, O the orchestrator; a line between
// dashes happens to the world (time passes, a late message arrives). Read it
// from the end: step 8 overwrites the Outbox of revision 1, which step 5 left
// undelivered and step 7 did not help with, so crumb 1 is never stored and
// nothing can follow it. "Never ends" names a state from which the system cannot
// come to its end by its own moves; a crash or a stale read that happens to
// mend it does not count. The trace ends where the last hope is lost, which may
// be a step before the damage shows.
//
// # What the models leave out
//
// Acknowledged writes are never lost (replication and sync are the server's
// task), the content of a decision (Decide is tested where it lives), void
// commands, several runs that share streams and their limits, sessions,
// approvals, blobs, and the aging of CRUMBS. A call's retries are attempts with
// a claim of their own, so one attempt is enough.
package protocol
