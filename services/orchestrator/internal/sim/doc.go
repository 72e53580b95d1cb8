// Package sim runs the real run machine in a mesh that is made of nothing but
// virtual time: orchestrators, tool workers, model gateways, people and clients
// around queues and buckets that lose requests and answers, deliver late and
// twice, forget what they deduplicated, while processes crash between any two
// lines, pause and come back. A seed decides everything, so a violation is
// repeated by its seed.
//
// What is real: core.Decide, core.Settles, core.Render. What is modelled, line by
// line, is the loop of services/orchestrator/internal/worker, the claims of
// pkg/mesh, the fenced append of pkg/crumbs/jscrumbs and the steps of pkg/tool's
// worker; their names are kept, so that one can be read beside the other.
//
// At the end of a run of the simulator Report tells what of docs/protocol.md was
// broken: every run ends, every call has one outcome, a `once` call has at most
// one effect, crumbs are whole, single and in order, no decision and no cancel is
// lost, nothing starts after the cancel, outcomes are honest, no model call is
// paid twice without a crash. Each rule of the protocol can be switched off
// (Rules): then a violation must be found, or the rule is idle.
//
// Left out: sizes and blobs, sessions, child runs, records of other versions and
// undecodable ones, and the loss of acknowledged writes.
package sim
