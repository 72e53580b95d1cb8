package agent

import (
	"maps"
	"slices"

	"github.com/crumbmesh/crumbmesh/pkg/crumbs"
	"github.com/crumbmesh/crumbmesh/pkg/perm"
)

// inert warns of what loads and never does anything.
func (a *folder) inert(d *Definition) {
	file := a.sources[agentFile]
	for _, name := range slices.Sorted(maps.Keys(d.Plugins)) {
		if !a.hasPlugin(name) {
			a.warn(file, place{"plugins", name}, "no plugin %s is listed under plugins of %s, so nobody reads this", quote(name), projectFile)
		}
	}
	if d.Output.Format == FormatJSON && len(d.Tools) > 0 {
		a.warn(file, place{"output", "format"}, "json has no tools: those of %s/ are not shown to the model", toolsDir)
	}
	a.neverRecovers(file, d.ErrorHandling, d.Hooks)
	for _, t := range d.Tools {
		file := a.sources[toolFile(t.Name)]
		a.neverBefore(file, d, t)
		if t.Stream {
			a.neverRetried(file, t)
			continue
		}
		a.neverRecovers(file, t.ErrorHandling, t.Hooks)
	}
}

func (a *folder) hasPlugin(name string) bool {
	for _, p := range a.project.Shared.Plugins {
		if p.Name == name {
			return true
		}
	}
	return false
}

// neverRecovers warns of an onError hook whose answer never counts: after the last
// attempt the failure stands, whatever a hook says.
func (a *folder) neverRecovers(file *source, e ErrorHandling, hooks Hooks) {
	if e.Retry != nil && e.Retry.Attempts <= 1 && len(hooks.OnError) > 0 {
		a.warn(file, place{"errorHandling", "retry", "attempts"},
			"with attempts: %d the first failure is the last, and after the last one it stands whatever an onError hook answers: allow 2, or remove errorHandling", e.Retry.Attempts)
	}
}

// neverBefore warns of hooks that are to come before a question when there are none, or
// no question: whoever wrote it believes that people see what hooks made of the arguments.
func (a *folder) neverBefore(file *source, d *Definition, t Tool) {
	policy, err := perm.Compile(d.Permissions)
	if t.Approval.Hooks != HooksBefore || t.Kind() == KindHuman || err != nil {
		return // not said, or refused already
	}
	at, before := place{"approval", "hooks"}, len(t.Hooks.BeforeRun)
	for _, more := range a.project.Shared.chain() {
		before += len(more.hooks.BeforeRun)
	}
	if before == 0 {
		a.warn(file, at, "the tool has no beforeRun hook, and neither have the plugins and hooks of %s: this has no effect", projectFile)
	}
	if policy.Decide(t.Origin()).Verdict != perm.Ask {
		a.warn(file, at, "nobody is asked before the tool runs, since permissions.ask of %s does not rule it: this has no effect", agentFile)
	}
}

// neverRetried warns of what has no effect on a tool that streams.
func (a *folder) neverRetried(file *source, t Tool) {
	if t.ErrorHandling.Retry != nil {
		a.warn(file, place{"errorHandling", "retry"}, "a tool that streams is not repeated, since its partial results are out: this has no effect")
	}
	if len(t.Hooks.OnError) > 0 {
		a.warn(file, place{"hooks", crumbs.HookOnError}, "a failure of a tool that streams stands, since its partial results are out: this hook is not called")
	}
}
