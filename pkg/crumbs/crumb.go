package crumbs

import (
	"encoding/json"

	"github.com/crumbmesh/crumbmesh/pkg/fault"
)

// Types of durable crumbs, numbered and stored on CRUMBS.
const (
	TypeRunStarted    = "agent:run:start"
	TypeRunEnded      = "agent:run:end"
	TypeAgentError    = "agent:error"
	TypeStepEnd       = "step:end"
	TypeToolCalled    = "tool:call"
	TypeToolResulted  = "tool:result"
	TypeToolErrored   = "tool:error"
	TypeToolBlocked   = "tool:blocked"
	TypeHumanRequired = "human:required"
	TypeHumanResumed  = "human:resumed"
	TypeHookErrored   = "hook:error"
	TypeFileGenerated = "file:generated"
)

// Types of deltas: live only, on DELTAS, numbered inside the crumb that closes
// them (afterSeq, attempt, index).
const (
	TypeTextDelta      = "text:delta"
	TypeReasoningDelta = "reasoning:delta"
	TypeInputStart     = "tool:input:start"
	TypeInputDelta     = "tool:input:delta"
	TypeInputEnd       = "tool:input:end"
	TypeResultPartial  = "tool:result:partial"
)

// CrumbTypes lists the durable types: of the run, its steps, its calls, its
// questions, hooks and files. A tool:result:partial is durable when its tool keeps
// partials.
func CrumbTypes() []string {
	return []string{TypeRunStarted, TypeRunEnded, TypeAgentError, TypeStepEnd, TypeToolCalled,
		TypeToolResulted, TypeToolErrored, TypeToolBlocked, TypeHumanRequired, TypeHumanResumed, TypeHookErrored, TypeFileGenerated, TypeResultPartial}
}

// DeltaTypes lists the live types.
func DeltaTypes() []string {
	return []string{TypeTextDelta, TypeReasoningDelta, TypeInputStart, TypeInputDelta, TypeInputEnd, TypeResultPartial}
}

// Terminal reports whether a crumb of type typ ends its run.
func Terminal(typ string) bool { return typ == TypeRunEnded || typ == TypeAgentError }

// Base is what every crumb has. Suspended is set on the last crumb of the
// decision that leaves only questions to people open.
type Base struct {
	Type      string    `json:"type"`
	RunID     RunID     `json:"runId"`
	AgentID   AgentID   `json:"agentId"`
	SessionID SessionID `json:"sessionId,omitempty"`
	Seq       uint64    `json:"seq"`       // 1, 2, 3 … in the run, without holes
	Timestamp int64     `json:"timestamp"` // Unix milliseconds
	Step      int       `json:"step,omitempty"`
	Suspended bool      `json:"suspended,omitempty"`
	DataRef   *DataRef  `json:"dataref,omitempty"`
}

// ParentRef names the call whose child a run is.
type ParentRef struct {
	RunID      RunID  `json:"runId"`
	ToolCallID CallID `json:"toolCallId"`
}

// RunStarted opens a run.
type RunStarted struct {
	Base
	Input         json.RawMessage `json:"input"`
	Skill         string          `json:"skill,omitempty"`
	AgentRevision string          `json:"agentRevision"`
	ToolSet       string          `json:"toolSet"`
	Tools         []string        `json:"tools"` // leaves, sorted
	Parent        *ParentRef      `json:"parent,omitempty"`
	Warnings      []string        `json:"warnings,omitempty"`
	Hooks         []string        `json:"hooks,omitempty"` // that changed the input, in their order
}

// RunEnded closes a run that completed.
type RunEnded struct {
	Base
	Output       json.RawMessage `json:"output"`
	FinishReason string          `json:"finishReason"` // stop, steps, length or content-filter
	Steps        int             `json:"steps"`
	DurationMs   int64           `json:"durationMs"`
	Usage        *Usage          `json:"usage,omitempty"`
	Cost         *Cost           `json:"cost,omitempty"`
	Files        []File          `json:"files,omitempty"`
	Hooks        []string        `json:"hooks,omitempty"` // that gave or changed the output, in their order
}

// AgentError closes a run that failed or was cancelled.
type AgentError struct {
	Base
	Error      *fault.Error `json:"error"`
	DurationMs int64        `json:"durationMs"`
	Steps      int          `json:"steps,omitempty"`
	Usage      *Usage       `json:"usage,omitempty"`
	Cost       *Cost        `json:"cost,omitempty"`
}

// StepEnd closes one model attempt.
type StepEnd struct {
	Base
	Attempt      int          `json:"attempt"`
	FinishReason string       `json:"finishReason,omitempty"`
	Text         string       `json:"text,omitempty"`
	ToolCallIDs  []CallID     `json:"toolCallIds,omitempty"`
	Usage        *Usage       `json:"usage,omitempty"`
	Cost         *Cost        `json:"cost,omitempty"`
	Deltas       int          `json:"deltas"`
	DurationMs   int64        `json:"durationMs"`
	Error        *fault.Error `json:"error,omitempty"`
	RetryAt      *Time        `json:"retryAt,omitempty"`
	PrefixKept   *bool        `json:"prefixKept,omitempty"` // the prompt began with the whole prompt of the step before it, byte for byte
}

// ToolCalled says that a call was sent to its group.
type ToolCalled struct {
	Base
	ToolCallID CallID          `json:"toolCallId"`
	ToolName   string          `json:"toolName"`
	Tool       string          `json:"tool"`
	Args       json.RawMessage `json:"args"`
	Group      string          `json:"group"`
	Effect     Effect          `json:"effect"`
	Hooks      []string        `json:"hooks,omitempty"` // that changed the arguments, in their order
}

// ToolResulted is a call that ended ok.
type ToolResulted struct {
	Base
	ToolCallID CallID          `json:"toolCallId"`
	ToolName   string          `json:"toolName"`
	Attempt    int             `json:"attempt,omitempty"` // that ended so; 0 in a crumb of a release that did not say
	Result     json.RawMessage `json:"result"`
	DurationMs int64           `json:"durationMs"`
	Deltas     int             `json:"deltas"` // of this attempt
	Worker     string          `json:"worker,omitempty"`
	Files      []File          `json:"files,omitempty"`
	Hook       string          `json:"hook,omitempty"`   // that gave the result in the tool's place: a short circuit, or a recovery
	By         *Principal      `json:"by,omitempty"`     // who supplied the outcome in the worker's place
	Reason     string          `json:"reason,omitempty"` // why they did
}

// ToolErrored is a call that was sent and did not end ok.
type ToolErrored struct {
	Base
	ToolCallID CallID       `json:"toolCallId"`
	ToolName   string       `json:"toolName"`
	Attempt    int          `json:"attempt,omitempty"` // that ended so; 0 in a crumb of a release that did not say
	Error      *fault.Error `json:"error"`
	Outcome    Outcome      `json:"outcome"`
	DurationMs int64        `json:"durationMs"`
	Deltas     int          `json:"deltas"` // of this attempt
	Worker     string       `json:"worker,omitempty"`
	Hook       string       `json:"hook,omitempty"`   // that replaced the error
	By         *Principal   `json:"by,omitempty"`     // who supplied the outcome in the worker's place
	Reason     string       `json:"reason,omitempty"` // why they did
}

// Reasons of a blocked call.
const (
	BlockedUnknown     = "unknown"
	BlockedInvalidArgs = "invalid-args"
	BlockedDenied      = "denied"
	BlockedLimit       = "limit"
	BlockedLoop        = "loop"
	BlockedBudget      = "budget"
	BlockedHook        = "hook" // a beforeRun hook failed, or left arguments that may not run
)

// LimitHit names the limit that blocked a call.
type LimitHit struct {
	Name  string `json:"name"`
	Value int64  `json:"value"`
	Count int64  `json:"count"`
}

// ToolBlocked is a call that was never sent.
type ToolBlocked struct {
	Base
	ToolCallID CallID          `json:"toolCallId"`
	ToolName   string          `json:"toolName"` // as the model said
	Reason     string          `json:"reason"`
	Error      *fault.Error    `json:"error"`
	Args       json.RawMessage `json:"args,omitempty"`
	Limit      *LimitHit       `json:"limit,omitempty"`
}

// Kinds of checkpoints.
const (
	KindApproval   = "approval"
	KindInput      = "input"
	KindEscalation = "escalation"
)

// HumanRequired asks a person. Its own Suspended field is required on the wire,
// so it shadows that of Base.
type HumanRequired struct {
	Base
	CheckpointID CheckpointID    `json:"checkpointId"`
	Kind         string          `json:"kind"`
	ToolCallID   CallID          `json:"toolCallId,omitempty"`
	ToolName     string          `json:"toolName,omitempty"`
	Tool         string          `json:"tool,omitempty"`
	Args         json.RawMessage `json:"args"`
	ArgsHash     string          `json:"argsHash"`
	Suspended    bool            `json:"suspended"`
	Schema       json.RawMessage `json:"schema"`
	AnswerSchema json.RawMessage `json:"answerSchema,omitempty"`
	Prompt       string          `json:"prompt,omitempty"`
	Rule         string          `json:"rule,omitempty"`
	ExpiresAt    *Time           `json:"expiresAt,omitempty"`
	Principal    *Principal      `json:"principal,omitempty"`
}

// Outcomes of a checkpoint.
const (
	ResumedApproved  = "approved"
	ResumedEdited    = "edited"
	ResumedRejected  = "rejected"
	ResumedAnswered  = "answered"
	ResumedExpired   = "expired"
	ResumedWithdrawn = "withdrawn"
)

// HumanResumed says what became of a question.
type HumanResumed struct {
	Base
	CheckpointID CheckpointID    `json:"checkpointId"`
	Kind         string          `json:"kind"`
	ToolCallID   CallID          `json:"toolCallId,omitempty"`
	ToolName     string          `json:"toolName,omitempty"`
	Outcome      string          `json:"outcome"`
	Response     json.RawMessage `json:"response,omitempty"` // {approved: bool} for approval, the value for input
	Args         json.RawMessage `json:"args,omitempty"`
	Reason       string          `json:"reason,omitempty"`
	By           *Principal      `json:"by,omitempty"`
	WaitedMs     int64           `json:"waitedMs"`
}

// HookErrored says that a hook failed after all its attempts. What it was called
// for failed with it, unless the hook is advisory.
type HookErrored struct {
	Base
	Hook       string       `json:"hook"`
	Point      string       `json:"point"`
	Scope      string       `json:"scope"`
	ToolCallID CallID       `json:"toolCallId,omitempty"` // scope tool and task
	ToolName   string       `json:"toolName,omitempty"`
	Error      *fault.Error `json:"error"`
	Attempts   int          `json:"attempts"`
	Advisory   bool         `json:"advisory,omitempty"`
}

// FileGenerated names a file that a model or a tool made.
type FileGenerated struct {
	Base
	File       File   `json:"file"`
	ToolCallID CallID `json:"toolCallId,omitempty"` // of the tool that stored it; absent when the model made it
	ToolName   string `json:"toolName,omitempty"`
}

// DeltaBase is what every delta has; Seq is the afterSeq of its command.
type DeltaBase struct {
	Base
	Attempt int `json:"attempt"`
	Index   int `json:"index"` // from 0 in one attempt of one call
}

// TextDelta is a piece of text:delta or reasoning:delta.
type TextDelta struct {
	DeltaBase
	Delta string `json:"delta"`
}

// InputDelta is tool:input:start (ToolName), tool:input:delta (Delta) or tool:input:end.
type InputDelta struct {
	DeltaBase
	ToolCallID CallID `json:"toolCallId"`
	ToolName   string `json:"toolName,omitempty"`
	Delta      string `json:"delta,omitempty"`
}

// ResultPartial is one value a streaming tool yielded.
type ResultPartial struct {
	DeltaBase
	ToolCallID CallID          `json:"toolCallId"`
	ToolName   string          `json:"toolName"`
	Result     json.RawMessage `json:"result"`
}

// Head returns the base of a crumb, whatever its type.
func (b *Base) Head() *Base { return b }
