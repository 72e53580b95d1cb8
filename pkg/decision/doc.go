// Package decision is a person's answer to a checkpoint: its Ed25519 signature,
// and what the endpoints crumbmesh.approvals.* take and give.
//
// Only the approvals service signs. The orchestrator, before it applies a
// decision, and a worker, before it runs an approved call, verify: a message on
// the decision's subject that no trusted key signed changes nothing.
//
// What is signed is the RFC 8785 form of the decision without `sig`, under the
// number rule of pkg/argument: a number that has no exact canonical form is
// refused, since two values would share a signature. The key id `kid` is part of
// what is signed. Keys are rotated by trusting the old and the new public key
// until no decision of the old one waits.
package decision
