package agent

import (
	"cmp"
	"path"
	"slices"
	"strconv"
	"strings"

	"github.com/crumbmesh/crumbmesh/pkg/crumbs"
)

// Hook is a program that decides or observes at one point of a run or of a tool
// call. Exactly one of Worker, Exec and NATS is set.
type Hook struct {
	Name      string      `json:"name"`             // what crumbs and traces call it; made from its owner and point when the file says none
	Worker    *HookWorker `json:"worker,omitempty"` // registered by a worker
	Exec      []string    `json:"exec,omitempty"`   // a command: a HookInput on stdin, a HookAnswer or nothing on stdout
	NATS      string      `json:"nats,omitempty"`   // a subject that is asked: a HookInput, answered with a HookAnswer
	Env       []string    `json:"env,omitempty"`    // of Exec: names passed through from the worker's environment
	Dir       string      `json:"dir,omitempty"`    // of Exec: slash-separated, relative to the folder of the file that names it
	Group     string      `json:"group,omitempty"`  // of Exec and NATS: the queue whose worker runs it
	TimeoutMs int64       `json:"timeoutMs,omitempty"`
	Advisory  bool        `json:"advisory,omitempty"` // a failure of it is told, and what it was called for goes on
	Retry     *Retry      `json:"retry,omitempty"`    // of its own failures
}

// HookWorker names a hook that a worker of a group registered.
type HookWorker struct {
	Group string `json:"group"`
	Hook  string `json:"hook"`
}

// queue is the group that the hook runs in.
func (h Hook) queue() string {
	if h.Worker != nil {
		return h.Worker.Group
	}
	return h.Group
}

// Hooks are the hooks that one file declares, by point, in the order of the file.
type Hooks struct {
	BeforeRun []Hook `json:"beforeRun,omitempty"`
	AfterRun  []Hook `json:"afterRun,omitempty"`
	OnError   []Hook `json:"onError,omitempty"`
	OnSuspend []Hook `json:"onSuspend,omitempty"` // of agents, plugins and the project: no tool suspends
}

// at is the list of a point; nil for a point that is none.
func (h *Hooks) at(point string) *[]Hook {
	switch point {
	case crumbs.HookBeforeRun:
		return &h.BeforeRun
	case crumbs.HookAfterRun:
		return &h.AfterRun
	case crumbs.HookOnError:
		return &h.OnError
	case crumbs.HookOnSuspend:
		return &h.OnSuspend
	}
	return nil
}

// empty reports whether there is no hook.
func (h *Hooks) empty() bool {
	return len(h.BeforeRun)+len(h.AfterRun)+len(h.OnError)+len(h.OnSuspend) == 0
}

// hookAt is one hook with the point it stands at and its number there, from 0.
type hookAt struct {
	*Hook
	point string
	n     int
}

// each are the hooks in the order of a run.
func (h *Hooks) each() []hookAt {
	var out []hookAt
	for _, point := range crumbs.HookPoints() {
		list := *h.at(point)
		for i := range list {
			out = append(out, hookAt{&list[i], point, i})
		}
	}
	return out
}

// place is where the hook stands in its file, below `hooks`.
func (h hookAt) place(hooks place) place { return hooks.key(h.point).index(h.n) }

// Plugin is an entry of the list of plugins in crumb.yaml. Its hooks are called
// after those of agents and tools, in the order of the list.
type Plugin struct {
	Name  string `json:"name"`
	Hooks Hooks  `json:"hooks,omitzero"`
}

// Shared is what the runs of all agents of a project have in common and no
// definition holds.
type Shared struct {
	Plugins []Plugin `json:"plugins,omitempty"`
	Hooks   Hooks    `json:"hooks,omitzero"` // called last
}

// owner is the file that hooks are declared in, and what follows from it.
type owner struct {
	source  string // as HookEntry says it
	name    string // of hooks that say none, before their point
	handler string // of commands and subjects, before their point
	folder  string // where commands run, relative to the project
}

// String is the owner as a message tells it.
func (o owner) String() string {
	switch o.source {
	case crumbs.ScopeAgent, crumbs.ScopeTool:
		return "the " + o.source + " " + o.name
	}
	return "the " + strings.ReplaceAll(o.source, ":", " ")
}

// projectOwner begins the handlers of what crumb.yaml declares. No plugin is
// called hook, so that no handler is also that of an agent called hooks.
const projectOwner = "hooks/"

func ofAgent(id crumbs.AgentID) owner {
	return owner{crumbs.ScopeAgent, strings.ReplaceAll(string(id), "-", "_"), string(id) + "/hook-", path.Join(agentsDir, string(id))}
}

func ofTool(id crumbs.AgentID, tool string) owner {
	return owner{crumbs.ScopeTool, tool, string(id) + "/hook-" + tool + "-", path.Join(agentsDir, string(id), toolsDir)}
}

func ofPlugin(name string) owner {
	return owner{"plugin:" + name, name, projectOwner + name + "-", ""}
}

func ofProject() owner { return owner{"project", "project", projectOwner, ""} }

// named is the name of the n-th hook at a point that says none.
func (o owner) named(point string, n int) string {
	tail := ""
	if n > 0 {
		tail = "_" + strconv.Itoa(n)
	}
	name := o.name + "_" + snakePoint(point)
	return name[:min(len(name), crumbs.NameMax-len(tail))] + tail
}

// announcement is what the worker that serves a command or a subject announces.
func (o owner) announcement(h hookAt) Announcement {
	return Announcement{
		Kind: AnnouncedHook, Group: h.Group, Handler: o.handler + snakePoint(h.point) + "-" + strconv.Itoa(h.n),
		Points: []string{h.point}, TimeoutMs: h.TimeoutMs,
		Digest: fingerprint(Hook{Exec: h.Exec, NATS: h.NATS, Env: h.Env, Dir: h.Dir}, shortHash),
	}.filled()
}

// served are the commands and subjects among hooks, as a worker serves them.
func (o owner) served(hooks Hooks) []ExecTool {
	var out []ExecTool
	for _, h := range hooks.each() {
		if h.Worker != nil {
			continue
		}
		folder, _ := beneath(o.folder, h.Dir)
		out = append(out, ExecTool{Announcement: o.announcement(h), Argv: h.Exec, Env: h.Env, Dir: folder, NATS: h.NATS})
	}
	return out
}

// fill sets what the file may leave out.
func (h *Hooks) fill(o owner) {
	for _, one := range h.each() {
		if one.Worker != nil {
			one.Name = cmp.Or(one.Name, one.Worker.Hook)
		} else {
			one.Name = cmp.Or(one.Name, o.named(one.point, one.n))
			one.Group = cmp.Or(one.Group, DefaultGroup)
			one.TimeoutMs = cmp.Or(one.TimeoutMs, DefaultHookTimeoutMs)
		}
		one.Retry.fill()
	}
}

func (s *Shared) fill() {
	for i := range s.Plugins {
		s.Plugins[i].Hooks.fill(ofPlugin(s.Plugins[i].Name))
	}
	s.Hooks.fill(ofProject())
}

// declared is a file's hooks with their owner.
type declared struct {
	owner
	hooks Hooks
}

// chain is what follows a file's own hooks: those of the plugins, then the
// project's.
func (s *Shared) chain() []declared {
	var out []declared
	for _, p := range s.Plugins {
		out = append(out, declared{ofPlugin(p.Name), p.Hooks})
	}
	return append(out, declared{ofProject(), s.Hooks})
}

// snakePoint is a point as handlers and names have it: before_run.
func snakePoint(point string) string {
	i := slices.IndexFunc([]rune(point), func(r rune) bool { return r >= 'A' && r <= 'Z' })
	return point[:i] + "_" + strings.ToLower(point[i:])
}

// beneath is a folder of the project, relative to it; ok is false when dir is
// absolute or leads out of the project.
func beneath(base, dir string) (folder string, ok bool) {
	folder = path.Join(base, dir)
	return folder, !path.IsAbs(dir) && folder != ".." && !strings.HasPrefix(folder, "../")
}
