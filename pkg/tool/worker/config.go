package worker

import (
	"time"

	"github.com/crumbmesh/crumbmesh/pkg/agent"
	"github.com/crumbmesh/crumbmesh/pkg/crumbs"
	"github.com/crumbmesh/crumbmesh/pkg/fault"
	"github.com/crumbmesh/crumbmesh/pkg/mesh"
	"github.com/crumbmesh/crumbmesh/pkg/tool"
)

// Bounds of a worker.
const (
	SlotsDefault = 16
	SlotsMax     = 4096
	ToolsMax     = 1024
	EarlierMax   = 2048 // versions from before
	GraceDefault = 30 * time.Second
)

// Config describes a worker.
type Config struct {
	Group string        // queue it serves
	Name  string        // id of this process, unique; made up when empty
	Slots int           // calls at once; SlotsDefault when 0
	Grace time.Duration // how long calls may go on after the worker was told to stop; GraceDefault when 0

	// Earlier are versions of the tools, hooks and parsers from before, at most
	// EarlierMax: calls that were made for them run as they did, and no run begins
	// with them.
	Earlier []tool.Tool

	// Verify checks the signature of a person's decision and returns
	// DECISION_INVALID. Without it calls that needed an approval are refused.
	Verify func(crumbs.Decision) error

	// Ready, when set, is called once the worker is announced and takes calls.
	Ready func()

	// Health, when set, is given Worker.Health before anything is served.
	Health func(check func() error)
}

// served is a tool with what the worker announces of it.
type served struct {
	tool         tool.Tool
	announcement agent.Announcement
	hash         string
}

// handler names what is served: a hook, a parser and a tool may share a name.
type handler struct {
	kind agent.Announced
	name string
}

func handlerOf(t tool.Tool) handler { return handler{t.Kind(), t.Name()} }

// version is one version of it.
type version struct {
	handler
	hash string
}

// toolbox is what a worker serves.
type toolbox struct {
	now     map[handler]served // announced
	earlier map[version]served
}

// find returns a version of a tool, hook or parser; ok is false when it is not served, and then s is
// the version that is, if there is one.
func (b toolbox) find(h handler, hash string) (s served, ok bool) {
	s = b.now[h]
	if s.hash == hash && hash != "" {
		return s, true
	}
	if old, ok := b.earlier[version{h, hash}]; ok {
		return old, true
	}
	return s, false
}

// complete fills the defaults in and checks the tools. It returns INVALID_NAME,
// INVALID_CONFIG or the fault of the first wrong declaration.
func (c Config) complete(tools []tool.Tool) (Config, toolbox, error) {
	if err := crumbs.CheckName("group", c.Group); err != nil {
		return c, toolbox{}, err
	}
	if c.Name == "" {
		c.Name = mesh.NewWorkerID(c.Group)
	}
	if c.Slots == 0 {
		c.Slots = SlotsDefault
	}
	if c.Grace == 0 {
		c.Grace = GraceDefault
	}
	if c.Slots < 0 || c.Slots > SlotsMax || c.Grace < 0 {
		return c, toolbox{}, fault.New(fault.InvalidConfig, "worker of group %s: slots %d and grace %v: expected 1 to %d slots and no negative grace", c.Group, c.Slots, c.Grace, SlotsMax)
	}
	if n := len(tools); n+len(c.Earlier) == 0 || n > ToolsMax {
		return c, toolbox{}, fault.New(fault.InvalidConfig, "worker of group %s: %d tools, hooks and parsers, expected 1 to %d", c.Group, n, ToolsMax)
	}
	if n := len(c.Earlier); n > EarlierMax {
		return c, toolbox{}, fault.New(fault.InvalidConfig, "worker of group %s: %d versions from before, expected at most %d", c.Group, n, EarlierMax)
	}
	box := toolbox{now: map[handler]served{}, earlier: map[version]served{}}
	for _, t := range tools {
		s, err := c.serve(t)
		if err != nil {
			return c, toolbox{}, err
		}
		if _, twice := box.now[handlerOf(t)]; twice || t.Kind() == agent.AnnouncedHuman && box.has(agent.AnnouncedTool, t) || t.Kind() == agent.AnnouncedTool && box.has(agent.AnnouncedHuman, t) {
			return c, toolbox{}, fault.New(fault.InvalidConfig, "worker of group %s: %q is given twice; rename one", c.Group, t.Name())
		}
		box.now[handlerOf(t)] = s
	}
	for _, t := range c.Earlier {
		s, err := c.serve(t)
		if err != nil {
			return c, toolbox{}, err
		}
		box.earlier[version{handlerOf(t), s.hash}] = s
	}
	return c, box, nil
}

// has reports whether something of that kind has the name of t: a tool and a
// question of one name have one announcement.
func (b toolbox) has(kind agent.Announced, t tool.Tool) bool {
	_, ok := b.now[handler{kind, t.Name()}]
	return ok
}

func (c Config) serve(t tool.Tool) (served, error) {
	if err := t.Err(); err != nil {
		return served{}, err
	}
	a := t.Announcement(c.Group)
	return served{tool: t, announcement: a, hash: a.Hash()}, a.Check()
}
