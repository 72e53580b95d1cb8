package agent

import "github.com/crumbmesh/crumbmesh/pkg/crumbs"

// Program is a worker's code that the mesh calls beside tools: a hook or a parser,
// complete, as a run pins it.
type Program struct {
	Group         string        `json:"group"`
	Handler       string        `json:"handler"`
	ToolHash      string        `json:"toolHash,omitempty"`
	Effect        crumbs.Effect `json:"effect"` // idempotent unless its worker announced another
	TimeoutMs     int64         `json:"timeoutMs"`
	StartBeforeMs int64         `json:"startBeforeMs,omitempty"` // of the group; set by whoever pins the set
}

// HookEntry is one hook of a run, complete.
type HookEntry struct {
	Name   string `json:"name"`
	Source string `json:"source"` // agent, tool, task, `plugin:<name>` or project
	Program
	Advisory bool   `json:"advisory,omitempty"` // a failure of it is told, and what it was called for goes on
	Retry    *Retry `json:"retry,omitempty"`    // of its own failures; nil means none
}

// Chains are the hooks of a run or of a tool, each in the order in which they are
// called: those of its own file, of the plugins as crumb.yaml lists them, of the
// project.
type Chains struct {
	BeforeRun []HookEntry `json:"beforeRun,omitempty"`
	AfterRun  []HookEntry `json:"afterRun,omitempty"`
	OnError   []HookEntry `json:"onError,omitempty"`
	OnSuspend []HookEntry `json:"onSuspend,omitempty"` // of a run only
}

// At returns the hooks of a point; c may be nil.
func (c *Chains) At(point string) []HookEntry {
	if c == nil {
		return nil
	}
	if list := c.list(point); list != nil {
		return *list
	}
	return nil
}

// list is the chain of a point, nil for a point that is none.
func (c *Chains) list(point string) *[]HookEntry {
	switch point {
	case crumbs.HookBeforeRun:
		return &c.BeforeRun
	case crumbs.HookAfterRun:
		return &c.AfterRun
	case crumbs.HookOnError:
		return &c.OnError
	case crumbs.HookOnSuspend:
		return &c.OnSuspend
	}
	return nil
}

// programs are the hooks of all points; c may be nil.
func (c *Chains) programs() []*Program {
	if c == nil {
		return nil
	}
	var out []*Program
	for _, point := range crumbs.HookPoints() {
		list := *c.list(point)
		for i := range list {
			out = append(out, &list[i].Program)
		}
	}
	return out
}

// Parser is the parser of a custom output format, complete.
type Parser struct {
	Name string `json:"name"`
	Program
}
