package local

import (
	"slices"

	"github.com/crumbmesh/crumbmesh/pkg/agent"
)

// earlierMax bounds the versions from before that a group still serves, the newest
// first to stay: runs in flight keep the tools that they began with.
const earlierMax = 64

// earlier is the exec tools that this process served before, newest first, by
// group. They are the commands as they stood in the tool files; the scripts that
// they start are those of now.
type earlier map[string][]agent.ExecTool

// add remembers what a project serves.
func (e earlier) add(p *agent.Project) {
	for _, t := range p.ExecTools() {
		group := t.Announcement.Group
		kept := slices.DeleteFunc(e[group], func(old agent.ExecTool) bool { return sameVersion(old, t) })
		e[group] = slices.Insert(kept, 0, t)[:min(len(kept)+1, earlierMax)]
	}
}

// of is what a group served before and p has no more.
func (e earlier) of(group string, p *agent.Project) []agent.ExecTool {
	now := p.ExecTools()
	return slices.DeleteFunc(slices.Clone(e[group]), func(old agent.ExecTool) bool {
		return slices.ContainsFunc(now, func(t agent.ExecTool) bool { return sameVersion(old, t) })
	})
}

func sameVersion(a, b agent.ExecTool) bool {
	return a.Announcement.Handler == b.Announcement.Handler && a.Announcement.Hash() == b.Announcement.Hash()
}
