package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/crumbmesh/crumbmesh/pkg/decision"
	"github.com/crumbmesh/crumbmesh/test/chaos/internal/machine"
	"github.com/crumbmesh/crumbmesh/test/chaos/internal/nemesis"
	"github.com/crumbmesh/crumbmesh/test/chaos/internal/raw"
	"github.com/crumbmesh/crumbmesh/test/chaos/internal/sink"
)

const (
	replicas = 2 // of each service
	startMax = 60 * time.Second
	// serviceWait is how long a service that starts waits for NATS: longer than any
	// outage of a plan.
	serviceWait = "2m"
	// duplicateWindow is how long a stream remembers ids of messages: pauses of a
	// plan are longer, which those of two minutes, the default, would not be.
	duplicateWindow = time.Second
)

// place is a mesh that stands, with the clients' connection to it.
type place struct {
	*workshop
	name     string
	dir      string
	machine  *machine.Machine
	sink     *sink.Sink
	services []*machine.Process
	servers  []*machine.Process // nats-servers
	hosts    []*machine.Host    // of the servers, when they have some
	network  *machine.Network
	proxies  *machine.Proxies
	key      decision.Key
	nc       *nats.Conn
	js       jetstream.JetStream
	plan     func(seed uint64, length time.Duration) nemesis.Plan
}

func newPlace(w *workshop, name string) (*place, error) {
	p := &place{workshop: w, name: name, dir: w.path(name)}
	for _, dir := range []string{"logs", "store"} {
		if err := os.MkdirAll(filepath.Join(p.dir, dir), 0o700); err != nil {
			return nil, err
		}
	}
	var err error
	if p.sink, err = sink.Listen(); err != nil {
		return nil, err
	}
	if p.key, err = decision.LoadOrCreate(p.keyFile()); err != nil {
		return nil, err
	}
	p.machine = machine.New(filepath.Join(p.dir, "logs"))
	return p, nil
}

func (p *place) keyFile() string { return filepath.Join(p.dir, "key") }

// close takes the place down.
func (p *place) close() {
	if p.nc != nil {
		p.nc.Close()
	}
	p.machine.Stop()
	p.sink.Close()
	if p.network != nil {
		if err := p.network.Close(); err != nil {
			p.say("chaos: the network: %v", err)
		}
	}
}

// server keeps a nats-server with this configuration.
func (p *place) server(name, config string, wrap func(...string) []string) error {
	file := filepath.Join(p.dir, name+".conf")
	if err := os.WriteFile(file, []byte(config), 0o600); err != nil {
		return err
	}
	args := []string{p.bin("nats-server"), "-c", file}
	if wrap != nil {
		args = wrap(args...)
	}
	p.servers = append(p.servers, p.machine.Keep(machine.Command{Name: name, Args: args}))
	return nil
}

func (p *place) store(name string) string { return filepath.Join(p.dir, "store", name) }

// mesh makes the topology, starts the services and applies the project. direct is
// where the clients find NATS, through where the services do.
func (p *place) mesh(ctx context.Context, direct, through string, copies int) error {
	ctx, cancel := context.WithTimeout(ctx, startMax)
	defer cancel()
	var err error
	if p.nc, p.js, err = raw.Connect(direct, "chaos"); err != nil {
		return err
	}
	if err := p.crumb(ctx, direct, "init", "--size", "small", "--replicas", fmt.Sprint(copies), "--dir", p.path("project")); err != nil {
		return err
	}
	if err := until(ctx, func() error { return p.shortWindow(ctx) }); err != nil {
		return err
	}
	for i := range replicas {
		if err := p.replica(string(rune('a'+i)), through); err != nil {
			return err
		}
	}
	for _, s := range p.services {
		if !s.AwaitReady(ctx) {
			return fmt.Errorf("%s is not ready after %v", s.Name, startMax)
		}
	}
	return p.crumb(ctx, direct, "agents", "apply", p.path("project"))
}

// replica starts one of each service.
func (p *place) replica(suffix, server string) error {
	env := []string{"NATS_URL=" + server, "CRUMB_WAIT=" + serviceWait, "CRUMB_APPROVALS_PUBKEY=" + p.key.Public(), "CHAOS_SINK=" + p.sink.URL,
		"PATH=" + p.path("bin") + string(os.PathListSeparator) + os.Getenv("PATH")}
	for _, c := range []struct {
		name string
		args []string
	}{
		{"orchestrator", []string{p.bin("crumb"), "orchestrator"}},
		{"modelgw", []string{p.bin("crumb"), "modelgw"}},
		{"approvals", []string{p.bin("crumb"), "approvals", "--key-file", p.keyFile()}},
		{"toolexec", []string{p.bin("crumb"), "toolexec", "--dir", p.path("project")}},
		{"till", []string{p.bin("tools"), "worker"}},
	} {
		port, err := machine.FreePort()
		if err != nil {
			return err
		}
		address := "127.0.0.1:" + port
		p.services = append(p.services, p.machine.Keep(machine.Command{
			Name: c.name + "-" + suffix, Args: c.args, Env: append([]string{"CRUMB_HTTP=" + address, "CHAOS_HTTP=" + address}, env...),
			Ready: "http://" + address + "/readyz",
		}))
	}
	return nil
}

// crumb runs a command of the product until it works: its server may be starting.
func (p *place) crumb(ctx context.Context, server string, args ...string) error {
	return until(ctx, func() error {
		cmd := exec.CommandContext(ctx, p.bin("crumb"), args...)
		cmd.Env = append(os.Environ(), "NATS_URL="+server)
		if out, err := cmd.CombinedOutput(); err != nil {
			return fmt.Errorf("crumb %s: %w\n%s", strings.Join(args, " "), err, out)
		}
		return nil
	})
}

// until repeats what fails while a mesh starts.
func until(ctx context.Context, do func() error) error {
	const pause = 500 * time.Millisecond
	for {
		err := do()
		if err == nil {
			return nil
		}
		select {
		case <-ctx.Done():
			return errors.Join(ctx.Err(), err)
		case <-time.After(pause):
		}
	}
}

// shortWindow lets every stream forget ids of messages soon.
func (p *place) shortWindow(ctx context.Context) error {
	var all []jetstream.StreamConfig
	list := p.js.ListStreams(ctx)
	for info := range list.Info() {
		all = append(all, info.Config)
	}
	if err := list.Err(); err != nil {
		return err
	}
	for _, c := range all {
		c.Duplicates = duplicateWindow
		if _, err := p.js.UpdateStream(ctx, c); err != nil {
			return fmt.Errorf("duplicate window of %s: %w", c.Name, err)
		}
	}
	return nil
}

func names(all []*machine.Process) []string {
	var out []string
	for _, p := range all {
		out = append(out, p.Name)
	}
	return out
}
