// Package meshtest starts a real nats-server with JetStream for one test, also
// inside a testing/synctest bubble, where virtual time drives AckWait, schedules
// and TTLs (Bubble).
package meshtest

import (
	"context"
	"log/slog"
	"os"
	"testing"

	"github.com/crumbmesh/crumbmesh/pkg/mesh"
	"github.com/crumbmesh/crumbmesh/pkg/mesh/embedded"
)

// Mesh is a server with its topology and one connection.
type Mesh struct {
	Conn   *mesh.Conn
	Server *embedded.Server

	settings mesh.Settings
	t        testing.TB
	conns    []*mesh.Conn
}

// Option changes how a Mesh starts.
type Option func(*options)

type options struct {
	settings mesh.Settings
	topology mesh.Topology
	listen   bool
}

// WithSettings changes the settings of the topology.
func WithSettings(change func(*mesh.Settings)) Option {
	return func(o *options) { change(&o.settings) }
}

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
	o := options{settings: mesh.DevSettings(), topology: mesh.Topology{Groups: map[string]int{}, Providers: map[string]int{}}}
	for _, opt := range opts {
		opt(&o)
	}
	if !inBubble() {
		alone.enterReal()
		t.Cleanup(alone.leaveReal)
	}
	port := 0
	if o.listen {
		port = -1
	}
	s, err := embedded.Start(embedded.Config{Store: t.TempDir(), Port: port})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Stop)
	m := &Mesh{Server: s, settings: o.settings, t: t}
	m.Conn = m.Connect("test")
	if err := m.Conn.Ensure(context.Background(), o.topology); err != nil {
		t.Fatal(err)
	}
	return m
}

// Connect returns one more connection, closed with the test.
func (m *Mesh) Connect(name string) *mesh.Conn {
	m.t.Helper()
	c, err := mesh.Connect(context.Background(), mesh.ConnectConfig{InProcess: m.Server, Name: name, Settings: m.settings, Logger: Logger(m.t)})
	if err != nil {
		m.t.Fatal(err)
	}
	m.t.Cleanup(c.Close)
	m.conns = append(m.conns, c)
	return c
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
