package hook

import (
	"encoding/json"
	"time"

	"github.com/crumbmesh/crumbmesh/pkg/crumbs"
	"github.com/crumbmesh/crumbmesh/pkg/tool"
)

// Context is what a hook knows of what it is called for. It is done when the hook's
// own limit is over or its run was cancelled.
type Context struct {
	// Context is that of the hook's call: the ids, the principal, files and secrets
	// are those of the run, CallID and Attempt those of the hook's own call.
	tool.Context

	Scope string // crumbs.ScopeAgent, ScopeTask or ScopeTool: what it is called for
	Point string // crumbs.HookBeforeRun and so on

	Skill      string        // scope agent: the skill of the run
	Tool       string        // scope tool and task: the permission id, tool:web_search
	ToolName   string        // scope tool and task: the name the model used, tool_web_search
	ToolCallID crumbs.CallID // scope tool and task: the call

	Input       json.RawMessage         // of the run, or the arguments of the call
	Duration    time.Duration           // afterRun: how long it took
	Execution   int                     // onError: which execution failed, from 1
	Checkpoints []crumbs.HookCheckpoint // onSuspend: the questions that were asked since the hook heard last
}

// newContext is the context of a call with its args.
func newContext(ctx tool.Context, in crumbs.HookInput) Context {
	return Context{
		Context: ctx, Scope: in.Scope, Point: ctx.Hook.Point, Skill: in.Skill,
		Tool: in.Tool, ToolName: in.ToolName, ToolCallID: in.ToolCallID,
		Input: in.Input, Duration: time.Duration(in.DurationMs) * time.Millisecond, Execution: in.Attempt, Checkpoints: in.Checkpoints,
	}
}
