// Package worker serves tools on the mesh: it binds to the queue of a group,
// announces its tools and runs their calls.
//
// One message at a time and slot:
//
//	parse ─ not void? ─ handler known, same version? ─ arguments ─ permission ─
//	environment ─ claim ─ handler ─ partials stored ─ one result stored ─ ack
//
// Invariants:
//   - A call starts only by a compare-and-set on its claim directly before the
//     handler. What else speaks for a call, a refusal too, takes the claim first,
//     so that of two copies of a request one is heard.
//   - A call whose effect is once is never started a second time. When its worker
//     is gone its outcome is unknown, and when its handler was interrupted too,
//     never cancelled.
//   - A worker that stops lets its calls go on for the grace. Then it gives those
//     that may run again back, claim and message, at no cost to the call; `once`
//     calls end as unknown.
//   - Nothing starts after startBefore, after a revoke, or while stopping.
//   - A result that exists is published until it is stored; only then the message
//     is acknowledged, and that acknowledgement awaited.
//   - The verdict of a call is not taken on trust: the hash of the arguments is
//     computed again and a person's decision verified against it (pkg/decision).
//
// What it does not promise: partials are live only, some may be missing or,
// when a pure or idempotent call runs again, come twice.
package worker
