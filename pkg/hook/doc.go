// Package hook is the one hook chain and retry rule that every scope uses.
//
// The pure part, Read and Resolve, is what the orchestrator decides with: what an
// answer of a hook means at its point, and what follows a failure. The rest is for
// authors: Register declares hooks in Go that a worker serves beside its tools.
//
// Rules (seeds/bread-agents, "Hooks"):
//
//   - beforeRun: each hook gets the input that the one before it left; the first
//     short circuit ends the chain, and afterRun still runs.
//   - afterRun: every hook runs, each gets the output that the one before it left.
//   - onError: the first answer that is not "no opinion" counts, and each failed
//     execution enters the chain afresh.
//   - onSuspend: every hook runs, in order, and decides nothing.
//   - A hook that fails ends what it was called for, and enters no onError. One
//     that is advisory is told about and passed over.
package hook
