package cli

import (
	"context"
	"errors"
	"log/slog"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"github.com/crumbmesh/crumbmesh/cmd/crumb/internal/local"
	"github.com/crumbmesh/crumbmesh/cmd/crumb/internal/reload"
	"github.com/crumbmesh/crumbmesh/cmd/crumb/internal/render"
	"github.com/crumbmesh/crumbmesh/pkg/agent"
	"github.com/crumbmesh/crumbmesh/pkg/crumbs"
	"github.com/crumbmesh/crumbmesh/pkg/fault"
	"github.com/crumbmesh/crumbmesh/pkg/process"
)

// storeFolder is where `crumb dev` keeps its mesh, in the project's folder.
const storeFolder = ".crumbmesh"

const portMax = 65535

type devCommand struct {
	Dir   string `arg:"" optional:"" default:"." help:"Project folder (.)."`
	Store string `help:"Folder of the mesh's data (DIR/.crumbmesh)." placeholder:"DIR"`
	Port  int    `help:"Of the NATS listener on 127.0.0.1; 0 is any free one." default:"4222"`
	HTTP  string `name:"http" help:"Address of /livez, /readyz and /metrics." default:"127.0.0.1:8480" placeholder:"ADDR"`
}

// Help says what the flags do not.
func (devCommand) Help() string {
	return "Runs nats-server and all services in one process, applies the folder's agents, serves its exec tools, keeps the commands of its groups running and follows edits of crumb.yaml and agents/, and of what the groups' commands are made of (`watch` in crumb.yaml): a faulty edit changes nothing and prints every fault, a command that does not start leaves the one before it serving. One folder of data takes one mesh at a time. SIGINT drains, a second one ends at once."
}

// served is what `crumb dev --json` prints once it serves, and after each edit.
type served struct {
	Server   string                    `json:"server"`
	HTTP     string                    `json:"http"`
	Store    string                    `json:"store"`
	Revision string                    `json:"revision"`
	Agents   map[crumbs.AgentID]string `json:"agents"`
}

// Run serves the folder until the process is told to stop.
func (cmd devCommand) Run(i *invocation) error {
	if cmd.Port < 0 || cmd.Port > portMax {
		return fault.New(fault.InvalidConfig, "--port: expected 0 to %d, got %d", portMax, cmd.Port)
	}
	port := cmd.Port
	if port == 0 {
		port = local.AnyPort
	}
	if cmd.Store == "" {
		cmd.Store = filepath.Join(cmd.Dir, storeFolder)
	}
	project, err := folder{cmd.Dir}.load(i)
	if err != nil {
		return err
	}
	changes, err := reload.Changes(i.ctx, cmd.Dir)
	if err != nil {
		return err
	}
	output := &devOutput{inv: i}
	mesh, err := local.Start(i.ctx, local.Config{Store: cmd.Store, Port: port, Log: i.log(), Output: output.line, Worker: output.worker})
	if err != nil {
		return err
	}
	defer mesh.Stop()
	probes, err := process.Listen(httpFlag, cmd.HTTP, mesh.Health, mesh.Metrics()) // behind the store's lock, which says more of another mesh
	if err != nil {
		return err
	}
	defer probes.Close()
	now, err := mesh.Serve(i.ctx, project)
	if err != nil {
		return err
	}
	defer i.say("stopping: calls in hand finish")
	where := served{Server: mesh.URL(), HTTP: "http://" + probes.Address, Store: cmd.Store}
	if err := cmd.announce(i, where, now, project); err != nil {
		return err
	}
	return cmd.follow(i, mesh, changes, where)
}

// announce says where everything is.
func (cmd devCommand) announce(i *invocation, where served, now crumbs.AgentsApplyReply, project *agent.Project) error {
	if i.globals.JSON {
		return cmd.revision(i, where, now)
	}
	i.say("mesh    %s", where.Server)
	i.say("health  %s/livez /readyz /metrics", where.HTTP)
	i.say("store   %s", where.Store)
	if err := cmd.revision(i, where, now); err != nil {
		return err
	}
	for _, name := range slices.Sorted(maps.Keys(project.Groups)) {
		g := project.Groups[name]
		if len(g.Command) == 0 {
			continue
		}
		sources := "starts anew when " + strings.Join(g.Watch, ", ") + " change"
		if len(g.Watch) == 0 {
			sources = "its sources are not watched: name them in groups." + name + ".watch of crumb.yaml"
		}
		i.say("worker  [%s] %s   (%s)", name, render.OneLine(strings.Join(g.Command, " ")), render.OneLine(sources))
	}
	to := ""
	if cmd.Port != defaultPort {
		to = "--server " + where.Server + " "
	}
	i.say("try     crumb %srun AGENT --input '{…}'   or   crumb %swatch --all", to, to)
	return nil
}

// defaultPort is where the command line looks for a mesh.
const defaultPort = 4222

func (cmd devCommand) revision(i *invocation, where served, now crumbs.AgentsApplyReply) error {
	where.Revision, where.Agents = now.Revision, now.Agents
	if i.globals.JSON {
		return i.document(where)
	}
	for _, id := range slices.Sorted(maps.Keys(now.Agents)) {
		i.say("agent   %s %s", id, now.Agents[id])
	}
	return nil
}

// follow applies edits until the process is told to stop or a service failed.
func (cmd devCommand) follow(i *invocation, mesh *local.Mesh, changes <-chan struct{}, where served) error {
	last := ""
	for {
		select {
		case <-i.ctx.Done():
			return nil
		case err := <-mesh.Failed():
			return err
		case _, ok := <-changes:
			if !ok {
				return nil
			}
			now, err := cmd.edited(i, mesh)
			if errors.Is(err, context.Canceled) {
				return nil
			}
			if err != nil {
				if last != err.Error() {
					i.warn(err)
					i.say("crumb: the edit is not applied; what served before goes on")
				}
				last = err.Error()
				continue
			}
			if last != "" || now.Changed {
				if err := cmd.revision(i, where, now); err != nil {
					return err
				}
			}
			last = ""
		}
	}
}

func (cmd devCommand) edited(i *invocation, mesh *local.Mesh) (crumbs.AgentsApplyReply, error) {
	project, err := folder{cmd.Dir}.load(i)
	if err != nil {
		return crumbs.AgentsApplyReply{}, err
	}
	return mesh.Serve(i.ctx, project)
}

// log is what services say that a person should know.
func (i *invocation) log() *slog.Logger {
	return slog.New(slog.NewTextHandler(i.std.Err, &slog.HandlerOptions{Level: slog.LevelWarn}))
}

// devOutput writes the output of groups' commands and what becomes of them, one line
// at a time.
type devOutput struct {
	inv *invocation
	mu  sync.Mutex
}

func (o *devOutput) line(group, line string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.inv.say("[%s] %s", group, render.OneLine(line))
}

func (o *devOutput) worker(group, news string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.inv.say("worker  [%s] %s", group, news)
}
