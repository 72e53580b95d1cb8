// Package toolexec is the service that runs tool calls of one group: the
// commands (`exec`) of a project folder that belong to the group, and Go tools
// handed to it.
//
//	tool.call.<group>.<run> ─▶ worker ─▶ command or Go function
//	                             │            │ partials ─▶ delta.<agent>.<run>.tool.partial.<group>
//	                             ◀────────────┘
//	tool.result.<group>.<run>.<call>-<attempt>
//
// All that makes a call happen once, or not twice, is pkg/tool/worker's; all that
// makes a command a tool is pkg/tool/program's.
//
// Invariants:
//   - only commands of its own folder run: a definition that comes over the mesh
//     is never executed;
//   - a folder with any fault serves nothing;
//   - a command that changed is another version of its tool: calls made for the
//     old one go to workers that still have it, such as this one when it is told of
//     what was served before (Config.Earlier).
//
// Non-goals: it holds no run, decides nothing and retries nothing. It does not
// follow changes of the folder; start it again.
package toolexec
