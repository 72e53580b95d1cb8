package toolexec

import (
	"errors"
	"time"

	"github.com/crumbmesh/crumbmesh/pkg/agent"
	"github.com/crumbmesh/crumbmesh/pkg/crumbs"
	"github.com/crumbmesh/crumbmesh/pkg/fault"
	"github.com/crumbmesh/crumbmesh/pkg/mesh"
	"github.com/crumbmesh/crumbmesh/pkg/tool"
	"github.com/crumbmesh/crumbmesh/pkg/tool/worker"
)

// Config of a tool executor.
type Config struct {
	// Dir is the project folder whose commands are served; none when empty.
	Dir string
	// Project, when set, is what is served instead of what Dir holds by now.
	Project *agent.Project
	// Group is the queue to serve; agent.DefaultGroup when empty. It needs its
	// consumer (`crumb init`, `crumb agents apply`).
	Group string
	// Earlier are tools, hooks and parsers from before an edit of the folder, at most
	// worker.EarlierMax of the group: calls that were made for them run as they did.
	// What cannot be served any more is left out.
	Earlier []agent.ExecTool
	// Tools are Go tools to serve beside the commands.
	Tools []tool.Tool

	Name  string        // id of this process, unique; made up when empty
	Slots int           // calls at once; worker.SlotsDefault when 0
	Grace time.Duration // how long calls may go on when the service stops; worker.GraceDefault when 0

	// Verify checks the signature of a person's decision; required.
	Verify func(crumbs.Decision) error
	// Ready, when set, is called once calls are taken.
	Ready func()
	// Health, when set, receives the readiness check.
	Health func(check func() error)
}

func (c Config) complete() (Config, error) {
	if c.Verify == nil {
		return c, fault.New(fault.InvalidConfig, "toolexec: no key to verify decisions; set CRUMB_APPROVALS_PUBKEY")
	}
	if c.Group == "" {
		c.Group = agent.DefaultGroup
	}
	return c, crumbs.CheckName("group", c.Group)
}

func (c Config) worker(conn *mesh.Conn) worker.Config {
	var earlier []tool.Tool
	for _, e := range c.Earlier {
		if e.Announcement.Group != c.Group {
			continue
		}
		t := command(conn, e)
		if err := errors.Join(t.Err(), e.Announcement.Check()); err != nil {
			conn.Log.Warn("a version from before cannot be served: runs that began with it fail", "tool", e.Announcement.Handler, "error", err)
			continue
		}
		earlier = append(earlier, t)
	}
	return worker.Config{Group: c.Group, Earlier: earlier, Name: c.Name, Slots: c.Slots, Grace: c.Grace, Verify: c.Verify, Ready: c.Ready, Health: c.Health}
}
