package observability_test

import (
	"encoding/json"
	"errors"

	"github.com/crumbmesh/crumbmesh/pkg/agent"
	"github.com/crumbmesh/crumbmesh/pkg/crumbs"
	"github.com/crumbmesh/crumbmesh/pkg/perm"
	"github.com/crumbmesh/crumbmesh/pkg/tool"
)

// The groups of the tests; nobody ever works for idle.
const (
	groupDemo = "demo"
	groupIdle = "idle"
)

type input struct {
	Key string `json:"key"`
}

func tools() []tool.Tool {
	return []tool.Tool{
		tool.Define("lookup", "Look up.", func(_ tool.Context, in input) (string, error) { return "value of " + in.Key, nil }, tool.Effect(crumbs.EffectPure)),
		tool.Define("fail", "Fail.", func(tool.Context, input) (string, error) { return "", errors.New("no luck") }, tool.Effect(crumbs.EffectPure)),
		tool.Define("pay", "Pay.", func(_ tool.Context, in input) (string, error) { return "paid " + in.Key, nil }),
	}
}

func workerTool(group, name string) agent.Tool {
	return agent.Tool{Name: name, Worker: &agent.Worker{Group: group, Tool: name}}
}

func call(name string) agent.ScriptCall {
	return agent.ScriptCall{Name: "tool_" + name, Args: json.RawMessage(`{"key":"a"}`)}
}

func scripted(id crumbs.AgentID, asks []string, own []agent.Tool, turns ...agent.Turn) *agent.Definition {
	return &agent.Definition{ID: id, Model: agent.Model{Provider: "script", Model: "main"}, Output: agent.Output{Format: agent.FormatText}, Steps: agent.Steps{Max: 5},
		Permissions: perm.Lists{Ask: asks}, Tools: own, Scripts: map[string]agent.Script{"main": {Turns: turns}}}
}

// clerk looks up, fails, asks for a tool it does not have, and pays once a person
// says yes.
func clerk() *agent.Definition {
	return scripted("clerk", []string{"tool:pay"}, []agent.Tool{workerTool(groupDemo, "lookup"), workerTool(groupDemo, "fail"), workerTool(groupDemo, "pay")},
		agent.Turn{Text: "On it.", Usage: &crumbs.Usage{InputTokens: 100, OutputTokens: 20}, ToolCalls: []agent.ScriptCall{call("lookup"), call("fail"), call("nosuch"), call("pay")}},
		agent.Turn{Text: "Done.", Usage: &crumbs.Usage{InputTokens: 200, OutputTokens: 5}})
}
