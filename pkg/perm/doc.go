// Package perm decides which of an agent's tools it may call.
//
// Every tool has an Origin: a scope, for skills and plugins the one that brought
// it (Sub), and a name. Two names follow from it: the permission id
// (`plugin:mcp_client/fs__read`), which is unique, and the leaf
// (`plugin_mcp_client_fs__read`), which the model sees and which is not.
//
// A Selector addresses origins: `tool:web_search`, `plugin:fs/*`,
// `tool:get_*_by_id`. `*` stands for zero or more of a-z 0-9 _ inside one
// segment; `scope:*` is the whole scope. A Policy is made of three lists of them:
//
//	effective set = (allow ∪ ask) − deny
//
// deny beats ask beats allow, whatever the order in the lists; without allow
// every tool is allowed. Tools of the scopes human and system are outside
// permissions: always allowed, never named in a list.
//
// A selector is about which tool, not about its arguments: text rules on
// arguments can be walked around, so a selector with parentheses is refused.
// A malformed selector in any list refuses the whole policy: a mistyped deny
// must stop the load, not allow silently.
//
// The package is pure; its values are immutable and may be shared.
package perm
