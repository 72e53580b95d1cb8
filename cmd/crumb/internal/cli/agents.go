package cli

import (
	"errors"
	"maps"
	"path/filepath"
	"slices"
	"strings"

	"github.com/crumbmesh/crumbmesh/cmd/crumb/internal/local"
	"github.com/crumbmesh/crumbmesh/cmd/crumb/internal/render"
	"github.com/crumbmesh/crumbmesh/pkg/agent"
	"github.com/crumbmesh/crumbmesh/pkg/crumbs"
)

type agentsCommand struct {
	List     agentsListCommand     `cmd:"" help:"List the agents that are applied."`
	Validate agentsValidateCommand `cmd:"" help:"Check a project folder; every fault with file and line."`
	Apply    agentsApplyCommand    `cmd:"" help:"Validate a project folder and make it the one that serves."`
}

type agentsListCommand struct{}

// Run prints the agents.
func (agentsListCommand) Run(i *invocation) error {
	mesh, err := i.connect()
	if err != nil {
		return err
	}
	defer mesh.Close()
	list, err := mesh.Agents(i.ctx)
	if err != nil {
		return err
	}
	table := render.Table{Header: []string{"AGENT", "REVISION", "MODEL", "TOOLS", "DESCRIPTION"}}
	for _, a := range list.Agents {
		if i.globals.JSON {
			if err := i.document(a); err != nil {
				return err
			}
			continue
		}
		table.Add(string(a.AgentID), a.Revision, a.Model.Provider+"/"+a.Model.Model, strings.Join(a.Tools, " "), a.Description)
	}
	if !i.globals.JSON && len(list.Agents) == 0 {
		i.say("%s", i.calls("no agents applied; `crumb agents apply DIR` adds some"))
	}
	return table.Write(i.std.Out)
}

// folder is the argument of the commands on a project folder.
type folder struct {
	Dir string `arg:"" help:"Project folder: crumb.yaml and agents/."`
}

// load reads the folder; warnings go to standard error.
func (f folder) load(i *invocation) (*agent.Project, error) {
	project, err := agent.Load(f.Dir)
	if err != nil {
		return nil, beneath(f.Dir, err)
	}
	for _, w := range project.Warnings {
		i.say("crumb: warning: %s", render.OneLine(filepath.Join(f.Dir, w)))
	}
	return project, nil
}

// beneath names the files of faults as seen from here.
func beneath(dir string, err error) error {
	var faults agent.Faults
	if !errors.As(err, &faults) {
		return err
	}
	named := slices.Clone(faults)
	for n := range named {
		named[n].File = filepath.Join(dir, named[n].File)
	}
	return named
}

type agentsValidateCommand struct {
	folder
}

// validated is what `agents validate --json` prints.
type validated struct {
	Agents   map[crumbs.AgentID]string `json:"agents"` // revision by agent
	Warnings []string                  `json:"warnings,omitempty"`
}

// Run checks the folder. It needs no mesh.
func (cmd agentsValidateCommand) Run(i *invocation) error {
	project, err := cmd.load(i)
	if err != nil {
		return err
	}
	if i.globals.JSON {
		v := validated{Agents: map[crumbs.AgentID]string{}, Warnings: project.Warnings}
		for _, d := range project.Agents {
			v.Agents[d.ID] = d.Revision()
		}
		return i.document(v)
	}
	for _, d := range project.Agents {
		if err := i.print("%s %s", d.ID, d.Revision()); err != nil {
			return err
		}
	}
	return nil
}

type agentsApplyCommand struct {
	folder
	DryRun bool `help:"Let the mesh check everything, store nothing."`
}

// Run applies the folder as one revision.
func (cmd agentsApplyCommand) Run(i *invocation) error {
	project, err := cmd.load(i)
	if err != nil {
		return err
	}
	request, err := local.Application(project)
	if err != nil {
		return err
	}
	request.DryRun = cmd.DryRun
	mesh, err := i.connect()
	if err != nil {
		return err
	}
	defer mesh.Close()
	reply, err := mesh.Apply(i.ctx, request)
	if err != nil {
		return err
	}
	if i.globals.JSON {
		return i.document(reply)
	}
	for _, id := range slices.Sorted(maps.Keys(reply.Agents)) {
		if err := i.print("%s %s", id, reply.Agents[id]); err != nil {
			return err
		}
	}
	switch {
	case cmd.DryRun:
		i.say("project %s would be applied", reply.Revision)
	case reply.Changed:
		i.say("project %s applied", reply.Revision)
	default:
		i.say("project %s served already", reply.Revision)
	}
	return nil
}
