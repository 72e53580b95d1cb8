// Package approvals is the service through which people answer questions.
//
// It reads the human crumbs (consumer `approvals` on CRUMBS) into the bucket
// `approvals`, one row a question, serves crumbmesh.approvals.{list,get,decide}
// and publishes signed decisions on approval.decision.<run>.<checkpoint>.
//
//	human:required        decide                 human:resumed
//	      │                  │                         │
//	      ▼                  ▼                         ▼
//	    open ──────────▶ decided ──────────▶ applied | expired | withdrawn
//	      └──────────────────────────────────────────▲
//
// Invariants:
//   - the first answer wins, by compare-and-set on the row; a later one hears by
//     whom and when it was decided, the same one again gets the same receipt;
//   - one key signs, the one that the mesh has (row _signer): a replica with another
//     does not start, since nobody would believe it;
//   - a decision is recorded before it is published, and published again until
//     human:resumed is seen: what was accepted is not lost by a crash anywhere. It
//     rests when copy after copy is taken and the run does not speak, as one that is
//     refused is;
//   - a row never goes back, in whatever order crumbs and answers are seen;
//   - only human:resumed says what became of a question: `decided` means not yet
//     applied, also when nobody is there to apply it;
//   - an answer of the wrong kind, to other arguments or outside its schema
//     changes nothing;
//   - rows can be made again from CRUMBS, and an answer that is faster than the
//     consumer finds its question there.
//
// It does not decide who may answer (that is the mesh's accounts and the page in
// front of it), does not expire questions (the orchestrator's timer does, and it
// also decides whether an answer past expiresAt came in time) and holds no run.
package approvals
