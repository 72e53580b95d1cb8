package crumbs

import "github.com/crumbmesh/crumbmesh/pkg/fault"

// Bodies of crumbmesh.runs.explain, whose request is a RunGet.

// EndpointRunsExplain says why a run is where it is.
const EndpointRunsExplain = "crumbmesh.runs.explain"

// RunExplained is a run as an operator needs to see it: what it waits for, who has
// that in hand, and what to do.
type RunExplained struct {
	Run      RunView       `json:"run"`
	At       Time          `json:"at"` // of this answer
	WaitsFor []RunWait     `json:"waitsFor"`
	Limits   RunLimits     `json:"limits"`
	Timer    *Time         `json:"nextTimer,omitempty"` // when the run wakes by itself
	Unsent   int           `json:"unsent,omitempty"`    // messages decided that no crumb proves sent yet
	Last     *RunLastError `json:"lastError,omitempty"`
	ToolSet  string        `json:"toolSet,omitempty"` // pinned, by hash
	Tools    []RunTool     `json:"tools"`
	TraceID  string        `json:"traceId,omitempty"`
	Advice   string        `json:"advice"`            // one sentence
	Command  string        `json:"command,omitempty"` // that does what the advice says
}

// What a run waits for, in RunWait.Kind.
const (
	WaitModel  = "model"  // an answer of a model
	WaitRetry  = "retry"  // the time of the next attempt of what failed
	WaitTool   = "tool"   // the result of a tool call
	WaitHook   = "hook"   // the answer of a hook
	WaitParse  = "parse"  // the parser of a custom output format
	WaitStop   = "stop"   // a call that was asked to stop
	WaitPerson = "person" // an answer of a person
)

// Where a call is, in RunWait.Place.
const (
	PlaceQueue   = "queue"   // its message waits for a worker
	PlaceHand    = "hand"    // a worker has the message, the call has not started
	PlaceRunning = "running" // started, its worker is present
	PlaceOrphan  = "orphan"  // started, its worker is gone
	PlaceResult  = "result"  // its result waits for the orchestrator
	PlaceFull    = "full"    // not sent yet: its stream takes no more (QUEUE_FULL)
	PlaceNowhere = "nowhere" // no message and no start: its deadline ends it
)

// RunWait is one thing a run waits for.
type RunWait struct {
	Kind        string `json:"kind"`
	What        string `json:"what"` // the model, the tool as the model calls it, the hook with its point, or the parser
	CallID      CallID `json:"callId,omitempty"`
	Attempt     int    `json:"attempt,omitempty"`
	Since       Time   `json:"since"`
	Until       Time   `json:"until,omitzero"`       // then it ends by itself
	StartBefore Time   `json:"startBefore,omitzero"` // not started by then, it never starts
	Queue       string `json:"queue,omitempty"`      // group or provider
	Workers     int    `json:"workers,omitempty"`    // of the queue, present now
	Pending     int64  `json:"pending,omitempty"`    // messages of the queue that wait, this one perhaps among them
	Place       string `json:"place,omitempty"`
	Worker      string `json:"worker,omitempty"` // that started it last
	Starts      int    `json:"starts,omitempty"`
	Prompt      string `json:"prompt,omitempty"` // of a question
	Advice      string `json:"advice"`
	Command     string `json:"command,omitempty"`

	// Decided is the answer to a question, when there is one that the run has not
	// applied.
	Decided *RunDecided `json:"decided,omitempty"`
}

// RunDecided is an answer that is recorded and not applied.
type RunDecided struct {
	Outcome string    `json:"outcome"` // approve, reject or answer
	By      Principal `json:"by"`
	At      Time      `json:"at"`
	KeyID   string    `json:"kid"`               // of the key that signed it
	Refused string    `json:"refused,omitempty"` // why no run applies it

	Untrusted bool `json:"untrusted,omitempty"` // refused for its key; else the signature is wrong
}

// RunLimits are what bounds a run, and how much of it is used.
type RunLimits struct {
	Steps      int  `json:"steps"`
	StepsMax   int  `json:"stepsMax,omitempty"`
	DeadlineAt Time `json:"deadlineAt,omitzero"`
}

// RunLastError is the latest error that a run's crumbs tell of.
type RunLastError struct {
	Type     string       `json:"type"` // of the crumb
	Seq      uint64       `json:"seq"`
	At       Time         `json:"at"`
	ToolName string       `json:"toolName,omitempty"`
	Error    *fault.Error `json:"error"`
}

// RunTool is one tool of a run's agent and why it may, or may not, be called.
type RunTool struct {
	Tool    string `json:"tool"`           // as permissions name it
	Name    string `json:"name,omitempty"` // as the model calls it; absent when it may not
	Verdict string `json:"verdict"`        // allow, ask, deny or absent
	Rule    string `json:"rule,omitempty"` // the selector that decided
	List    string `json:"list,omitempty"` // where it stands: permissions.allow, .ask or .deny
	Group   string `json:"group,omitempty"`
	Workers int    `json:"workers,omitempty"` // of the group, present now
	Pending int64  `json:"pending,omitempty"` // calls of the group that wait
	Effect  Effect `json:"effect,omitempty"`
}
