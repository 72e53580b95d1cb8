package crumbs

import (
	"encoding/json"

	"github.com/crumbmesh/crumbmesh/pkg/fault"
)

// Bodies of the request–reply endpoints `crumbmesh.<noun>.<verb>`. A failure is
// answered with the fault as body and its code in Nats-Service-Error-Code.

// Endpoint subjects.
const (
	EndpointRunsStart       = "crumbmesh.runs.start"
	EndpointRunsGet         = "crumbmesh.runs.get"
	EndpointRunsList        = "crumbmesh.runs.list"
	EndpointRunsCancel      = "crumbmesh.runs.cancel"
	EndpointApprovalsList   = "crumbmesh.approvals.list"
	EndpointApprovalsGet    = "crumbmesh.approvals.get"
	EndpointApprovalsDecide = "crumbmesh.approvals.decide"
	EndpointToolsList       = "crumbmesh.tools.list"
	EndpointAgentsList      = "crumbmesh.agents.list"
	EndpointAgentsGet       = "crumbmesh.agents.get"
	EndpointAgentsApply     = "crumbmesh.agents.apply"
)

// RunStartReply answers runs.start (whose body is a RunRequest with agentId).
// Created is false when the same request was made before.
type RunStartReply struct {
	RunID   RunID   `json:"runId"`
	AgentID AgentID `json:"agentId"`
	Created bool    `json:"created"`
}

// RunGet asks for one run.
type RunGet struct {
	RunID RunID `json:"runId"`
}

// RunView is a run as runs.get and runs.list show it.
type RunView struct {
	RunID        RunID           `json:"runId"`
	AgentID      AgentID         `json:"agentId,omitempty"`
	SessionID    SessionID       `json:"sessionId,omitempty"`
	Revision     string          `json:"agentRevision,omitempty"`
	Status       string          `json:"status"` // running, suspended, stopping, completed, failed or cancelled
	Step         int             `json:"step"`
	Seq          uint64          `json:"seq"` // of the last crumb
	StartedAt    Time            `json:"startedAt"`
	EndedAt      *Time           `json:"endedAt,omitempty"`
	Checkpoints  []CheckpointID  `json:"checkpoints,omitempty"` // open questions
	Output       json.RawMessage `json:"output,omitempty"`
	FinishReason string          `json:"finishReason,omitempty"`
	Error        *fault.Error    `json:"error,omitempty"`
	Usage        *Usage          `json:"usage,omitempty"`
	Cost         *Cost           `json:"cost,omitempty"`
}

// RunList asks for runs, newest first.
type RunList struct {
	Status  string  `json:"status,omitempty"`
	AgentID AgentID `json:"agentId,omitempty"`
	Limit   int     `json:"limit,omitempty"` // 50 when 0, at most 200
}

// RunListReply answers runs.list. Truncated says that there are more.
type RunListReply struct {
	Runs      []RunView `json:"runs"`
	Truncated bool      `json:"truncated,omitempty"`
}

// RunCancel asks that a run ends.
type RunCancel struct {
	RunID     RunID      `json:"runId"`
	Reason    string     `json:"reason,omitempty"`
	Principal *Principal `json:"principal,omitempty"`
}

// RunCancelReply says that the cancel is stored; the run's crumbs say what became of it.
type RunCancelReply struct {
	RunID  RunID  `json:"runId"`
	Status string `json:"status"` // before the cancel; "" when the run is not known yet
}

// AgentsListReply answers agents.list.
type AgentsListReply struct {
	Revision string      `json:"revision"` // of the project
	Agents   []AgentView `json:"agents"`
}

// AgentView is an agent as agents.list shows it.
type AgentView struct {
	AgentID     AgentID         `json:"agentId"`
	Revision    string          `json:"revision"`
	Description string          `json:"description,omitempty"`
	Model       Model           `json:"model"`
	InputSchema json.RawMessage `json:"inputSchema,omitempty"`
	Tools       []string        `json:"tools,omitempty"` // permission ids
}

// AgentGet asks for one definition; without a revision the current one.
type AgentGet struct {
	AgentID  AgentID `json:"agentId"`
	Revision string  `json:"revision,omitempty"`
}

// AgentsApply replaces the project by a whole new one. With DryRun nothing is stored.
type AgentsApply struct {
	Agents    []json.RawMessage `json:"agents"` // definitions as pkg/agent encodes them
	Groups    map[string]Group  `json:"groups,omitempty"`
	Providers []string          `json:"providers,omitempty"`
	Shared    json.RawMessage   `json:"shared,omitempty"` // hooks and plugins of the project, as pkg/agent encodes them
	DryRun    bool              `json:"dryRun,omitempty"`
}

// Group bounds the queue of a worker group.
type Group struct {
	MaxInFlight   int   `json:"maxInFlight,omitempty"`   // calls handed out at once; 0 = 10,000
	StartBeforeMs int64 `json:"startBeforeMs,omitempty"` // how long a call may wait in the queue; 0 = 10 min, at most 24 h
}

// AgentsApplyReply answers agents.apply.
type AgentsApplyReply struct {
	Revision string             `json:"revision"`
	Agents   map[AgentID]string `json:"agents"` // revision by agent
	Changed  bool               `json:"changed"`
}

// ToolsListReply answers tools.list.
type ToolsListReply struct {
	Tools []ToolView `json:"tools"`
}

// ToolView is what a worker announced as tools.list shows it.
type ToolView struct {
	Kind        string          `json:"kind"` // tool, hook, parse or human
	Group       string          `json:"group"`
	Handler     string          `json:"handler"`
	Description string          `json:"description,omitempty"`
	Schema      json.RawMessage `json:"schema,omitempty"`
	Effect      Effect          `json:"effect,omitempty"`
	Stream      bool            `json:"stream,omitempty"`
	TimeoutMs   int64           `json:"timeoutMs,omitempty"`
	Points      []string        `json:"points,omitempty"` // of a hook
	Hash        string          `json:"hash"`
	Workers     int             `json:"workers"` // present now; 0 means calls queue
}
