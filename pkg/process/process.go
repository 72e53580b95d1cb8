package process

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"sync"
	"time"

	"github.com/crumbmesh/crumbmesh/pkg/fault"
	"github.com/crumbmesh/crumbmesh/pkg/mesh"
	"github.com/crumbmesh/crumbmesh/pkg/secret"
	"github.com/crumbmesh/crumbmesh/pkg/telemetry"
)

const (
	// WaitDefault is how long a process waits for NATS and the topology.
	WaitDefault = 30 * time.Second
	// flushMax bounds how long the last acks may take when the process stops.
	flushMax   = 5 * time.Second
	startPause = time.Second // between two attempts to start
)

// Config of a process.
type Config struct {
	Service string        // its name: of traces, metrics, logs and the connection
	HTTP    string        // address of the probes; "": none
	Setting string        // what whoever sets HTTP calls it
	Wait    time.Duration // for NATS and the topology; WaitDefault when 0
	Mesh    mesh.ConnectConfig
	Log     *slog.Logger
	Parent  *os.File // standard input, at whose end whoever started the process is gone and it drains: Parent(os.Stdin); nil: nobody is waited for
	// Telemetry begins to export what the process tells of itself, export.Start of
	// pkg/telemetry/export; without it there is neither /metrics nor a trace.
	Telemetry Telemetry
}

// Telemetry begins to export what a process tells of itself, none of the secrets
// in it. What it returns has a Stop, also beside an error.
type Telemetry func(ctx context.Context, service string, secrets *secret.Book) (telemetry.Process, error)

// none exports nothing.
func none(context.Context, string, *secret.Book) (telemetry.Process, error) {
	return telemetry.Process{Stop: func() {}}, nil
}

// Hooks are what a service tells its process, and what it is told of it.
type Hooks struct {
	Ready  func()                   // it serves
	Health func(check func() error) // how to ask whether it serves
	Traced bool                     // spans are exported
}

// Service serves until ctx ends, then drains. It returns TOPOLOGY_MISSING or
// UNAVAILABLE when it cannot start yet.
type Service func(ctx context.Context, conn *mesh.Conn, h Hooks) error

// Run runs a service until ctx ends, or Parent does, and it has drained, which is
// nil. It fails with what kept the service from starting, or ended it. Meanwhile a
// write to an output that nobody reads fails and does not end the process.
func Run(ctx context.Context, cfg Config, service Service) error {
	if cfg.Wait == 0 {
		cfg.Wait = WaitDefault
	}
	if cfg.Mesh.Secrets == nil {
		cfg.Mesh.Secrets = secret.NewBook(nil)
	}
	if cfg.Telemetry == nil {
		cfg.Telemetry = none
	}
	cfg.Log = cfg.Mesh.Secrets.Logger(cfg.Log)
	defer outliving()()
	if cfg.Parent != nil {
		var stop context.CancelFunc
		ctx, stop = attached(ctx, cfg.Parent, cfg.Log)
		defer stop()
	}
	observed, err := cfg.Telemetry(ctx, cfg.Service, cfg.Mesh.Secrets)
	defer observed.Stop()
	if err != nil {
		return err
	}
	p := &process{cfg: cfg, traced: observed.Traced, reason: fault.New(fault.Unavailable, "starting")}
	if cfg.HTTP != "" {
		probes, err := Listen(cfg.Setting, cfg.HTTP, p.health, observed.Metrics)
		if err != nil {
			return err
		}
		defer probes.Close()
		cfg.Log.Info("probes", "http", "http://"+probes.Address)
	}
	defer context.AfterFunc(ctx, func() {
		p.because(fault.New(fault.ShuttingDown, "draining"))
		cfg.Log.Info("draining")
	})()
	return p.loop(ctx, func(ctx context.Context) error { return p.attempt(ctx, service) })
}

// process is a service with what is known of its state.
type process struct {
	cfg    Config
	traced bool

	mu     sync.Mutex
	reason error // why it does not serve, whatever its check says
	check  func() error
	served bool // it was ready once
}

// loop starts the service again while it cannot start because NATS or the
// topology is not there yet.
func (p *process) loop(ctx context.Context, attempt func(context.Context) error) error {
	until := time.Now().Add(p.cfg.Wait)
	said := ""
	for {
		err := attempt(ctx)
		if ctx.Err() != nil {
			return p.stopped(err)
		}
		if err == nil {
			err = fault.New(fault.InternalError, "%s ended by itself", p.cfg.Service)
		}
		if p.wasServed() || !mayCome(err) || time.Now().After(until) {
			return err
		}
		p.because(err)
		if err.Error() != said {
			said = err.Error()
			p.cfg.Log.Warn("waiting for "+missing(err), "error", err, "for", time.Until(until).Round(time.Second))
		}
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(startPause):
		}
	}
}

// stopped is the end after a signal: a service that only could not start was
// stopped as asked.
func (p *process) stopped(err error) error {
	if err != nil && (errors.Is(err, context.Canceled) || mayCome(err)) {
		err = nil
	}
	return err
}

// mayCome reports whether waiting can mend it.
func mayCome(err error) bool {
	code := fault.CodeOf(err)
	return code == fault.Unavailable || code == fault.TopologyMissing
}

// missing is what a process that may start later waits for.
func missing(err error) string {
	if fault.CodeOf(err) == fault.TopologyMissing {
		return "the topology"
	}
	return "NATS"
}

func (p *process) attempt(ctx context.Context, service Service) error {
	conn, err := mesh.Connect(ctx, p.cfg.Mesh)
	if err != nil {
		return err
	}
	defer conn.Close()
	err = service(ctx, conn, Hooks{
		Ready: func() { p.ready(conn) },
		Health: func(check func() error) {
			p.mu.Lock()
			defer p.mu.Unlock()
			p.check = check
		},
		Traced: p.traced,
	})
	if flushErr := flush(conn); flushErr != nil && err == nil {
		p.cfg.Log.Warn("the last acknowledgements may be lost; what they settled is repeated", "error", flushErr)
	}
	return err
}

// flush waits for the server to have the last acknowledgements, when there is one.
func flush(conn *mesh.Conn) error {
	if !conn.NATS.IsConnected() {
		return fault.New(fault.Unavailable, "not connected to NATS")
	}
	return conn.NATS.FlushTimeout(flushMax)
}

func (p *process) ready(conn *mesh.Conn) {
	p.mu.Lock()
	p.served, p.reason = true, nil
	p.mu.Unlock()
	p.cfg.Log.Info("ready", "server", conn.NATS.ConnectedUrlRedacted(), "version", mesh.Version)
}

func (p *process) because(reason error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.reason = reason
}

func (p *process) wasServed() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.served
}

// health returns why the process does not serve, nil when it does.
func (p *process) health() error {
	p.mu.Lock()
	reason, check := p.reason, p.check
	p.mu.Unlock()
	if reason != nil || check == nil {
		return reason
	}
	return check()
}
