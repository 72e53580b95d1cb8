// Package claim models one attempt of one call: the stored request, which may
// be delivered again at any moment and stored a second time; the workers of its
// group; the claim, which is the register that decides whether the call starts;
// the result; and the orchestrator, which waits for an outcome and may want to
// end the call first, by a cancel or by its deadline.
//
//	none ──compare-and-set before the handler──▶ started ──┐
//	 │ ▲────────── given back by a stop ───────────┘       │
//	 └─────────── cancel or deadline ──────────▶ revoked ◀─┘
//
// A claim that the orchestrator revokes unused proves that the call never runs.
// One that it finds started gives the call a grace for its own result.
package claim
