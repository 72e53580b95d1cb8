package crumbs

import (
	"encoding/json"
	"strings"

	"github.com/crumbmesh/crumbmesh/pkg/fault"
)

// Headers of a dead letter, beside the ce-* headers of the message as it came.
const (
	DeadStream     = "crumb-dead-stream"     // it came from
	DeadOfSubject  = "crumb-dead-subject"    // it stood on
	DeadSequence   = "crumb-dead-sequence"   // its sequence there
	DeadStored     = "crumb-dead-stored"     // when it was stored there, RFC 3339
	DeadDeliveries = "crumb-dead-deliveries" // how often it was delivered
	DeadMessageID  = "crumb-dead-msg-id"     // its Nats-Msg-Id
	DeadCode       = "crumb-dead-code"       // why it was given up: a code of the catalogue
	DeadReason     = "crumb-dead-reason"     // the same in words
	DeadAt         = "crumb-dead-at"         // when, RFC 3339
	DeadBy         = "crumb-dead-by"         // the service that gave it up
	DeadOf         = "crumb-dead-of"         // of a note: the id of its letter
	DeadAct        = "crumb-dead-act"        // of a note: edit, redrive, answer or close
	DeadActor      = "crumb-dead-actor"      // of a note: who, `<iss>:<sub>`
	DeadNoteReason = "crumb-dead-act-reason" // of a note: why
)

// DeadArea is where a body stands that is too large for its letter: among what the
// service that gives up messages of that stream may write.
func DeadArea(subject string) Area {
	stream, queue, _ := strings.Cut(Token(subject, 1), "-")
	switch stream {
	case StreamToolCalls:
		return AreaTool(queue)
	case StreamModelCalls:
		return AreaModel(queue)
	case StreamCrumbs:
		return AreaApproval
	}
	return AreaCore
}

// DeadHeader reports whether a header belongs to the letter, not to its message.
func DeadHeader(name string) bool { return strings.HasPrefix(strings.ToLower(name), "crumb-dead-") }

// What somebody may do about a dead letter, and what a letter's status is after it.
const (
	ActEdit    = "edit"
	ActRedrive = "redrive"
	ActAnswer  = "answer"
	ActClose   = "close"

	DeadOpen     = "open"
	DeadEdited   = "edited"
	DeadRedriven = "redriven"
	DeadAnswered = "answered"
	DeadClosed   = "closed"
)

// Endpoints of dead letters.
const (
	EndpointDeadList    = "crumbmesh.dead.list"
	EndpointDeadGet     = "crumbmesh.dead.get"
	EndpointDeadEdit    = "crumbmesh.dead.edit"
	EndpointDeadRedrive = "crumbmesh.dead.redrive"
	EndpointDeadAnswer  = "crumbmesh.dead.answer"
	EndpointDeadClose   = "crumbmesh.dead.close"
)

// DeadLetter is a message that was given up, as the endpoints show it.
type DeadLetter struct {
	ID         uint64     `json:"id"`           // its sequence in DEADLETTER
	Of         uint64     `json:"of,omitempty"` // of an edited one: the letter it replaces
	Stream     string     `json:"stream"`       // the message came from
	Subject    string     `json:"subject"`
	Sequence   uint64     `json:"sequence"`
	RunID      RunID      `json:"runId,omitempty"`
	CallID     CallID     `json:"callId,omitempty"`
	Attempt    int        `json:"attempt,omitempty"`
	Code       fault.Code `json:"code"`
	Reason     string     `json:"reason"`
	Deliveries int        `json:"deliveries,omitempty"`
	StoredAt   *Time      `json:"storedAt,omitempty"` // in its stream
	At         Time       `json:"at"`                 // it was given up
	By         string     `json:"by,omitempty"`       // the service that did
	Bytes      int64      `json:"bytes"`
	Status     string     `json:"status"` // open, edited, redriven, answered or closed
	Acts       []DeadNote `json:"acts,omitempty"`

	// Of one letter only, not of a list.
	Headers map[string]string `json:"headers,omitempty"` // of the message as it came
	Body    json.RawMessage   `json:"body,omitempty"`    // when it is JSON
	Raw     []byte            `json:"raw,omitempty"`     // base64, when it is not
}

// DeadNote is something that was done about a letter.
type DeadNote struct {
	ID     uint64 `json:"id"`
	Act    string `json:"act"`
	By     string `json:"by,omitempty"` // <iss>:<sub>
	Reason string `json:"reason,omitempty"`
	At     Time   `json:"at"`
}

// DeadList asks for letters, the newest first.
type DeadList struct {
	Stream string `json:"stream,omitempty"`
	RunID  RunID  `json:"runId,omitempty"`
	Before uint64 `json:"before,omitempty"` // only those with smaller ids
	Limit  int    `json:"limit,omitempty"`  // 50 when 0, at most 200
}

// DeadPage answers dead.list. Next, when there may be more, is the Before of the
// next page.
type DeadPage struct {
	Letters []DeadLetter `json:"letters"`
	Next    uint64       `json:"next,omitempty"`
}

// DeadGet asks for one letter, whole.
type DeadGet struct {
	ID uint64 `json:"id"`
}

// DeadEdit replaces the body of a request or a control. The letter stays as it is;
// the edited one has an id of its own.
type DeadEdit struct {
	ID     uint64          `json:"id"`
	Body   json.RawMessage `json:"body"`
	By     *Principal      `json:"by"`
	Reason string          `json:"reason,omitempty"`
}

// DeadRedrive asks that a message is worked on again: by the letter's id, or by the
// call for one that is in flight.
type DeadRedrive struct {
	ID     uint64     `json:"id,omitempty"`
	CallID CallID     `json:"callId,omitempty"`
	By     *Principal `json:"by"`
	Reason string     `json:"reason,omitempty"`
	Force  bool       `json:"force,omitempty"` // also an attempt that had started or is of a redrive, or a letter that was redriven
}

// DeadAnswer supplies the outcome of a call that is in flight: of the call that the
// letter is about, or by the call's id.
type DeadAnswer struct {
	ID     uint64          `json:"id,omitempty"`
	CallID CallID          `json:"callId,omitempty"`
	Result json.RawMessage `json:"result,omitempty"` // or Error
	Error  *fault.Error    `json:"error,omitempty"`
	By     *Principal      `json:"by"`
	Reason string          `json:"reason,omitempty"`
	Force  bool            `json:"force,omitempty"` // also of an attempt whose holder lives
}

// DeadClose says that nothing more is to be done about a letter. It changes nothing
// else: not its run, and a closed letter may still be redriven.
type DeadClose struct {
	ID     uint64     `json:"id"`
	By     *Principal `json:"by"`
	Reason string     `json:"reason"`
}

// DeadReceipt answers dead.edit, dead.redrive, dead.answer and dead.close.
type DeadReceipt struct {
	ID      uint64 `json:"id,omitempty"` // of the letter; of an edit: of the edited one
	Of      uint64 `json:"of,omitempty"` // of an edit: the letter it replaces
	RunID   RunID  `json:"runId,omitempty"`
	CallID  CallID `json:"callId,omitempty"`
	Attempt int    `json:"attempt,omitempty"` // redriven: the one that is sent now, or was before
	Act     string `json:"act"`
	Applied bool   `json:"applied"`           // false: recorded, and the run takes it up next
	Already bool   `json:"already,omitempty"` // it was done before: nothing was done now
	By      string `json:"by,omitempty"`      // who did it, <iss>:<sub>
	At      *Time  `json:"at,omitempty"`      // when
}

// DeadSubject is the subject of the letter, below which the notes on it stand.
func (l DeadLetter) DeadSubject() string {
	return DeadSubject(DeadLabel(l.Stream, l.Subject), l.RunID, l.Sequence)
}

// tokens of `dead.<stream>.<run>.<sequence>`; a note has one more.
const deadTokens = 4

// IsDeadLetter reports whether a subject is that of a letter, not of a note on one.
func IsDeadLetter(subject string) bool {
	return strings.HasPrefix(subject, "dead.") && strings.Count(subject, ".") == deadTokens-1
}

// DeadRun is the run in the subject of a letter or note, "" when it names none.
func DeadRun(subject string) RunID {
	if run := RunID(Token(subject, 2)); run != NoRun {
		return run
	}
	return ""
}
