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
// Inside one decision crumbs stand in this order: human:resumed, step:end,
// tool:result|tool:error of the event, tool:blocked, tool:call, human:required,
// agent:run:end|agent:error (last, exactly one in a run).
//
// An order (Ordered) speaks of an attempt in its worker's place: redrive sends the
// next one, answer settles the call, lost says that nobody will take it.
//
// An event that settles nothing that is open changes nothing: Decide returns the
// State it was given (same Decision number). So a repeat is a no-op, and the
// State needs no list of applied events.
package core
