package agent_test

import (
	"fmt"

	"github.com/crumbmesh/crumbmesh/pkg/agent"
)

// A definition becomes the tools of a run: what its permissions let through,
// completed by what workers announced.
func ExampleAssemble() {
	d, err := agent.Decode([]byte(`{
		"id": "clerk",
		"model": {"provider": "script", "model": "demo"},
		"permissions": {"ask": ["tool:pay"], "deny": ["tool:delete_*"]},
		"tools": [
			{"name": "pay", "worker": {"group": "bank", "tool": "pay"}},
			{"name": "delete_account", "worker": {"group": "bank", "tool": "delete_account"}},
			{"name": "confirm", "description": "Asks the customer.", "human": {"prompt": "Is that right?"}}
		],
		"scripts": {"demo": {"turns": [{"text": "Hello."}]}}
	}`))
	if err != nil {
		fmt.Println(err)
		return
	}
	announced := func(_ agent.Announced, group, tool string) (agent.Announcement, bool) {
		return agent.Announcement{Group: group, Handler: tool, Description: "Pays."}, tool == "pay"
	}
	set, _, err := agent.Assemble(d, agent.Surroundings{Announced: announced, HasQueue: func(group string) bool { return group == "bank" }})
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, e := range set.Entries {
		fmt.Println(e.Leaf, e.Kind, e.Verdict)
	}
	fmt.Println(set.Close("pay"))
	// Output:
	// human_confirm human allow
	// tool_pay worker ask
	// [tool_pay]
}

// Everything wrong with a definition is told at once.
func ExampleDecode() {
	_, err := agent.Decode([]byte(`{
		"id": "clerk",
		"model": {"provider": "anthropic", "model": "claude"},
		"steps": {"max": -1},
		"permissions": {"deny": ["tol:delete"]},
		"tools": [{"name": "deleteAccount", "description": "Deletes.", "exec": {"argv": ["./delete"]}}]
	}`))
	fmt.Println(err)
	// Output:
	// agent.yaml: INVALID_PERMISSION: permissions.deny[0]: selector "tol:delete": unknown scope "tol", expected one of tool, skill, task, plugin, core, action
	// agent.yaml: INVALID_CONFIG: steps.max: expected an integer from 1 to 10000, got -1
	// tools/deleteAccount.yaml: INVALID_NAME: tool name "deleteAccount": expected lowercase snake_case, at most 32 characters; did you mean "delete_account"?
}
