package decision

import (
	"encoding/json"

	"github.com/crumbmesh/crumbmesh/pkg/crumbs"
)

// Ways by which an answer comes in: the `via` of a decision.
const (
	ViaCLI   = "cli"
	ViaAPI   = "api"
	ViaPage  = "page"
	ViaLink  = "link"
	ViaGrant = "grant"
	ViaRule  = "rule"
)

// Status is how far a question has come. It only moves down this list, and of
// the last three it takes one.
type Status string

// The statuses of a question.
const (
	StatusOpen      Status = "open"      // nobody answered
	StatusDecided   Status = "decided"   // answered and recorded, not yet applied by the run
	StatusApplied   Status = "applied"   // the run went on with the answer
	StatusExpired   Status = "expired"   // the run went on without one
	StatusWithdrawn Status = "withdrawn" // the run does not need one any more
)

// Settled reports whether the run has said what became of the question.
func (s Status) Settled() bool {
	return s == StatusApplied || s == StatusExpired || s == StatusWithdrawn
}

// Approval is a question with what became of it: a row of the bucket approvals.
type Approval struct {
	CheckpointID crumbs.CheckpointID `json:"checkpointId"`
	RunID        crumbs.RunID        `json:"runId"`
	AgentID      crumbs.AgentID      `json:"agentId"`
	SessionID    crumbs.SessionID    `json:"sessionId,omitempty"`
	Status       Status              `json:"status"`
	CreatedAt    crumbs.Time         `json:"createdAt"` // of human:required; of human:resumed while only that was seen

	// Checkpoint is the body of human:required. One over 256 KiB stands here
	// without args, schemas and prompt but with `dataref`, and whole in the answer
	// of get when a reply can hold it. Nil while only human:resumed was seen.
	Checkpoint *crumbs.HumanRequired `json:"checkpoint,omitempty"`

	Decision *crumbs.Decision  `json:"decision,omitempty"` // the answer recorded here
	Outcome  string            `json:"outcome,omitempty"`  // of human:resumed: approved, edited, rejected, answered, expired or withdrawn
	By       *crumbs.Principal `json:"by,omitempty"`       // who decided, as the run says once it did
	At       *crumbs.Time      `json:"at,omitempty"`       // of the last change of status after open
	Reason   string            `json:"reason,omitempty"`

	TraceParent string `json:"traceparent,omitempty"` // of the run's root span; the answer is traced under it
}

// Query is the request of crumbs.EndpointApprovalsList. Empty fields choose everything.
type Query struct {
	Status Status       `json:"status,omitempty"`
	RunID  crumbs.RunID `json:"runId,omitempty"`
	Limit  int          `json:"limit,omitempty"` // rows at most, up to ListMax; 0 = ListDefault
}

// Bounds of one list.
const (
	ListDefault = 100
	ListMax     = 1000
)

// Page is the reply of crumbs.EndpointApprovalsList: the oldest questions first.
type Page struct {
	Approvals []Approval `json:"approvals"`
	Truncated bool       `json:"truncated"` // there are more than limit, or than one reply holds
}

// Selection is the request of crumbs.EndpointApprovalsGet, whose reply is an
// Approval.
type Selection struct {
	CheckpointID crumbs.CheckpointID `json:"checkpointId"`
}

// Answer is the request of crumbs.EndpointApprovalsDecide: what a person says to
// a question. The first answer wins; the same one again from the same person
// gets the same Receipt.
type Answer struct {
	CheckpointID crumbs.CheckpointID `json:"checkpointId"`
	ArgsHash     string              `json:"argsHash,omitempty"` // of the question as it was shown; another is refused
	Outcome      string              `json:"outcome"`            // approve, reject or answer
	Args         json.RawMessage     `json:"args,omitempty"`     // edited arguments, approve only
	Response     json.RawMessage     `json:"response,omitempty"` // answer only; false, 0, "" and null are values
	Reason       string              `json:"reason,omitempty"`
	By           *crumbs.Principal   `json:"by"`
	Via          string              `json:"via"`
}

// Receipt is the reply of crumbs.EndpointApprovalsDecide: the answer is recorded
// and cannot be lost. Applied is true once the run went on with it; until then
// Status is decided.
type Receipt struct {
	Applied  bool            `json:"applied"`
	Status   Status          `json:"status"`
	Decision crumbs.Decision `json:"decision"`
}
