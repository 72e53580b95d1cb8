package perm

import (
	"slices"
	"strings"
)

// Scope says what kind of thing a tool is. The list is closed.
type Scope string

// The scopes. Skill and Plugin tools have a Sub.
const (
	Tool   Scope = "tool"   // a tool of the project, the agent or the run
	Skill  Scope = "skill"  // a script of a skill
	Task   Scope = "task"   // a one-shot task
	Plugin Scope = "plugin" // a tool a plugin brings, MCP tools among them
	Core   Scope = "core"   // built in: documents, knowledge, loops, delegation
	Action Scope = "action" // a tool that changes the business state
	System Scope = "system" // answered in the orchestrator; outside permissions
	Human  Scope = "human"  // a question to a person; outside permissions
)

// Scopes returns all scopes, those a permission may name first.
func Scopes() []Scope {
	return []Scope{Tool, Skill, Task, Plugin, Core, Action, System, Human}
}

// Targetable reports whether permissions may name tools of the scope.
func (s Scope) Targetable() bool { return s.known() && s != System && s != Human }

func (s Scope) known() bool { return slices.Contains(Scopes(), s) }

// hasSub reports whether tools of the scope have a Sub.
func (s Scope) hasSub() bool { return s == Skill || s == Plugin }

// named lists scopes for a message.
func named(scopes []Scope) string {
	words := make([]string, len(scopes))
	for i, s := range scopes {
		words[i] = string(s)
	}
	return strings.Join(words, ", ")
}
