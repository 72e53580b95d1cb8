package crumbs

import (
	"encoding/json"

	"github.com/crumbmesh/crumbmesh/pkg/fault"
)

// Points at which hooks are called.
const (
	HookBeforeRun = "beforeRun" // may change the input, or end with an output
	HookAfterRun  = "afterRun"  // may replace the output
	HookOnError   = "onError"   // may recover, retry or fail
	HookOnSuspend = "onSuspend" // observes
)

// HookPoints lists the points in the order of a run.
func HookPoints() []string {
	return []string{HookBeforeRun, HookAfterRun, HookOnError, HookOnSuspend}
}

// Scopes of what runs when a hook is called.
const (
	ScopeAgent = "agent" // a run
	ScopeTask  = "task"  // a task tool
	ScopeTool  = "tool"  // a tool call
)

// HookRef names the hook that a call of kind hook runs.
type HookRef struct {
	Name  string `json:"name"`
	Point string `json:"point"`
}

// HookInput is the args of a call of kind hook.
type HookInput struct {
	Scope string `json:"scope"`

	Input      json.RawMessage `json:"input"`                // of the run, or the arguments of the call
	Output     json.RawMessage `json:"output,omitempty"`     // afterRun
	DurationMs int64           `json:"durationMs,omitempty"` // afterRun
	Error      *fault.Error    `json:"error,omitempty"`      // onError
	Attempt    int             `json:"attempt,omitempty"`    // onError: the execution that failed, from 1

	Skill      string `json:"skill,omitempty"`      // scope agent
	Tool       string `json:"tool,omitempty"`       // scope tool and task: permission id
	ToolName   string `json:"toolName,omitempty"`   // scope tool and task: leaf
	ToolCallID CallID `json:"toolCallId,omitempty"` // scope tool and task

	Checkpoints []HookCheckpoint `json:"checkpoints,omitempty"` // onSuspend: the questions asked since the hook heard last
}

// HookCheckpoint is a question that a run waits for, as onSuspend is told.
type HookCheckpoint struct {
	CheckpointID CheckpointID    `json:"checkpointId"`
	Kind         string          `json:"kind"`
	ToolName     string          `json:"toolName,omitempty"`
	Tool         string          `json:"tool,omitempty"`
	Args         json.RawMessage `json:"args"`
	ExpiresAt    *Time           `json:"expiresAt,omitempty"`
}

// Actions of a HookAnswer.
const (
	HookContinue     = "continue"     // beforeRun: with Input
	HookShortCircuit = "shortCircuit" // beforeRun: end with Output
	HookReplace      = "replace"      // afterRun: with Output; may be left out
	HookRecover      = "recover"      // onError: end with Output
	HookRetry        = "retry"        // onError
	HookFail         = "fail"         // onError: with Error instead
)

// HookAnswer is the result of a call of kind hook; null, or one without an action,
// output and input, is no opinion.
type HookAnswer struct {
	Action string          `json:"action,omitempty"`
	Input  json.RawMessage `json:"input,omitempty"`
	Output json.RawMessage `json:"output,omitempty"`
	Error  *fault.Error    `json:"error,omitempty"`
}

// ParseInput is the args of a call of kind parse.
type ParseInput struct {
	Text string `json:"text"` // what the model said in all steps
}
