package toolexec

import (
	"context"
	"log/slog"
	"maps"
	"os"
	"slices"
	"strings"

	"github.com/crumbmesh/crumbmesh/pkg/agent"
	"github.com/crumbmesh/crumbmesh/pkg/fault"
	"github.com/crumbmesh/crumbmesh/pkg/mesh"
	"github.com/crumbmesh/crumbmesh/pkg/secret"
	"github.com/crumbmesh/crumbmesh/pkg/tool"
	"github.com/crumbmesh/crumbmesh/pkg/tool/worker"
)

// Run serves until ctx ends, then lets the calls in hand finish (at most
// Config.Grace) and returns nil. It fails before it serves with the faults of
// the project folder (agent.Faults), INVALID_CONFIG, INVALID_NAME,
// TOPOLOGY_MISSING naming the command that repairs it, or UNAVAILABLE. The
// connection stays open.
func Run(ctx context.Context, cfg Config, conn *mesh.Conn) error {
	cfg, err := cfg.complete()
	if err != nil {
		return err
	}
	tools, err := cfg.tools(conn)
	if err != nil {
		return err
	}
	return worker.Run(ctx, cfg.worker(conn), conn, tools...)
}

// tools are the commands and subjects of the folder that belong to the group, then the Go
// tools. It warns of variables whose values are too short to be kept secret.
func (c Config) tools(conn *mesh.Conn) ([]tool.Tool, error) {
	project := c.Project
	if project == nil {
		if c.Dir == "" {
			return c.Tools, nil
		}
		var err error
		if project, err = agent.Load(c.Dir); err != nil {
			return nil, err
		}
	}
	var out []tool.Tool
	groups := map[string]bool{}
	for _, e := range project.ExecTools() {
		groups[e.Announcement.Group] = true
		if e.Announcement.Group == c.Group {
			out = append(out, command(conn, e))
			warn(conn.Log, e)
		}
	}
	if len(out)+len(c.Tools)+len(c.Earlier) == 0 {
		return nil, fault.New(fault.InvalidConfig, "toolexec: no exec tool, hook or parser in %s is in group %q; its groups are: %s",
			project.Dir, c.Group, strings.Join(slices.Sorted(maps.Keys(groups)), ", "))
	}
	return append(out, c.Tools...), nil
}

// warn says which variables of a command hold values that are not masked.
func warn(log *slog.Logger, e agent.ExecTool) {
	for _, name := range e.Env {
		if v, ok := os.LookupEnv(name); ok && v != "" && !secret.Maskable(v) {
			log.Warn("the value of a declared variable is too short to be masked in results", "tool", e.Announcement.Handler, "variable", name, "bytesMin", secret.LengthMin)
		}
	}
}
