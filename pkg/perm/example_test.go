package perm_test

import (
	"fmt"

	"github.com/crumbmesh/crumbmesh/pkg/perm"
)

func Example() {
	policy, err := perm.Compile(perm.Lists{
		Allow: []string{"tool:*", "core:doc_ingest"},
		Ask:   []string{"plugin:mcp_client/*", "tool:delete_*"},
		Deny:  []string{"tool:delete_everything"},
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, o := range []perm.Origin{
		{Scope: perm.Tool, Name: "web_search"},
		{Scope: perm.Tool, Name: "delete_page"},
		{Scope: perm.Tool, Name: "delete_everything"},
		{Scope: perm.Plugin, Sub: "mcp_client", Name: "fs__read"},
		{Scope: perm.Core, Name: "kg_query"},
		{Scope: perm.Human, Name: "approve"},
	} {
		leaf, _ := perm.Leaf(o)
		d := policy.Decide(o)
		fmt.Printf("%-6s %q %s\n", d.Verdict, d.Rule, leaf)
	}

	_, err = perm.Compile(perm.Lists{Deny: []string{"mpc:*"}})
	fmt.Println(err)
	// Output:
	// allow  "tool:*" tool_web_search
	// ask    "tool:delete_*" tool_delete_page
	// deny   "tool:delete_everything" tool_delete_everything
	// ask    "plugin:mcp_client/*" plugin_mcp_client_fs__read
	// absent "" core_kg_query
	// allow  "" human_approve
	// INVALID_PERMISSION: permissions.deny[0]: selector "mpc:*": unknown scope "mpc", expected one of tool, skill, task, plugin, core, action
}
