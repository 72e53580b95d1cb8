package cli

import (
	"strconv"
	"strings"

	"github.com/crumbmesh/crumbmesh/cmd/crumb/internal/render"
	"github.com/crumbmesh/crumbmesh/pkg/crumbs"
)

type toolsCommand struct {
	List toolsListCommand `cmd:"" help:"List the tools, hooks and parsers that workers announced."`
}

type toolsListCommand struct{}

// Help says what the flags do not.
func (toolsListCommand) Help() string {
	return "WORKERS counts the workers of the group that were seen in the last 15 seconds: one that was killed is counted until then. A tool without workers stays listed, its calls wait. Tools of agents that crumb dev serves no more are taken off."
}

// Run prints the tools. A group without workers keeps its tools: calls queue.
func (toolsListCommand) Run(i *invocation) error {
	mesh, err := i.connect()
	if err != nil {
		return err
	}
	defer mesh.Close()
	list, err := mesh.Tools(i.ctx)
	if err != nil {
		return err
	}
	table := render.Table{Header: []string{"GROUP", "KIND", "NAME", "EFFECT", "WORKERS", "DESCRIPTION"}}
	for _, t := range list.Tools {
		if i.globals.JSON {
			if err := i.document(t); err != nil {
				return err
			}
			continue
		}
		table.Add(t.Group, kind(t), t.Handler, string(t.Effect), strconv.Itoa(t.Workers), t.Description)
	}
	if !i.globals.JSON && len(list.Tools) == 0 {
		i.say("no tools announced")
	}
	return table.Write(i.std.Out)
}

// kind is what was announced, of a hook with the points it may stand at.
func kind(t crumbs.ToolView) string {
	if len(t.Points) == 0 {
		return t.Kind
	}
	return t.Kind + " " + strings.Join(t.Points, ",")
}
