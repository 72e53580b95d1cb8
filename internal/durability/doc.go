// Package durability holds no code: its tests run the real services of a mesh
// and hold them to what docs/protocol.md promises under crashes, outages, lost
// and late messages. Tests are named by the schedule they play and by the case
// of the specification they pin.
//
// Three ways of breaking things are used. A hook of a service ends it at a line
// of its own (orchestrator.Config.At, approvals.Config.AfterRecord). A tap on a
// connection drops or holds what the service sends, or loses the answer
// (meshtest.Tap). And in the kill test the services are processes of their own
// that end by SIGKILL.
//
// Most tests run in virtual time, where ten minutes of AckWaits, deadlines and
// outages take a moment. Whatever happens, `history` accounts for each run: its
// crumbs are 1…n in stream order, one terminal crumb, one outcome a call.
package durability
