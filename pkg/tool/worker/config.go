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
	GraceDefault = 30 * time.Second
)

// Config describes a worker.
type Config struct {
	Group string        // queue it serves
	Name  string        // id of this process, unique; made up when empty
	Slots int           // calls at once; SlotsDefault when 0
	Grace time.Duration // how long calls may go on after the worker was told to stop; GraceDefault when 0

	// Verify checks the signature of a person's decision and returns
	// DECISION_INVALID. Without it calls that needed an approval are refused.
	Verify func(crumbs.Decision) error

	// Ready, when set, is called once the worker is announced and takes calls.
	Ready func()
}

// served is a tool with what the worker announces of it.
type served struct {
	tool         tool.Tool
	announcement agent.Announcement
	hash         string
}

// complete fills the defaults in and checks the tools. It returns INVALID_NAME,
// INVALID_CONFIG or the fault of the first wrong declaration.
func (c Config) complete(tools []tool.Tool) (Config, map[string]served, error) {
	if err := crumbs.CheckName("group", c.Group); err != nil {
		return c, nil, err
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
		return c, nil, fault.New(fault.InvalidConfig, "worker of group %s: slots %d and grace %v: expected 1 to %d slots and no negative grace", c.Group, c.Slots, c.Grace, SlotsMax)
	}
	if len(tools) == 0 || len(tools) > ToolsMax {
		return c, nil, fault.New(fault.InvalidConfig, "worker of group %s: %d tools, expected 1 to %d", c.Group, len(tools), ToolsMax)
	}
	byName := map[string]served{}
	for _, t := range tools {
		if err := t.Err(); err != nil {
			return c, nil, err
		}
		if _, twice := byName[t.Name()]; twice {
			return c, nil, fault.New(fault.InvalidConfig, "worker of group %s: tool %q is given twice; rename one", c.Group, t.Name())
		}
		a := t.Announcement(c.Group)
		if err := a.Check(); err != nil {
			return c, nil, err
		}
		byName[t.Name()] = served{tool: t, announcement: a, hash: a.Hash()}
	}
	return c, byName, nil
}
