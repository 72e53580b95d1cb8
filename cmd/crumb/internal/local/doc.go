// Package local runs a whole mesh in this process: an embedded nats-server, the
// four services, and what a project folder adds to them.
//
//	Start ─▶ store, server, topology, key ─▶ orchestrator, approvals
//	                                             │
//	Serve(project) ─▶ queues ─▶ parts of the project ─▶ agents applied
//	                             modelgw              one, over the project's providers
//	                             toolexec/<group>     the group's exec tools
//	                             command/<group>      the group's command, kept running and started anew
//	                                                  when what it is made of changes
//
// Serve may be called again with an edited project: a part that did not change
// stays as it is, a changed one is started before its predecessor drains (a
// command of another text after, since two would answer for one), one that is gone
// is stopped. Exec tools, hooks and parsers of projects before stay served for the runs
// that began with them (earlier); the store remembers them for the process that is
// started on it next. A project that cannot be served changes nothing that matters: what was applied
// before stays applied.
//
// It is what `crumb dev` and `crumb demo` stand on. Production runs the services
// against a NATS cluster of its own.
package local
