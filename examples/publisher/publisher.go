// Package publisher is the first example: an agent that reads a document, asks a
// person for a headline and, once a person approves, publishes it.
//
// Its tools are of every kind of this release: two Go functions in package
// worker (group demo), a program that streams (word_count) and a question to a
// person (headline). The model is scripted, so a run needs no LLM.
//
// `crumb demo` runs it from this package, without a network; `crumb dev
// examples/publisher` serves the folder itself.
package publisher

import (
	"embed"
	"io/fs"
)

//go:embed crumb.yaml agents
var files embed.FS

// Agent is the id of the example's agent.
const Agent = "publisher"

// Group is the worker group of the example's Go tools.
const Group = "demo"

// Files returns the project folder: crumb.yaml and agents/.
func Files() fs.FS { return files }
