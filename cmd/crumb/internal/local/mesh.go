package local

import (
	"context"
	"errors"
	"io/fs"
	"log/slog"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"sync"

	"github.com/crumbmesh/crumbmesh/pkg/agent"
	"github.com/crumbmesh/crumbmesh/pkg/client"
	"github.com/crumbmesh/crumbmesh/pkg/decision"
	"github.com/crumbmesh/crumbmesh/pkg/fault"
	"github.com/crumbmesh/crumbmesh/pkg/mesh"
	"github.com/crumbmesh/crumbmesh/pkg/mesh/embedded"
	"github.com/crumbmesh/crumbmesh/pkg/secret"
	"github.com/crumbmesh/crumbmesh/pkg/telemetry"
	"github.com/crumbmesh/crumbmesh/pkg/telemetry/export"
	"github.com/crumbmesh/crumbmesh/pkg/tool"
	"github.com/crumbmesh/crumbmesh/services/approvals"
	"github.com/crumbmesh/crumbmesh/services/orchestrator"
)

// What stands in a store folder.
const (
	serverFolder = "nats"
	keyFile      = "approvals.key"
	folderMode   = 0o700 // prompts, arguments and results are in it
)

// AnyPort lets the system choose the port of the listener.
const AnyPort = -1

// Config describes a mesh.
type Config struct {
	Store string // folder of streams and key; made when it is not there
	Port  int    // of the NATS listener on the loopback; 0: none; AnyPort: any free one
	Log   *slog.Logger
	// Tools are Go tools served in this process, by group; the command of such a
	// group is not started.
	Tools map[string][]tool.Tool
	// Output takes each line that a group's command prints.
	Output func(group, line string)
	// Worker, when set, takes what becomes of a group's command: that it is up, that
	// a change of its files is or does not start.
	Worker func(group, news string)
}

// Mesh is a running mesh.
type Mesh struct {
	// Client reaches the mesh without a socket.
	Client *client.Client

	cfg      Config
	locked   *os.File // holds the store
	server   *embedded.Server
	key      decision.Key
	verifier *decision.Verifier
	conn     *mesh.Conn
	failed   chan error
	observed telemetry.Process

	earlier earlier      // of the projects served from this store
	secrets *secret.Book // of the process

	mu       sync.Mutex
	services []*part
	parts    map[string]*part // of the project, by name
	retired  []*part          // replaced, with calls still in hand
}

// Start starts the server and the services that no project changes. It fails with
// INVALID_CONFIG when the store cannot be used, another process uses it, or the
// port is taken.
func Start(ctx context.Context, cfg Config) (*Mesh, error) {
	m := &Mesh{cfg: cfg, parts: map[string]*part{}, earlier: earlier{}, secrets: secret.NewBook(nil), failed: make(chan error, 1), observed: telemetry.Process{Stop: func() {}}}
	if err := m.start(ctx); err != nil {
		m.Stop()
		return nil, err
	}
	return m, nil
}

func (m *Mesh) start(ctx context.Context) (err error) {
	if m.observed, err = export.Start(ctx, "crumbmesh", m.secrets); err != nil {
		return err
	}
	if err := os.MkdirAll(m.cfg.Store, folderMode); err != nil {
		return fault.Wrap(fault.InvalidConfig, err, "the store folder %s cannot be made: %v", m.cfg.Store, err)
	}
	if m.locked, err = lock(m.cfg.Store); err != nil {
		return err
	}
	if _, err := os.Stat(filepath.Join(m.cfg.Store, serverFolder)); err == nil { // else no run is left to keep anything
		if m.earlier, err = readEarlier(m.cfg.Store); err != nil {
			return err
		}
	}
	if m.server, err = embedded.Start(embedded.Config{Store: filepath.Join(m.cfg.Store, serverFolder), Port: m.cfg.Port}); err != nil {
		return err
	}
	if m.conn, err = m.connect(ctx, "crumb"); err != nil {
		return err
	}
	m.Client = client.New(m.conn)
	if err := m.conn.Ensure(ctx, mesh.Topology{Providers: map[string]int{agent.ScriptProvider: 0}}); err != nil {
		return err
	}
	if err := m.keys(ctx); err != nil {
		return err
	}
	return errors.Join(m.service(ctx, "orchestrator", m.orchestrator), m.service(ctx, "approvals", m.approvals))
}

// keys reads the key of the store's mesh, and makes the first one.
func (m *Mesh) keys(ctx context.Context) (err error) {
	file := filepath.Join(m.cfg.Store, keyFile)
	m.key, err = approvals.LoadKey(ctx, m.conn, file)
	if errors.Is(err, fs.ErrNotExist) {
		return fault.Wrap(fault.InvalidConfig, err, "the store folder %s has runs and no %s, the key that answers to them are signed with, any more: put the file back, or use another folder, or remove this one with the runs in it", m.cfg.Store, keyFile)
	}
	if err != nil {
		return err
	}
	m.verifier, err = decision.NewVerifier(m.key.Public())
	return err
}

// orchestrator believes what a request says of its principal: whoever reaches
// this mesh is on this machine.
func (m *Mesh) orchestrator(ctx context.Context, conn *mesh.Conn, h hooks) error {
	return orchestrator.Run(ctx, orchestrator.Config{Verify: m.verifier.Verify, TrustPrincipal: true, Trace: m.observed.Traced, Ready: h.ready, Health: h.health}, conn)
}

func (m *Mesh) approvals(ctx context.Context, conn *mesh.Conn, h hooks) error {
	return approvals.Run(ctx, approvals.Config{Key: m.key, Ready: h.ready}, conn)
}

// service starts a service and waits until it is ready.
func (m *Mesh) service(ctx context.Context, name string, run connected) error {
	p := begin(name, "", m.onOwnConnection(name, run), m.fail)
	m.mu.Lock()
	m.services = append(m.services, p)
	m.mu.Unlock()
	return p.up(ctx)
}

// connected is a service that is given its connection.
type connected func(context.Context, *mesh.Conn, hooks) error

// onOwnConnection gives a service a connection of its own, as in a deployment.
func (m *Mesh) onOwnConnection(name string, run connected) func(context.Context, hooks) error {
	return func(ctx context.Context, h hooks) error {
		conn, err := m.connect(ctx, name)
		if err != nil {
			return err
		}
		defer conn.Close()
		return run(ctx, conn, h)
	}
}

func (m *Mesh) connect(ctx context.Context, name string) (*mesh.Conn, error) {
	return mesh.Connect(ctx, mesh.ConnectConfig{InProcess: m.server, Name: name, Secrets: m.secrets, Settings: mesh.DevSettings(), Logger: m.cfg.Log.With("service", name)})
}

// URL is where clients reach the mesh, "" without a listener.
func (m *Mesh) URL() string { return m.server.URL() }

// Metrics is the page of the process's metrics; nil in a slim build.
func (m *Mesh) Metrics() http.Handler { return m.observed.Metrics }

// PublicKey is what workers verify decisions with.
func (m *Mesh) PublicKey() string { return m.key.Public() }

// Failed has the error of the first part that ended by itself: a mesh without it
// would only look alive.
func (m *Mesh) Failed() <-chan error { return m.failed }

func (m *Mesh) fail(err error) {
	select {
	case m.failed <- err:
	default:
	}
}

// Health returns why the mesh is not ready, nil when it is.
func (m *Mesh) Health() error {
	errs := []error{m.conn.Health()}
	for _, p := range m.all() {
		errs = append(errs, p.health())
	}
	return errors.Join(errs...)
}

// all are the parts that run, services first.
func (m *Mesh) all() []*part {
	m.mu.Lock()
	defer m.mu.Unlock()
	out := slices.Clone(m.services)
	for _, name := range slices.Sorted(maps.Keys(m.parts)) {
		out = append(out, m.parts[name])
	}
	return out
}

// Stop drains and stops everything, the server last. Calls in hand finish within
// their services' grace; what they answer is stored before the server stops.
func (m *Mesh) Stop() {
	parts := m.all()
	m.mu.Lock()
	parts = append(parts, m.retired...)
	m.mu.Unlock()
	for _, p := range parts {
		p.cancel()
	}
	for _, p := range parts {
		p.stop()
	}
	if m.conn != nil {
		m.conn.Close()
	}
	if m.server != nil {
		m.server.Stop()
	}
	if m.locked != nil {
		_ = m.locked.Close() // the next may use the store
	}
	m.observed.Stop()
}
