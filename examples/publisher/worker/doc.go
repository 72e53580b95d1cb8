// Package worker holds the Go tools of the example: read_document, which changes
// nothing, and publish, which must happen once.
//
// A tool is a function with typed arguments; the schema the model sees comes
// from the struct's tags. What a second execution after a crash would mean is
// the tool's effect: read_document is pure and may run again, publish is once
// (the default), so that a call that was interrupted ends as `unknown` instead
// of being published twice.
package worker
