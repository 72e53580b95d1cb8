// Package rule is the one hook chain and retry rule that every scope uses: what an
// answer of a hook means at its point, and what follows a failure. It is pure.
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
