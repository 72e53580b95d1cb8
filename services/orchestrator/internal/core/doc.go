// Package core is the run machine: Decide turns a State and an Event into the
// next State, which carries its Outbox; Render turns an intent of the Outbox
// into a wire body. Both are pure: no NATS, no clock, no randomness. Time and
// ids come with the event, claims that were revoked and blobs that were read
// are put into it by the worker around it.
//
// A run's life:
//
//	running ──every call settled or asks──▶ suspended ──an answer──▶ running
//	   │                                        │
//	   ├─────────── cancel, deadline ───────────┴─▶ stopping ─▶ cancelled | failed
//	   ├─▶ completed (text without calls, or steps.max reached)
//	   └─▶ failed (model error, refused request, fault of the mesh)
//
// Inside one decision crumbs stand in this order: agent:run:start, human:resumed,
// step:end, hook:error, tool:result|tool:error of the event (after the partial results
// that its tool keeps), tool:blocked, tool:call, human:required,
// agent:run:end|agent:error (last, exactly one in a run). A file:generated stands
// beside what made the file; the tool:call of a call that a hook gave its result stands
// right before its tool:result.
//
// Hooks and parsers are errands: calls with attempts, claims and deadlines like a
// tool's, of which crumbs tell only when they fail. A chain is the hooks of one point
// while they are called one after the other (package hook has the rules); the run has
// one at most, each of its calls one, and one more tells onSuspend hooks. A step:end
// waits until it is decided what follows its attempt, agent:run:start until beforeRun
// hooks have left the input, agent:run:end for afterRun hooks and for onSuspend hooks
// that have not heard of all questions. A cancel waits for none of them.
//
// An order (Ordered) speaks of an attempt in its worker's place: redrive sends the
// next one, answer settles the call, lost says that nobody will take it.
//
// An event that settles nothing that is open changes nothing: Decide returns the
// State it was given (same Decision number). So a repeat is a no-op, and the
// State needs no list of applied events.
package core
