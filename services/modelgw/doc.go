// Package modelgw is the model gateway: it takes model.call requests from the
// queue of each provider instance it serves, lets the provider generate the
// turn, streams deltas while it does, and stores one model.result.
//
// # One request
//
//	model.call ─▶ readable? ──no──▶ dead letter
//	                 │
//	            startBefore over? ──▶ dropped: the orchestrator's deadline settles it
//	                 │
//	            provider served? segments there? ──no──▶ model.result error
//	                 │
//	            claim <call>.<attempt> ── revoked, another request ──▶ dropped
//	                 │                └── started three times ──▶ model.result error, dead letter
//	              adapter ──▶ text:delta, reasoning:delta, tool:input:* on DELTAS
//	                 │
//	            model.result ok | error | cancelled, repeated until stored ─▶ double ack
//
// # Invariants
//
//   - The queue `own` is of all instances that agents have of their own: the call names
//     revision and instance, and the revision says of what kind it is. Every gateway
//     serves it.
//   - An adapter is asked only under the claim of its attempt, taken directly
//     before; a second request of an attempt is dropped, a redelivery after a
//     crash runs again (`idempotent`) and still leaves one result.
//   - A revoked claim that was never started gets no answer and never runs.
//   - Every ack of a delta is awaited before the result is stored; the result
//     says how many there were.
//   - ctl.cancel, a revoked claim (read at each heartbeat) and the call's deadline
//     end a call in flight: `cancelled`, `cancelled`, MODEL_TIMEOUT.
//   - The same transcript makes the same prompt, byte for byte, and a longer one begins
//     with it: the result says what the prompt was, and whether it began as the one
//     before it (Prefix).
//   - What a model makes beside its text is stored before the result is, as a file
//     that everybody may read who follows the run (ADR 0029).
//   - A structured answer (output.format json) is asked for without tools, and its
//     text is not streamed.
//   - What a tool returned reaches a model inside a fence, as data (internal/prompt);
//     the transcript keeps it as it was.
//   - No secret of this process (mesh.Conn.Secrets) is in a delta or a result, also
//     when it comes in two pieces.
//   - A panic of an adapter is MODEL_ERROR of its call; nothing else notices.
//   - A stopping gateway finishes what it holds for a grace; what is not finished
//     goes back to the queue at once, without a result and without a start.
//
// # Non-goals
//
// The gateway does not retry (the orchestrator does, attempt by attempt), holds
// no conversation, runs no tool and decides nothing about a run.
package modelgw
