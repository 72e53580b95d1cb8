// Package rule is the one retry rule that every scope uses: what follows a failure,
// given what its onError hooks said. It is pure; crumbs.ReadHookAnswer says what an
// answer means at its point.
//
// The rules (seeds/bread-agents, "Hooks"):
//
//   - beforeRun: each hook gets the input that the one before it left; the first
//     short circuit ends the chain, and afterRun still runs.
//   - afterRun: every hook runs, each gets the output that the one before it left.
//   - onError: the first answer that is not "no opinion" counts, and each failed
//     execution enters the chain afresh.
//   - onSuspend: every hook runs, in order, and decides nothing.
//   - A hook that fails ends what it was called for, and enters no onError. One
//     that is advisory is told about and passed over.
package rule
