package core

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"

	"github.com/crumbmesh/crumbmesh/pkg/crumbs"
	"github.com/crumbmesh/crumbmesh/pkg/fault"
)

// Bounds of a run's record.
const (
	CallsMax           = 64        // calls of one turn that may be sent
	AskedMax           = 256       // calls of one turn that are answered at all
	ValueMax           = 8 << 10   // larger values are references
	InlineMax          = 128 << 10 // of values that are none; beyond it those over RefMin are
	RefMin             = 192       // a reference is hardly smaller
	TranscriptMax      = 16 << 10  // inline transcript of a running run
	SuspendedMax       = 2 << 10   // inline transcript of a suspended run
	SuspendedValueMax  = 1 << 10   // larger values of a suspended run are references
	SuspendedTextMax   = 512       // inline text of a suspended run
	RecordMax          = 512 << 10
	ReasonMax          = 4 << 10  // of the reason of a cancel
	ErrorMax           = 16 << 10 // of an error's message told from outside
	RulingsMax         = 8        // orders that are remembered, beside the redrives of what is in flight
	NoticesMax         = 8        // suspensions that hooks are still to be told of
	rejectedByDefault  = "rejected by human"
	finishStop         = "stop"
	finishSteps        = "steps"
	finishToolCalls    = "tool-calls"
	formatTextMarkdown = "text"
)

// Status of a run.
type Status string

// The statuses; a run that is stopping waits for calls that had started.
const (
	Running   Status = "running"
	Suspended Status = "suspended"
	Stopping  Status = "stopping"
	Completed Status = "completed"
	Failed    Status = "failed"
	Cancelled Status = "cancelled"
)

// Ended reports whether nothing can happen to the run any more.
func (s Status) Ended() bool { return s == Completed || s == Failed || s == Cancelled }

// State is a run's record. The zero State is a run that does not exist.
type State struct {
	Version    int            `json:"version"`
	Decision   uint64         `json:"decision"` // 1, 2, 3 …
	Run        Run            `json:"run"`
	Status     Status         `json:"status"`
	Step       int            `json:"step,omitempty"` // model calls so far, this one included
	Seq        uint64         `json:"seq"`            // number of the last crumb decided
	Fence      Fence          `json:"fence"`
	Model      *ModelCall     `json:"model,omitempty"` // the model attempt in flight
	Retry      *Retry         `json:"retry,omitempty"` // the model attempt that waits for its time
	ModelCount int            `json:"modelCount,omitempty"`
	Calls      []Call         `json:"calls,omitempty"` // of the current turn, in the model's order
	Transcript Transcript     `json:"transcript"`
	Text       []Value        `json:"text,omitempty"` // of the steps so far, in pieces
	Input      Value          `json:"input,omitzero"` // of the run, as hooks are told; since version 3
	Opening    *Opening       `json:"opening,omitempty"`
	Chain      *Chain         `json:"chain,omitempty"`   // hooks of the run itself in flight
	Notices    []Chain        `json:"notices,omitempty"` // onSuspend hooks: the first in flight, the others after it
	Closing    *Closing       `json:"closing,omitempty"`
	Parse      *Errand        `json:"parse,omitempty"` // of the output, in flight
	Ending     *Ending        `json:"ending,omitempty"`
	Errands    int            `json:"errands,omitempty"`  // calls of hooks and parsers for the run so far
	Repeated   bool           `json:"repeated,omitempty"` // a hook had the model attempt of this step repeated
	By         []string       `json:"by,omitempty"`       // hooks that gave or changed the output
	Repairs    int            `json:"repairs,omitempty"`  // answers the model was asked to mend
	Prefix     *crumbs.Prefix `json:"prefix,omitempty"`   // the prompt of the last model call
	Usage      *crumbs.Usage  `json:"usage,omitempty"`
	Cost       *crumbs.Cost   `json:"cost,omitempty"`
	Files      []crumbs.File  `json:"files,omitempty"`
	Timer      Timer          `json:"timer"`
	Stop       *Stop          `json:"stop,omitempty"`
	Result     *Result        `json:"result,omitempty"`
	Rulings    []Ruling       `json:"rulings,omitempty"` // the last RulingsMax, and the redrives of attempts in flight; since version 2
	Outbox     Outbox         `json:"outbox"`

	// Blobs are what this decision refers to by content; they are written before
	// the record and are not part of it.
	Blobs []Blob `json:"-"`
}

// Exists reports whether the run was ever decided about.
func (s State) Exists() bool { return s.Decision > 0 }

// Run is what a request fixed for good.
type Run struct {
	ID          crumbs.RunID      `json:"id"`
	Agent       crumbs.AgentID    `json:"agent,omitempty"`
	Revision    string            `json:"revision,omitempty"`
	ToolSet     string            `json:"toolSet,omitempty"`
	Session     crumbs.SessionID  `json:"session,omitempty"`
	Principal   *crumbs.Principal `json:"principal,omitempty"`
	Goal        string            `json:"goal,omitempty"`
	Attachments []crumbs.File     `json:"attachments,omitempty"`
	Metadata    map[string]string `json:"metadata,omitempty"`
	RequestHash string            `json:"requestHash,omitempty"` // of the request's body, to tell a repeat from a conflict
	MaxSteps    int               `json:"maxSteps,omitempty"`
	DeadlineAt  crumbs.Time       `json:"deadlineAt,omitzero"`
	Deltas      bool              `json:"deltas,omitempty"`
	StartedAt   crumbs.Time       `json:"startedAt,omitzero"`
	EndedAt     crumbs.Time       `json:"endedAt,omitzero"`
	Trace       Trace             `json:"trace,omitzero"`
	Tombstone   bool              `json:"tombstone,omitempty"` // cancelled before it was requested
	Parent      *crumbs.ParentRef `json:"parent,omitempty"`
	Tags        map[string]string `json:"tags,omitempty"`
	Skill       string            `json:"skill,omitempty"`
	Unserved    *fault.Error      `json:"unserved,omitempty"` // why no model attempt can be sent: the agent's provider is unknown
}

// Trace is the run's root span: its ids are fixed at the request and it is
// emitted once, at the end, by whichever replica ends the run.
type Trace struct {
	Parent  string `json:"parent,omitempty"` // traceparent of the request
	TraceID string `json:"traceId,omitempty"`
	SpanID  string `json:"spanId,omitempty"`
	Sampled bool   `json:"sampled,omitempty"`
}

// TraceParent is the root span as a traceparent, "" when the run is not traced.
func (t Trace) TraceParent() string {
	if t.TraceID == "" {
		return ""
	}
	flags := "00"
	if t.Sampled {
		flags = "01"
	}
	return "00-" + t.TraceID + "-" + t.SpanID + "-" + flags
}

// Fence is the last crumb known to be stored: its number and stream sequence.
type Fence struct {
	Seq    uint64 `json:"seq"`
	Stream uint64 `json:"stream"`
}

// ModelCall is a model attempt in flight.
type ModelCall struct {
	ID          crumbs.CallID `json:"id"`
	Attempt     int           `json:"attempt"`
	StartBefore crumbs.Time   `json:"startBefore"`
	Deadline    crumbs.Time   `json:"deadline"`
	SentAt      crumbs.Time   `json:"sentAt"`
}

// Retry is a model attempt that waits.
type Retry struct {
	Attempt int         `json:"attempt"`
	At      crumbs.Time `json:"at"`
}

// Phase of a call.
type Phase string

// The phases a call of this turn goes through.
const (
	Hooking    Phase = "hooking"    // waits for a hook; since version 3
	Asking     Phase = "asking"     // waits for a person
	Dispatched Phase = "dispatched" // waits for its worker
	Waiting    Phase = "waiting"    // failed, and waits for the time of its next attempt; since version 3
	Settled    Phase = "settled"    // has its outcome
)

// Call is one call the model asked for in this turn.
type Call struct {
	ID             crumbs.CallID  `json:"id"`
	Leaf           string         `json:"leaf"` // as the model said
	ProviderCallID string         `json:"providerCallId,omitempty"`
	Phase          Phase          `json:"phase"`
	Args           Value          `json:"args,omitzero"` // defaults filled in
	ArgsHash       string         `json:"argsHash,omitempty"`
	Attempt        int            `json:"attempt,omitempty"`
	SentAt         crumbs.Time    `json:"sentAt,omitzero"`
	StartBefore    crumbs.Time    `json:"startBefore,omitzero"`
	Deadline       crumbs.Time    `json:"deadline,omitzero"`
	Grace          crumbs.Time    `json:"grace,omitzero"`    // it had started and was asked to stop
	Started        bool           `json:"started,omitempty"` // an attempt before this one had started; since version 2
	Question       *Question      `json:"question,omitempty"`
	Approved       Value          `json:"approved,omitzero"` // the signed answer that lets it run
	Chain          *Chain         `json:"chain,omitempty"`   // its hooks in flight; since version 3, as all to Outcome
	Errands        int            `json:"errands,omitempty"` // calls of hooks for it so far
	Repeated       bool           `json:"repeated,omitempty"`
	RetryAt        crumbs.Time    `json:"retryAt,omitzero"`
	By             []string       `json:"by,omitempty"` // hooks that changed the arguments
	Failed         *Lapse         `json:"failed,omitempty"`
	Outcome        crumbs.Outcome `json:"outcome,omitempty"`
	Output         Value          `json:"output,omitzero"`
}

// Question is an open checkpoint; its id is the call's.
type Question struct {
	Kind      string      `json:"kind"`
	AskedAt   crumbs.Time `json:"askedAt"`
	ExpiresAt crumbs.Time `json:"expiresAt"`
	Told      bool        `json:"told,omitempty"` // to the onSuspend hooks
}

// Ruling is an order that somebody gave and the run followed: what a second one
// about the same attempt is told.
type Ruling struct {
	Action  string            `json:"action"` // crumbs.OrderRedrive or OrderAnswer
	Call    crumbs.CallID     `json:"call"`
	Attempt int               `json:"attempt"`
	By      *crumbs.Principal `json:"by,omitempty"`
	At      crumbs.Time       `json:"at"`
}

// Transcript is what the model is told: immutable segments in blobs, oldest
// first, then the inline messages.
type Transcript struct {
	Segments []string         `json:"segments,omitempty"`
	Sizes    []int            `json:"sizes,omitempty"` // of Segments; without them none is merged
	Inline   []crumbs.Message `json:"inline,omitempty"`
	Bytes    int              `json:"bytes,omitempty"` // of Inline, as JSON
}

// Timer is the one timer of the run; a due timer with another V is stale. At is
// zero when none is armed.
type Timer struct {
	V  uint64      `json:"v,omitempty"`
	At crumbs.Time `json:"at,omitzero"`
}

// Stop is why a run is stopping.
type Stop struct {
	Status Status       `json:"status"`
	Error  *fault.Error `json:"error"`
}

// Result is how a run ended.
type Result struct {
	Output       Value        `json:"output,omitzero"`
	FinishReason string       `json:"finishReason,omitempty"`
	Error        *fault.Error `json:"error,omitempty"`
	Steps        int          `json:"steps,omitempty"`
}

// Outbox is what a decision sends: commands first, then crumbs in order.
type Outbox struct {
	Crumbs  []Crumb  `json:"crumbs,omitempty"`
	Intents []Intent `json:"intents,omitempty"`
}

// Crumb is a numbered crumb, whole or as a reference.
type Crumb struct {
	Seq  uint64      `json:"seq"`
	Type string      `json:"type"`
	At   crumbs.Time `json:"at"`
	Body Value       `json:"body"`
}

// IntentKind is the kind of a command.
type IntentKind string

// The commands a decision sends.
const (
	SendModel  IntentKind = "model"
	SendTool   IntentKind = "tool"
	SetTimer   IntentKind = "timer"
	SendCancel IntentKind = "cancel"
	SendErrand IntentKind = "errand"
)

// Intent is a command to be: Render makes its body from the State.
type Intent struct {
	Kind    IntentKind      `json:"kind"`
	Call    crumbs.CallID   `json:"call,omitempty"`
	Attempt int             `json:"attempt,omitempty"`
	V       uint64          `json:"v,omitempty"`
	At      crumbs.Time     `json:"at,omitzero"`
	Calls   []crumbs.CallID `json:"calls,omitempty"`
}

// Blob is a value that is stored apart: immutable, named by run and content.
type Blob struct {
	Name string
	Data []byte
}

// Value is a JSON value, inline up to ValueMax, else a reference into blobs.
type Value struct {
	Inline json.RawMessage `json:"v,omitempty"`
	Ref    string          `json:"ref,omitempty"`
	Bytes  int             `json:"bytes,omitempty"`
}

// IsZero reports whether there is no value; JSON null is a value.
func (v Value) IsZero() bool { return v.Inline == nil && v.Ref == "" }

func blobName(run crumbs.RunID, data []byte) string {
	sum := sha256.Sum256(data)
	return string(run) + "/" + hex.EncodeToString(sum[:])
}

// Final is the record of a run whose last Outbox is delivered: what an
// idempotency key and `runs get` need, for as long as the run id is remembered.
func (s State) Final() State {
	s = s.idle()
	s.Outbox, s.Transcript, s.Text, s.Input, s.Prefix, s.Blobs = Outbox{}, Transcript{}, nil, Value{}, nil, nil
	return s
}

// inline is how many bytes of values stand in the record itself.
func (s State) inline() (n int) {
	for _, c := range s.Calls {
		n += len(c.Args.Inline) + len(c.Output.Inline) + len(c.Approved.Inline) + c.Chain.inline()
	}
	for _, t := range s.Text {
		n += len(t.Inline)
	}
	for i := range s.Notices {
		n += s.Notices[i].inline()
	}
	n += len(s.Input.Inline) + s.Chain.inline()
	if s.Closing != nil {
		n += len(s.Closing.Message.Inline)
	}
	if s.Ending != nil {
		n += len(s.Ending.Output.Inline)
	}
	return n
}

// Ended is s without anything that could still happen.
func (s State) Ended() State {
	s = s.idle()
	s.Stop = nil
	s.Version = s.written()
	return s
}

// idle is s without anything in flight.
func (s State) idle() State {
	s.Model, s.Retry, s.Calls = nil, nil, nil
	s.Opening, s.Chain, s.Notices, s.Closing, s.Parse, s.Ending = nil, nil, nil, nil, nil, nil
	return s
}
