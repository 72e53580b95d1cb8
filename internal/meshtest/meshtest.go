// Package meshtest starts a real nats-server with JetStream for one test, also
// inside a testing/synctest bubble, where virtual time drives AckWait, schedules
// and TTLs (Bubble).
package meshtest

import (
	"context"
	"log/slog"
	"net"
	"os"
	"sync"
	"testing"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"go.opentelemetry.io/otel/metric"
	"go.opentelemetry.io/otel/trace"

	"github.com/crumbmesh/crumbmesh/pkg/mesh"
	"github.com/crumbmesh/crumbmesh/pkg/mesh/embedded"
)

// Mesh is a server with its topology and one connection.
type Mesh struct {
	Conn    *mesh.Conn
	Server  *embedded.Server // of the moment; nil in a cluster
	Virtual bool             // time is that of a bubble
	Guard   *Guard           // of StartGuarded

	settings  mesh.Settings
	telemetry Telemetry
	log       *slog.Logger
	store     string
	nodes     []*server.Server // of a cluster
	t         testing.TB

	mu    sync.Mutex
	conns []*mesh.Conn
}

// Option changes how a Mesh starts.
type Option func(*options)

type options struct {
	settings  mesh.Settings
	topology  mesh.Topology
	telemetry Telemetry
	listen    bool
	log       *slog.Logger
}

// Telemetry says where the connection of that name measures and traces, as if it
// were a process of its own.
type Telemetry func(name string) (metric.MeterProvider, trace.TracerProvider)

// WithTelemetry observes every connection.
func WithTelemetry(t Telemetry) Option { return func(o *options) { o.telemetry = t } }

// WithSettings changes the settings of the topology.
func WithSettings(change func(*mesh.Settings)) Option {
	return func(o *options) { change(&o.settings) }
}

// WithLog gives every connection this log.
func WithLog(l *slog.Logger) Option { return func(o *options) { o.log = l } }

// WithTopology names groups and providers.
func WithTopology(groups, providers []string) Option {
	return func(o *options) {
		for _, g := range groups {
			o.topology.Groups[g] = 0
		}
		for _, p := range providers {
			o.topology.Providers[p] = 0
		}
	}
}

// WithListener opens a TCP port on the loopback, for clients of other processes.
func WithListener() Option { return func(o *options) { o.listen = true } }

// Start starts a mesh whose server and connection end with the test.
func Start(t testing.TB, opts ...Option) *Mesh {
	t.Helper()
	o := newOptions(opts)
	m := &Mesh{Virtual: inBubble(), settings: o.settings, telemetry: o.telemetry, log: o.log, store: t.TempDir(), t: t}
	if !m.Virtual {
		alone.enterReal()
		t.Cleanup(alone.leaveReal)
	}
	port := 0
	if o.listen {
		port = -1
	}
	s, err := embedded.Start(embedded.Config{Store: m.store, Port: port})
	if err != nil {
		t.Fatal(err)
	}
	m.Server = s
	t.Cleanup(m.stop)
	m.begin(o)
	return m
}

func newOptions(opts []Option) options {
	o := options{settings: mesh.DevSettings(), log: Logger(nil), topology: mesh.Topology{Groups: map[string]int{}, Providers: map[string]int{}}}
	for _, opt := range opts {
		opt(&o)
	}
	return o
}

// begin makes the topology over the first connection.
func (m *Mesh) begin(o options) {
	m.t.Helper()
	m.Conn = m.Connect("test")
	if err := m.Conn.Ensure(context.Background(), o.topology); err != nil {
		m.t.Fatal(err)
	}
}

// Observe is WithTelemetry for the connections from now on.
func (m *Mesh) Observe(t Telemetry) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.telemetry = t
}

func (m *Mesh) observed() Telemetry {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.telemetry
}

// Store is the folder of the server's files.
func (m *Mesh) Store() string { return m.store }

// Settings are those the topology was made with.
func (m *Mesh) Settings() mesh.Settings { return m.settings }

// Connect returns one more connection, closed with the test. The wires change what
// it sends.
func (m *Mesh) Connect(name string, wires ...Wire) *mesh.Conn {
	m.t.Helper()
	return m.connect(name, mesh.ConnectConfig{InProcess: m.door(wires), Name: name, Settings: m.settings, Logger: m.log})
}

func (m *Mesh) connect(name string, cfg mesh.ConnectConfig) *mesh.Conn {
	m.t.Helper()
	if observe := m.observed(); observe != nil {
		cfg.Meters, cfg.Traces = observe(name)
	}
	c, err := mesh.Connect(context.Background(), cfg)
	if err != nil {
		m.t.Fatal(err)
	}
	m.t.Cleanup(c.Close)
	m.mu.Lock()
	defer m.mu.Unlock()
	m.conns = append(m.conns, c)
	return c
}

// door leads a connection to the server of the moment, also when it reconnects.
type door struct {
	mesh  *Mesh
	node  int
	wires []Wire
}

func (m *Mesh) door(wires []Wire) door {
	m.mu.Lock()
	defer m.mu.Unlock()
	return door{m, len(m.conns), wires}
}

// InProcessConn connects to the server, or to the door's node of a cluster.
func (d door) InProcessConn() (net.Conn, error) {
	conn, err := d.mesh.dial(d.node)
	if err != nil {
		return nil, err
	}
	for _, w := range d.wires {
		conn = w.Wrap(conn)
	}
	return conn, nil
}

func (m *Mesh) dial(node int) (net.Conn, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	switch {
	case len(m.nodes) > 0:
		return m.nodes[node%len(m.nodes)].InProcessConn()
	case m.Server == nil:
		return nil, nats.ErrNoServers
	}
	return m.Server.InProcessConn()
}

// Restart stops the server and starts it again on the same store. Connections
// come back by themselves.
func (m *Mesh) Restart() {
	m.t.Helper()
	m.stop()
	s, err := embedded.Start(embedded.Config{Store: m.store})
	if err != nil {
		m.t.Fatal(err)
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.Server = s
}

// stop takes the server away first, so that nobody reconnects to it.
func (m *Mesh) stop() {
	m.mu.Lock()
	s := m.Server
	m.Server = nil
	m.mu.Unlock()
	if s != nil {
		s.Stop()
	}
}

func (m *Mesh) close() {
	m.mu.Lock()
	conns := m.conns
	m.mu.Unlock()
	for _, c := range conns {
		c.Close()
	}
	m.stop()
}

// Logger writes warnings to standard error when the environment asks for it
// (CRUMB_TEST_LOG=debug|warn); a test is quiet otherwise.
func Logger(testing.TB) *slog.Logger {
	level := slog.LevelWarn
	switch os.Getenv("CRUMB_TEST_LOG") {
	case "":
		return slog.New(slog.DiscardHandler)
	case "debug":
		level = slog.LevelDebug
	}
	return slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: level}))
}
