package check

import (
	"encoding/json"
	"time"
)

// Message is a message as a stream holds it.
type Message struct {
	Sequence uint64 // of the stream
	Subject  string
	Stored   time.Time
	Header   map[string][]string
	Body     json.RawMessage
}

// Request is a run that the client asked for.
type Request struct {
	Run      string
	Accepted bool     // the client was told so; otherwise the run may exist or not
	Cancel   bool     // a cancel was published too
	Calls    int      // tool calls of the whole run
	Ask      []string // tools, as the model sees them, whose calls need an approval
}

// Effect is an execution as the sink saw it.
type Effect struct {
	Tool string          `json:"tool"`
	Call string          `json:"call"`
	Key  string          `json:"key,omitempty"` // idempotency key that came with it
	Args json.RawMessage `json:"args"`
	At   time.Time       `json:"at"`
}

// Disturbance is what was done to the workers that could make an outcome unknown.
type Disturbance struct {
	Kind   string
	Worker string // "" means all
	From   time.Time
	To     time.Time
}

// Exit is the end of a process.
type Exit struct {
	Process string
	Asked   string // kill or term; "" when nobody did
	Status  string // as the system tells it
	Clean   bool   // status 0
}

// History is all that a check looks at.
type History struct {
	Requests     []Request
	Answers      map[string]time.Time // by checkpoint: when the first answer was sent
	Crumbs       []Message            // CRUMBS in stream order
	Claims       []Message            // bucket claims, the last of each key
	Records      []Message            // bucket runs, the last of each key
	Left         map[string]uint64    // messages that wait, by work queue
	Effects      []Effect             // in the order in which they happened
	Disturbances []Disturbance
	Exits        []Exit
}
