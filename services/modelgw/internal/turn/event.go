// Package turn is what the gateway and the adapters of model providers say to
// each other: the events of one model turn, and why a turn failed. It knows
// neither NATS nor any provider.
package turn

import "github.com/crumbmesh/crumbmesh/pkg/crumbs"

// Kind says what an Event is.
type Kind int

// The kinds. A turn is any number of pieces and then exactly one Done.
const (
	Text       Kind = iota + 1 // a piece of the answer: Piece
	Reasoning                  // a piece of the reasoning: Piece
	InputStart                 // a tool call begins: Call, Name
	InputDelta                 // a piece of its arguments' text: Call, Piece
	InputEnd                   // its arguments are whole: Call
	Done                       // the whole turn: Answer; nothing follows
)

// Event is one thing a provider said.
type Event struct {
	Kind   Kind
	Piece  string
	Call   int    // index of the tool call in the turn, from 0
	Name   string // leaf, as the model said
	Answer *Answer
}

// Answer is a whole turn. ToolCallIDs of its parts are set by the gateway, in
// the order of the calls.
type Answer struct {
	Parts        []crumbs.Part
	Files        []File        // that the model made; parts of the message once the gateway has stored them
	FinishReason string        // of schemas/common.v1.json; empty: tool-calls when there are calls, else stop
	Usage        *crumbs.Usage // as the provider counted
	Cost         *crumbs.Cost
	Model        string // that answered; empty: the one that was asked
	ResponseID   string // the provider's
}

// File is what a model made beside its text.
type File struct {
	Name     string // empty: the gateway makes one up
	MimeType string // may be empty
	Data     []byte
}
