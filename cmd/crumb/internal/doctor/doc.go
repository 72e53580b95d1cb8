// Package doctor looks at a mesh and says what is wrong with it, why that matters
// and which command mends it. Examine reads, Diagnose judges: the second is pure, so
// that every finding is a case of a table.
//
// It needs of NATS: the JetStream API subjects INFO, STREAM.INFO.*, CONSUMER.INFO.*.*
// and CONSUMER.NAMES.*, and the endpoints crumbmesh.mesh.get and
// crumbmesh.approvals.get: no stream's messages and no bucket. What it may not see it
// says, and judges the rest.
package doctor
