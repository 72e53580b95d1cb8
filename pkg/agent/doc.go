// Package agent holds the definitions that a mesh runs: agents, their tools,
// the scripts of the provider `script`, and the project that bundles them.
//
// Load reads a project folder:
//
//	crumb.yaml                     what all agents share; may be absent
//	agents/<id>/agent.yaml         the agent; only its model is required
//	agents/<id>/prompt.md          its system prompt
//	agents/<id>/tools/<name>.yaml  one tool each
//	agents/<id>/scripts/<name>.yaml  answers of the provider script
//
// One fault in any file refuses the whole folder; Faults lists every one with
// file, line and column. A field that belongs to the format but is not built
// yet is NOT_AVAILABLE, a field nobody knows is INVALID_CONFIG with the close
// spelling: nothing that an author wrote is ever ignored.
//
// A Definition is one revision of one agent as a JSON document, complete enough
// to run it. Its rules are in one place (Definition.Check), whether it comes
// from files or over the wire. Assemble turns a definition and what workers
// announced into the ToolSet that a run pins.
//
// The package does no I/O but reading the folder in Load, and starts nothing.
package agent
