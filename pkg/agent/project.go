package agent

import (
	"maps"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/crumbmesh/crumbmesh/pkg/crumbs"
	"github.com/crumbmesh/crumbmesh/pkg/fault"
)

// Project is a project folder, read and checked.
type Project struct {
	Dir       string              // absolute
	Agents    []*Definition       // by id
	Groups    map[string]Group    // those of crumb.yaml, and DefaultGroup when a tool is in it
	Providers map[string]Provider // those of crumb.yaml; ScriptProvider needs no entry
	Models    map[string]Model    // aliases; a definition has what its alias stands for
	Default   string              // the alias for agents without a model; "" when there is none
	Shared    Shared              // hooks and plugins of crumb.yaml
	Warnings  []string            // `file:line:col: text`: what loads but is likely not meant
}

// Group is a queue of interchangeable workers.
type Group struct {
	MaxInFlight   int      `json:"maxInFlight"`       // calls that run at once, over all workers
	Command       []string `json:"command,omitempty"` // the worker that `crumb dev` starts, in the project's folder
	Watch         []string `json:"watch,omitempty"`   // what the command is made of: folders, files and patterns in the project's folder
	StartBeforeMs int64    `json:"startBeforeMs"`     // how long a call may wait in the queue
}

// Provider is an instance of an LLM provider.
type Provider struct {
	Kind string `json:"kind"` // script
}

// ExecTool is what a worker serves from the project's folder: a tool, a hook or a
// parser, as its announcement says, which is a command, or a hook that asks a
// subject.
type ExecTool struct {
	Agent        crumbs.AgentID // "" of what crumb.yaml declares
	Announcement Announcement   // as is: its hash covers the command
	Argv         []string
	Env          []string // names to pass through
	Dir          string   // absolute
	NATS         string   // the subject to ask, instead of a command
}

// ExecTools are the commands and subjects of the project: those of its agents, by
// agent (its tools by name, each followed by its hooks, then its own hooks and its
// parser), then those of crumb.yaml in the order of their hooks. A worker of a
// group serves those whose Announcement.Group is its own.
func (p *Project) ExecTools() []ExecTool {
	var out []ExecTool
	for _, d := range p.Agents {
		out = append(out, d.execTools()...)
	}
	for _, of := range p.Shared.chain() {
		out = append(out, of.served(of.hooks)...)
	}
	for i := range out {
		out[i].Dir = filepath.Join(p.Dir, filepath.FromSlash(out[i].Dir))
	}
	return out
}

// execTools are the commands and subjects of an agent, their folders relative to
// the project.
func (d *Definition) execTools() []ExecTool {
	var out []ExecTool
	for _, t := range byName(d.Tools) {
		own := ofTool(d.ID, t.Name)
		if t.Kind() == KindExec {
			folder, _ := beneath(own.folder, t.Exec.Dir)
			out = append(out, ExecTool{Announcement: t.Announcement().filled(), Argv: t.Exec.Argv, Env: t.Exec.Env, Dir: folder})
		}
		out = append(out, own.served(t.Hooks)...)
	}
	own := ofAgent(d.ID)
	out = append(out, own.served(d.Hooks)...)
	if f := d.Output.Custom; f != nil && f.Exec != nil {
		out = append(out, ExecTool{Announcement: f.announcement(d.ID), Argv: f.Exec, Dir: own.folder})
	}
	for i := range out {
		out[i].Agent = d.ID
	}
	return out
}

func (c *checker) project(p *Project, agents []string) {
	c.file = projectFile
	seen := map[string]bool{}
	for i, id := range agents {
		at := place{"agents"}.index(i)
		if id != everyAgent {
			c.fail(at, crumbs.CheckAgentID(id))
		}
		if seen[id] {
			c.bad(at, "%s stands twice: remove one", quote(id))
		}
		seen[id] = true
	}
	c.bounded(place{"agents"}, len(agents), AgentsMax, "agent")
	c.bounded(place{"groups"}, len(p.Groups), GroupsMax, "group")
	for _, name := range slices.Sorted(maps.Keys(p.Groups)) {
		g, at := p.Groups[name], place{"groups", name}
		c.name(at, "group", name)
		c.within(at.key("maxInFlight"), int64(g.MaxInFlight), 1, MaxInFlightMax)
		c.within(at.key("startBeforeMs"), g.StartBeforeMs, 1, StartBeforeMsMax)
		if g.Command != nil {
			c.command(at.key("command"), g.Command)
		}
		c.watch(at.key("watch"), g)
	}
	c.providers(p.Providers)
	c.bounded(place{"models"}, len(p.Models), ModelsMax, "model")
	for _, name := range slices.Sorted(maps.Keys(p.Models)) {
		at := place{"models", name}
		c.name(at, "model", name)
		c.model(at, p.Models[name], "")
	}
	c.shared(&p.Shared)
}

// providers checks the instances of a project or of an agent.
func (c *checker) providers(all map[string]Provider) {
	c.bounded(place{"providers"}, len(all), ProvidersMax, "provider")
	for _, name := range slices.Sorted(maps.Keys(all)) {
		at := place{"providers", name}
		c.name(at, "provider", name)
		if name == OwnProvider {
			c.fail(at, fault.New(fault.InvalidName, "provider name %q is the queue of the instances of agents: use another", name).With("kind", "provider").With("value", name))
		}
		c.oneOf(at.key("kind"), all[name].Kind, ScriptProvider)
	}
}

// watch checks what a group's command is made of.
func (c *checker) watch(at place, g Group) {
	if len(g.Watch) > 0 && len(g.Command) == 0 {
		c.bad(at, "there is no command to start again: name one beside it, or remove watch")
	}
	c.bounded(at, len(g.Watch), WatchMax, "path")
	for i, p := range g.Watch {
		_, err := path.Match(p, "")
		if p == "" || err != nil || !insideProject(p) {
			c.bad(at.index(i), "expected a folder, a file or a pattern inside the project, like cmd/billing or cmd/*.go, with slashes, got %s", quote(p))
		}
		if strings.ContainsAny(path.Dir(p), "*?[") {
			c.bad(at.index(i), "expected a pattern in the last part only, like cmd/*.go; a folder stands for all below it; got %s", quote(p))
		}
	}
}

// insideProject reports whether a path with slashes stays below the folder of
// crumb.yaml.
func insideProject(p string) bool {
	clean := path.Clean(p)
	return !path.IsAbs(p) && clean != ".." && !strings.HasPrefix(clean, "../") && !strings.ContainsAny(p, "\\\x00")
}

func (c *checker) bounded(at place, n, most int, noun string) {
	if n > most {
		c.bad(at, "expected at most %d %ss, got %d", most, noun, n)
	}
}

// provider checks that the project has the agent's provider, unless it is the
// agent's own, which was checked with the definition.
func (c *checker) provider(p *Project, d *Definition) {
	m := d.Model
	if m.Provider == ScriptProvider || d.Queue() == OwnProvider || crumbs.CheckName("provider", m.Provider) != nil {
		return // or refused already
	}
	c.file = agentFile
	instance, ok := p.Providers[m.Provider]
	if !ok {
		have := slices.Concat([]string{ScriptProvider}, slices.Sorted(maps.Keys(p.Providers)), slices.Sorted(maps.Keys(d.Providers)))
		c.fail(place{"model", "provider"}, fault.New(fault.UnknownProvider, "the project has no provider %q, it has %s; list it under providers of %s, or of the agent",
			m.Provider, orList(have), projectFile).With("provider", m.Provider).With("registered", have))
		return
	}
	if instance.Kind == ScriptProvider {
		c.scripted(place{"model", "model"}, m.Model, d.Scripts)
	}
}
