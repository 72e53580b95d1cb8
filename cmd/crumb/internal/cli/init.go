package cli

import (
	"context"
	"errors"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/crumbmesh/crumbmesh/cmd/crumb/internal/local"
	"github.com/crumbmesh/crumbmesh/pkg/agent"
	"github.com/crumbmesh/crumbmesh/pkg/crumbs"
	"github.com/crumbmesh/crumbmesh/pkg/fault"
	"github.com/crumbmesh/crumbmesh/pkg/mesh"
	"github.com/crumbmesh/crumbmesh/pkg/mesh/access"
)

type initCommand struct {
	Dir      string   `help:"Project folder whose groups and providers get queues." type:"path" env:"CRUMB_DIR" placeholder:"DIR"`
	Group    []string `help:"Worker groups that get a queue, and how many of their calls may be in hand at once." placeholder:"NAME[=MAX]"`
	Provider []string `help:"Provider instances that get a queue, and how many of their calls may be in hand at once." placeholder:"NAME[=MAX]"`
	Replicas int      `help:"Copies of every stream: 1, 3 or 5 (default: as it is; for a new mesh 3 on a cluster, else 1)." env:"CRUMB_REPLICAS" placeholder:"N"`
	Size     string   `help:"What the streams may hold: standard (85 GiB in all) or small (6 GiB) (default: as it is; for a new mesh standard)." enum:",standard,small" default:"" env:"CRUMB_SIZE" placeholder:"SIZE"`

	authFlags

	KeepCrumbs time.Duration `help:"How long crumbs are kept; a run may take a fourteenth less, and its id is known for a day longer (default: as it is; for a new mesh 336h)." env:"CRUMB_KEEP_CRUMBS" placeholder:"DURATION"`
	KeepBlobs  time.Duration `help:"How long the values are kept that runs put aside (default: as it is; for a new mesh 720h)." env:"CRUMB_KEEP_BLOBS" placeholder:"DURATION"`
	KeepDead   time.Duration `help:"How long dead letters are kept (default: as it is; for a new mesh 720h)." env:"CRUMB_KEEP_DEAD" placeholder:"DURATION"`
}

// Help says what the flags do not.
func (initCommand) Help() string {
	return "May be repeated: what is there is updated, nothing is deleted, no message is lost. The group " + agent.DefaultGroup + " and the provider " + agent.ScriptProvider + " always get a queue. Services only look for what this makes. A limit of --group goes before the project's maxInFlight; a name without one keeps it."
}

// made is what `crumb init --json` prints.
type made struct {
	Replicas  int            `json:"replicas"`
	Keep      kept           `json:"keep"`
	Groups    map[string]int `json:"groups"` // maxInFlight; 0: the default
	Providers map[string]int `json:"providers"`
}

// kept is how long a mesh keeps what it stores.
type kept struct {
	Crumbs  string `json:"crumbs"`
	Blobs   string `json:"blobs"`
	Dead    string `json:"dead"`
	Records string `json:"records"` // of finished runs
}

func keeping(s mesh.Settings) kept {
	return kept{s.CrumbsAge.String(), s.BlobsAge.String(), s.DeadAge.String(), s.RunTTL.String()}
}

// Run makes the topology.
func (cmd initCommand) Run(i *invocation) (err error) {
	topology, err := cmd.topology(i)
	if err != nil {
		return err
	}
	if cmd.Auth != "" {
		return cmd.run(i, topology)
	}
	if cmd.TLS || cmd.Rotate != "" || cmd.Finish || len(cmd.TLSHost) > 0 {
		return fault.New(fault.InvalidConfig, "--tls, --tls-host, --rotate and --finish go with --auth DIR")
	}
	if !slices.Contains([]int{0, 1, 3, 5}, cmd.Replicas) {
		return fault.New(fault.InvalidConfig, "--replicas: expected 1, 3 or 5, got %d", cmd.Replicas)
	}
	conn, err := mesh.Connect(i.ctx, mesh.ConnectConfig{Server: i.globals.Server, Access: i.globals.access(), Name: "crumb init", Logger: i.log()})
	if err != nil {
		return err
	}
	defer conn.Close()
	defer func() { err = conn.Refused(err, access.RoleProvisioner) }()
	found, err := cmd.settle(i, conn)
	if err != nil {
		return err
	}
	if found {
		if err := errors.Join(spare(i.ctx, topology.Groups, agent.DefaultGroup, conn.HasGroup),
			spare(i.ctx, topology.Providers, agent.ScriptProvider, conn.HasProvider)); err != nil {
			return err
		}
	}
	if err := conn.Ensure(i.ctx, topology); err != nil {
		return err
	}
	if i.globals.JSON {
		return i.document(made{Replicas: conn.Settings.Replicas, Keep: keeping(conn.Settings), Groups: topology.Groups, Providers: topology.Providers})
	}
	i.say("the mesh is there on %s, with %d of each stream", conn.NATS.ConnectedUrlRedacted(), conn.Settings.Replicas)
	k := keeping(conn.Settings)
	i.say("kept      crumbs %s, blobs %s, dead letters %s, records of finished runs %s", k.Crumbs, k.Blobs, k.Dead, k.Records)
	for _, g := range slices.Sorted(maps.Keys(topology.Groups)) {
		i.say("group     %s", g)
	}
	for _, p := range slices.Sorted(maps.Keys(topology.Providers)) {
		i.say("provider  %s", p)
	}
	return nil
}

// settle decides what the streams are like: as asked, else as they are, else as
// suits the server.
func (cmd initCommand) settle(i *invocation, conn *mesh.Conn) (found bool, err error) {
	if found, err = conn.Adopt(i.ctx); err != nil {
		return found, err
	}
	if !found && conn.NATS.ConnectedClusterName() != "" {
		conn.Settings = conn.Settings.Cluster()
	}
	if cmd.Replicas > 0 {
		conn.Settings.Replicas = cmd.Replicas
	}
	switch cmd.Size {
	case "small":
		conn.Settings = conn.Settings.Small()
	case "standard":
		conn.Settings = conn.Settings.Standard()
	}
	cmd.keep(&conn.Settings)
	return found, conn.Settings.Check()
}

// keep changes the ages that were asked for.
func (cmd initCommand) keep(s *mesh.Settings) {
	if cmd.KeepCrumbs != 0 {
		*s = s.KeepCrumbs(cmd.KeepCrumbs)
	}
	if cmd.KeepBlobs != 0 {
		s.BlobsAge = cmd.KeepBlobs
	}
	if cmd.KeepDead != 0 {
		s.DeadAge = cmd.KeepDead
	}
}

func (cmd initCommand) topology(i *invocation) (mesh.Topology, error) {
	t := mesh.Topology{Groups: map[string]int{agent.DefaultGroup: 0}, Providers: map[string]int{agent.ScriptProvider: 0}}
	if cmd.Dir != "" {
		project, err := (folder{cmd.Dir}).load(i)
		if err != nil {
			return t, err
		}
		of := local.Topology(project)
		maps.Copy(t.Groups, of.Groups)
		maps.Copy(t.Providers, of.Providers)
	}
	if err := queues(t.Groups, "--group", "worker group", cmd.Group); err != nil {
		return t, err
	}
	return t, queues(t.Providers, "--provider", "provider instance", cmd.Provider)
}

// spare leaves the queues alone that nobody asked for and that are there: their
// limits may come from a project. A mesh of which a stream is missing, because an
// earlier init did not come to its end, has no queues on it to spare.
func spare(ctx context.Context, all map[string]int, name string, there func(context.Context, string) (bool, error)) error {
	if all[name] > 0 {
		return nil
	}
	has, err := there(ctx, name)
	if has {
		delete(all, name)
	}
	if fault.CodeOf(err) == fault.TopologyMissing {
		return nil
	}
	return err
}

// queues reads NAME[=MAX] into all. A name without a limit keeps that of the project.
func queues(all map[string]int, flag, kind string, words []string) error {
	for _, word := range words {
		name, limit, limited := strings.Cut(word, "=")
		if err := crumbs.CheckName(kind, name); err != nil {
			return err
		}
		if !limited {
			all[name] = max(0, all[name])
			continue
		}
		n, err := strconv.Atoi(limit)
		if err != nil || n < 1 {
			return fault.New(fault.InvalidConfig, "%s %s: expected NAME or NAME=MAX with a whole number from 1, got %q", flag, word, limit)
		}
		all[name] = n
	}
	return nil
}
