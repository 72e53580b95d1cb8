package crumbs

import (
	"encoding/json"

	"github.com/crumbmesh/crumbmesh/pkg/fault"
)

// Types of commands and outcomes: a dot, where crumbs have a colon.
const (
	TypeRunRequest  = "run.request"
	TypeRunStart    = "run.start"
	TypeRunControl  = "run.control"
	TypeRunChild    = "run.child"
	TypeRunOrder    = "run.order"
	TypeTimerDue    = "timer.due"
	TypeCtlCancel   = "ctl.cancel"
	TypeModelCall   = "model.call"
	TypeModelResult = "model.result"
	TypeToolCall    = "tool.call"
	TypeToolResult  = "tool.result"
	TypeDecision    = "approval.decision"
)

// Principal is on whose behalf something happens.
type Principal struct {
	Issuer  string `json:"iss"`
	Subject string `json:"sub"`
	Tenant  string `json:"tenant,omitempty"`
}

// Usage counts tokens.
type Usage struct {
	InputTokens      int64 `json:"inputTokens,omitempty"`
	OutputTokens     int64 `json:"outputTokens,omitempty"`
	TotalTokens      int64 `json:"totalTokens,omitempty"`
	CacheReadTokens  int64 `json:"cacheReadTokens,omitempty"`
	CacheWriteTokens int64 `json:"cacheWriteTokens,omitempty"`
	ReasoningTokens  int64 `json:"reasoningTokens,omitempty"`
	Estimated        bool  `json:"estimated,omitempty"`
}

// Add returns the sum; it is estimated when one of the two is.
func (u Usage) Add(o Usage) Usage {
	return Usage{
		InputTokens: u.InputTokens + o.InputTokens, OutputTokens: u.OutputTokens + o.OutputTokens,
		TotalTokens: u.TotalTokens + o.TotalTokens, CacheReadTokens: u.CacheReadTokens + o.CacheReadTokens,
		CacheWriteTokens: u.CacheWriteTokens + o.CacheWriteTokens, ReasoningTokens: u.ReasoningTokens + o.ReasoningTokens,
		Estimated: u.Estimated || o.Estimated,
	}
}

// Cost is an amount of money in millionths of the currency.
type Cost struct {
	Value    int64  `json:"value"`
	Currency string `json:"currency"` // ISO 4217
}

// Model names a model of a provider instance.
type Model struct {
	Provider string `json:"provider"`
	Model    string `json:"model"`
}

// File points at a stored file.
type File struct {
	Kind     string `json:"kind"` // always "file"
	URI      string `json:"uri"`  // `files:<owner>/<run>/<sha256>`; see FileURI
	MimeType string `json:"mimeType,omitempty"`
	Name     string `json:"name,omitempty"`
}

// Role is who speaks in a Message.
type Role string

// The roles of a transcript.
const (
	RoleSystem    Role = "system"
	RoleUser      Role = "user"
	RoleAssistant Role = "assistant"
	RoleTool      Role = "tool"
)

// Message is one entry of a transcript.
type Message struct {
	Role  Role   `json:"role"`
	Parts []Part `json:"parts"`
}

// Kinds of parts.
const (
	PartText       = "text"
	PartReasoning  = "reasoning"
	PartToolCall   = "tool-call"
	PartToolResult = "tool-result"
	PartFile       = "file"
)

// Part is a piece of a Message; Type says which fields it has.
type Part struct {
	Type           string          `json:"type"`
	Text           string          `json:"text,omitempty"`
	Provider       string          `json:"provider,omitempty"`
	Raw            json.RawMessage `json:"raw,omitempty"` // a provider's signature and the like, byte for byte
	ToolCallID     CallID          `json:"toolCallId,omitempty"`
	ToolName       string          `json:"toolName,omitempty"` // leaf
	Args           json.RawMessage `json:"args,omitempty"`
	ProviderCallID string          `json:"providerCallId,omitempty"`
	Outcome        Outcome         `json:"outcome,omitempty"`
	Output         json.RawMessage `json:"output,omitempty"`
	File           *File           `json:"file,omitempty"`
}

// Outcome is how a call ended; every call ends with exactly one.
type Outcome string

// The seven outcomes.
const (
	OutcomeOK        Outcome = "ok"
	OutcomeError     Outcome = "error"
	OutcomeDenied    Outcome = "denied"
	OutcomeBlocked   Outcome = "blocked"
	OutcomeUnknown   Outcome = "unknown"
	OutcomeCancelled Outcome = "cancelled"
	OutcomeExpired   Outcome = "expired"
)

// Effect says what a second execution after a crash would mean (docs/protocol.md).
type Effect string

// The effects; EffectOnce is the default.
const (
	EffectPure       Effect = "pure"
	EffectIdempotent Effect = "idempotent"
	EffectOnce       Effect = "once"
)

// ToolSpec is a tool as a model sees it.
type ToolSpec struct {
	Name        string          `json:"name"`
	Description string          `json:"description"`
	InputSchema json.RawMessage `json:"inputSchema"`
}

// DataRef points at the object that holds a whole body (claim check). The body
// that carries it has its base fields only.
type DataRef struct {
	Object string `json:"object"` // `<run>/<sha256>` in bucket blobs
	Bytes  int64  `json:"bytes"`
}

// SessionRef chooses the session of a run.
type SessionRef struct {
	ID     SessionID         `json:"id,omitempty"`
	Tags   map[string]string `json:"tags,omitempty"`
	OnBusy string            `json:"onBusy,omitempty"` // enqueue, reject or interrupt
}

// Limits bound a run.
type Limits struct {
	MaxSteps   int   `json:"maxSteps,omitempty"`
	DeadlineMs int64 `json:"deadlineMs,omitempty"`
}

// RunRequest starts a run.
type RunRequest struct {
	Type                string            `json:"type"`
	RunID               RunID             `json:"runId,omitempty"`
	AgentID             AgentID           `json:"agentId,omitempty"` // the subject decides; must agree
	Input               json.RawMessage   `json:"input,omitempty"`   // {} when absent
	Session             *SessionRef       `json:"session,omitempty"`
	Skill               string            `json:"skill,omitempty"`
	Principal           *Principal        `json:"principal,omitempty"`
	PrincipalToken      string            `json:"principalToken,omitempty"`
	Goal                string            `json:"goal,omitempty"`
	Attachments         []File            `json:"attachments,omitempty"`
	Tools               []json.RawMessage `json:"tools,omitempty"`
	ToolProviderContext json.RawMessage   `json:"toolProviderContext,omitempty"`
	AgentRevision       string            `json:"agentRevision,omitempty"`
	Limits              *Limits           `json:"limits,omitempty"`
	Deltas              *bool             `json:"deltas,omitempty"` // true when absent
	Metadata            map[string]string `json:"metadata,omitempty"`
	DataRef             *DataRef          `json:"dataref,omitempty"`
}

// Actions of a RunControl.
const (
	ActionCancel  = "cancel"
	ActionPause   = "pause"
	ActionUnpause = "unpause"
	ActionMessage = "message"
)

// RunControl acts on a run that exists or is about to.
type RunControl struct {
	Type      string     `json:"type"`
	RunID     RunID      `json:"runId"`
	ControlID string     `json:"controlId"`
	Action    string     `json:"action"`
	Reason    string     `json:"reason,omitempty"`
	Message   string     `json:"message,omitempty"`
	Principal *Principal `json:"principal,omitempty"`
}

// Actions of a RunOrder.
const (
	OrderRedrive = "redrive" // give the attempt up and send the next one
	OrderAnswer  = "answer"  // the attempt ends with this outcome
	OrderLost    = "lost"    // no worker will ever take the attempt
)

// RunOrder says of an attempt in flight what its worker does not: an operator
// redrives or answers it, or the mesh found that nobody will take it (ADR 0013).
// Only the orchestrator publishes it; who may ask for one may call the endpoint.
type RunOrder struct {
	Type    string          `json:"type"`
	RunID   RunID           `json:"runId"`
	OrderID string          `json:"orderId"`
	CallID  CallID          `json:"callId"`
	Attempt int             `json:"attempt"`
	Action  string          `json:"action"`
	Result  json.RawMessage `json:"result,omitempty"` // answer: null is a value
	Error   *fault.Error    `json:"error,omitempty"`  // answer without a result, lost: why
	By      *Principal      `json:"by,omitempty"`
	Reason  string          `json:"reason,omitempty"`
	DataRef *DataRef        `json:"dataref,omitempty"`
}

// TimerDue is the body of timer.set and of timer.due: the server copies it.
type TimerDue struct {
	Type  string `json:"type"`
	RunID RunID  `json:"runId"`
	V     uint64 `json:"v"`
	At    Time   `json:"at"`
}

// CtlCancel asks workers to stop calls of a run; none named means all.
type CtlCancel struct {
	Type    string   `json:"type"`
	RunID   RunID    `json:"runId"`
	CallIDs []CallID `json:"callIds,omitempty"`
}

// ModelSettings are passed to the provider as they are.
type ModelSettings struct {
	Temperature      *float64 `json:"temperature,omitempty"`
	MaxOutputTokens  *int64   `json:"maxOutputTokens,omitempty"`
	TopP             *float64 `json:"topP,omitempty"`
	TopK             *int64   `json:"topK,omitempty"`
	PresencePenalty  *float64 `json:"presencePenalty,omitempty"`
	FrequencyPenalty *float64 `json:"frequencyPenalty,omitempty"`
	StopSequences    []string `json:"stopSequences,omitempty"`
	Seed             *int64   `json:"seed,omitempty"`
}

// ModelOutput is the shape asked of the model.
type ModelOutput struct {
	Format string          `json:"format"` // text or json
	Schema json.RawMessage `json:"schema,omitempty"`
}

// Prefix identifies the beginning of a prompt: system, tools and the first
// messages, as a provider gets them. While it stays the same byte for byte, a
// provider's prompt cache holds.
type Prefix struct {
	Messages int    `json:"messages"`
	Hash     string `json:"hash"` // hex SHA-256
}

// ModelCall asks a gateway for one model turn.
type ModelCall struct {
	Type            string          `json:"type"`
	RunID           RunID           `json:"runId"`
	AgentID         AgentID         `json:"agentId"`
	SessionID       SessionID       `json:"sessionId"`
	AgentRevision   string          `json:"agentRevision"`
	CallID          CallID          `json:"callId"`
	Step            int             `json:"step"`
	Attempt         int             `json:"attempt"`
	N               int             `json:"n"` // model attempts of the run so far, this one included
	Model           Model           `json:"model"`
	Settings        *ModelSettings  `json:"settings,omitempty"`
	ProviderOptions json.RawMessage `json:"providerOptions,omitempty"`
	System          string          `json:"system,omitempty"`
	Messages        []Message       `json:"messages,omitempty"`
	Segments        []string        `json:"segments,omitempty"` // objects of blobs with older messages, oldest first
	Tools           []ToolSpec      `json:"tools,omitempty"`
	ToolSet         string          `json:"toolSet"`
	ToolChoice      json.RawMessage `json:"toolChoice,omitempty"`
	Prefix          *Prefix         `json:"prefix,omitempty"` // what the model call before it began with
	Output          *ModelOutput    `json:"output,omitempty"`
	Deltas          bool            `json:"deltas"`
	AfterSeq        uint64          `json:"afterSeq"`
	StartBefore     Time            `json:"startBefore"`
	DeadlineAt      Time            `json:"deadlineAt"`
	DataRef         *DataRef        `json:"dataref,omitempty"`
}

// Result statuses.
const (
	StatusOK        = "ok"
	StatusError     = "error"
	StatusUnknown   = "unknown"
	StatusCancelled = "cancelled"
)

// ModelResult is the outcome of one model attempt.
type ModelResult struct {
	Type         string       `json:"type"`
	RunID        RunID        `json:"runId"`
	CallID       CallID       `json:"callId"`
	Step         int          `json:"step"`
	Attempt      int          `json:"attempt"`
	Status       string       `json:"status"`
	Message      *Message     `json:"message,omitempty"` // assistant; required when ok
	FinishReason string       `json:"finishReason,omitempty"`
	Usage        *Usage       `json:"usage,omitempty"`
	Cost         *Cost        `json:"cost,omitempty"`
	Model        Model        `json:"model"` // that answered
	ResponseID   string       `json:"responseId,omitempty"`
	Deltas       int          `json:"deltas"`
	DurationMs   int64        `json:"durationMs"`
	FirstTokenMs int64        `json:"firstTokenMs,omitempty"`
	Error        *fault.Error `json:"error,omitempty"`
	Retryable    bool         `json:"retryable,omitempty"`
	Prompt       *Prefix      `json:"prompt,omitempty"`     // the whole prompt: the prefix of the next call
	PrefixKept   *bool        `json:"prefixKept,omitempty"` // whether the prompt began with the prefix of the call; absent when it named none
	DataRef      *DataRef     `json:"dataref,omitempty"`
}

// Verdicts of a tool call's permission.
const (
	VerdictAllow    = "allow"
	VerdictApproved = "approved"
)

// Permission is why a call may run.
type Permission struct {
	Verdict  string    `json:"verdict"`
	Rule     string    `json:"rule,omitempty"`
	Decision *Decision `json:"decision,omitempty"`
}

// CallContext is what a tool may know of its run.
type CallContext struct {
	Principal           *Principal        `json:"principal,omitempty"`
	Goal                string            `json:"goal,omitempty"`
	PhaseName           string            `json:"phaseName,omitempty"`
	ProjectRoot         string            `json:"projectRoot,omitempty"`
	Workflow            *Workflow         `json:"workflow,omitempty"`
	Attachments         []File            `json:"attachments,omitempty"`
	History             []json.RawMessage `json:"history,omitempty"`
	ToolProviderContext json.RawMessage   `json:"toolProviderContext,omitempty"`
}

// Workflow places a run in a larger flow.
type Workflow struct {
	WorkflowRunID string `json:"workflowRunId"`
	StepID        string `json:"stepId"`
}

// Kinds of calls that workers take.
const (
	KindTool  = "tool"  // the model asked for it
	KindHook  = "hook"  // args are a HookInput, the result is a HookAnswer or null
	KindParse = "parse" // args are a ParseInput, the result is the run's output
)

// ToolCall asks a worker group to run one attempt of a call.
type ToolCall struct {
	Type          string          `json:"type"`
	Kind          string          `json:"kind"`
	RunID         RunID           `json:"runId"`
	AgentID       AgentID         `json:"agentId"`
	SessionID     SessionID       `json:"sessionId"`
	Step          int             `json:"step"`
	CallID        CallID          `json:"callId"`
	Attempt       int             `json:"attempt"`
	Tool          string          `json:"tool"`     // permission id, tool:read_document
	ToolName      string          `json:"toolName"` // leaf, tool_read_document
	Handler       string          `json:"handler"`  // name the worker registered it under (ADR 0003)
	ToolHash      string          `json:"toolHash"`
	Group         string          `json:"group"`
	Effect        Effect          `json:"effect"`
	Args          json.RawMessage `json:"args"`
	ArgsHash      string          `json:"argsHash"`
	AfterSeq      uint64          `json:"afterSeq"`
	StartBefore   Time            `json:"startBefore"`
	DeadlineAt    Time            `json:"deadlineAt"`
	TimeoutMs     int64           `json:"timeoutMs"`
	IdleTimeoutMs int64           `json:"idleTimeoutMs,omitempty"`
	Permission    Permission      `json:"permission"`
	Context       *CallContext    `json:"context,omitempty"`
	Bind          json.RawMessage `json:"bind,omitempty"`
	Hook          *HookRef        `json:"hook,omitempty"`
	KeepPartials  bool            `json:"keepPartials,omitempty"` // the result brings the partials back
	DataRef       *DataRef        `json:"dataref,omitempty"`
}

// Truncated says how much of a result was kept.
type Truncated struct {
	Bytes     int64 `json:"bytes"`
	KeptBytes int64 `json:"keptBytes"`
}

// ToolResult is the outcome of one attempt of a call.
type ToolResult struct {
	Type       string          `json:"type"`
	RunID      RunID           `json:"runId"`
	CallID     CallID          `json:"callId"`
	Attempt    int             `json:"attempt"`
	Group      string          `json:"group"`
	Worker     string          `json:"worker"`
	Delivery   int             `json:"delivery"`
	Status     string          `json:"status"`
	Result     json.RawMessage `json:"result,omitempty"` // required when ok; null is a value
	Error      *fault.Error    `json:"error,omitempty"`
	Deltas     int             `json:"deltas"`
	StartedAt  *Time           `json:"startedAt,omitempty"`
	DurationMs int64           `json:"durationMs"`
	Files      []File          `json:"files,omitempty"`
	Truncated  *Truncated      `json:"truncated,omitempty"`

	// Partials are what the call yielded, from the first on, when it asked to keep
	// them: at most PartialsMax of PartialsBytesMax together. PartialsOmitted counts
	// those after them.
	Partials        []json.RawMessage `json:"partials,omitempty"`
	PartialsOmitted int               `json:"partialsOmitted,omitempty"`

	DataRef *DataRef `json:"dataref,omitempty"`
}

// Bounds of the partials that a result brings back.
const (
	PartialsMax      = 64
	PartialsBytesMax = 128 << 10
)

// Outcomes of a Decision.
const (
	DecideApprove = "approve"
	DecideReject  = "reject"
	DecideAnswer  = "answer"
)

// Decision is a person's signed answer to a checkpoint. ArgsHash is
// that of the question, also when Args are edited.
type Decision struct {
	Type         string          `json:"type"`
	RunID        RunID           `json:"runId"`
	CheckpointID CheckpointID    `json:"checkpointId"`
	ToolCallID   CallID          `json:"toolCallId,omitempty"`
	ArgsHash     string          `json:"argsHash"`
	Outcome      string          `json:"outcome"`
	Args         json.RawMessage `json:"args,omitempty"`     // edited; approve only
	Response     json.RawMessage `json:"response,omitempty"` // answer only; false, 0 and "" are values
	Reason       string          `json:"reason,omitempty"`
	By           Principal       `json:"by"`
	Via          string          `json:"via"` // cli, api, page, link, grant or rule
	At           Time            `json:"at"`
	KeyID        string          `json:"kid"`
	Signature    string          `json:"sig"` // base64url Ed25519 over JCS of the body without sig
}
