// Package crumbs is the wire contract of the mesh: ids, subjects, the bodies of
// commands, outcomes and crumbs, and their CloudEvents encoding.
//
// A colon names a crumb (`tool:call`: a fact, stored on CRUMBS or sent live on
// DELTAS), a dot a wire message (`tool.call`: a command or an outcome). A run's
// crumbs are numbered 1, 2, 3 … (`seq`) and stored once, in order; a delta, or
// another run's crumb, may precede a run's own crumb by a millisecond: order is
// promised inside a run only.
//
// Readers ignore unknown fields; writers are tested against closed copies of
// schemas/.
package crumbs
