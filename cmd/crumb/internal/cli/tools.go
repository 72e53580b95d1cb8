package cli

import (
	"strconv"

	"github.com/crumbmesh/crumbmesh/cmd/crumb/internal/render"
)

type toolsCommand struct {
	List toolsListCommand `cmd:"" help:"List the tools that workers announced."`
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
	table := render.Table{Header: []string{"GROUP", "TOOL", "EFFECT", "WORKERS", "DESCRIPTION"}}
	for _, t := range list.Tools {
		if i.globals.JSON {
			if err := i.document(t); err != nil {
				return err
			}
			continue
		}
		table.Add(t.Group, t.Handler, string(t.Effect), strconv.Itoa(t.Workers), t.Description)
	}
	if !i.globals.JSON && len(list.Tools) == 0 {
		i.say("no tools announced")
	}
	return table.Write(i.std.Out)
}
