// Package program runs a command of any language as a tool.
//
// The program gets the arguments as one JSON document on standard input, then
// end of file, and answers with one JSON document on standard output; a
// streaming one writes a document a line, each line a partial, the last one the
// result. Exit status 0 is success; another one, or output that is not JSON, is
// TOOL_ERROR with the end of standard error; a document nested deeper than
// tool.DepthMax is TOOL_RESULT_INVALID.
//
// Its environment is PATH, HOME, LANG, what follows and the variables it declares,
// nothing else: what the worker was started with does not leak into programs (F101).
//
//	CRUMB_CALL_ID         the same on a redelivery: the program's idempotency key
//	CRUMB_RUN_ID, CRUMB_AGENT_ID, CRUMB_SESSION_ID, CRUMB_ATTEMPT, CRUMB_TOOL_NAME
//	CRUMB_PRINCIPAL       on whose behalf, {"iss","sub","tenant"}; not set when nobody said
//	TRACEPARENT           the span of the call (W3C), when it is traced
//	CRUMB_FILES_DIR       of a tool: an empty folder
//	CRUMB_HOOK_NAME, CRUMB_HOOK_POINT  of a hook
//
// What a tool's program leaves in CRUMB_FILES_DIR is stored when it succeeded and
// named in the result's files. When it wrote nothing to standard output, the result
// is {"files": [{kind, uri, mimeType, name}]}. The folder is removed with the call. A
// worker without a writable folder for temporary files sets no CRUMB_FILES_DIR.
//
// As a hook (Program.Hook) it gets a crumbs.HookInput and answers with a
// crumbs.HookAnswer or nothing; as a parser (Program.Parser) it gets {"text": …}.
//
// It runs in a process group of its own. When the call is over before the
// program is, the group gets SIGTERM, and SIGKILL after KillAfter; what it left
// running is killed when it ends. A process that left the group and still holds
// standard output open makes the call a TOOL_ERROR: the result may be cut there.
// When the worker itself is killed, the program (not what it started) is killed
// with it on Linux; elsewhere it runs on.
package program
