// Package tool is what the author of a tool imports.
//
// A tool is a Go function with a name, a description and typed arguments:
//
//	search := tool.Define("web_search", "Search the web.",
//		func(ctx tool.Context, in Query) ([]Hit, error) { … },
//		tool.Effect(crumbs.EffectPure), tool.Timeout(30*time.Second))
//
// The JSON Schema of the arguments comes from the struct's tags (`json`,
// `jsonschema:"minimum=1,default=5,description=…"`); a tag word that would have
// no effect is refused. A streaming tool (DefineStream) returns an iterator:
// each yielded value is a partial, the last one is the result. Declaring a tool
// never panics: Tool.Err holds what is wrong and a worker refuses to start.
//
// # Effect
//
// A tool's effect says what a second execution after a crash would mean
// (docs/protocol.md). The default is once: a call that was interrupted is not run
// again, its outcome is unknown. A tool that passes Context.CallID on as its
// idempotency key may declare itself idempotent, one without side effects pure.
//
// # Interruption
//
// A call has a total limit, a streaming one also an idle limit, and its run may
// be cancelled: the Context is then done. A handler has InterruptGrace to
// return; one that does not is abandoned with its goroutine. What a handler
// returns after a limit fired is never a success.
//
// Programs in any language are tools through package program; package worker
// serves tools on the mesh.
package tool
