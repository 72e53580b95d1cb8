package meshtest

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nkeys"

	"github.com/crumbmesh/crumbmesh/pkg/mesh"
	"github.com/crumbmesh/crumbmesh/pkg/mesh/access"
)

// guardedReady bounds the start of a server.
const guardedReady = 10 * time.Second

// observer is a user of the core account that a guarded mesh has beside those of
// its configuration: the test, which sees and may do everything.
const observer = "observer"

// Guard is the access of a guarded mesh.
type Guard struct {
	Mesh access.Mesh
	keys map[string]string // seed files by role
	log  *serverLog
}

// StartGuarded starts a mesh on a server with the accounts and permissions that
// `crumb init --auth` makes. The topology is made by the provisioner; the mesh's
// own connection is the observer's.
func StartGuarded(t testing.TB, groups, providers []string, opts ...Option) *Mesh {
	t.Helper()
	o := newOptions(append(opts, WithTopology(groups, providers)))
	m := &Mesh{settings: o.settings, telemetry: o.telemetry, log: o.log, store: t.TempDir(), t: t}
	m.Guard = &Guard{Mesh: access.Mesh{Groups: groups, Providers: providers}, keys: map[string]string{}, log: &serverLog{}}
	alone.enterReal()
	t.Cleanup(alone.leaveReal)
	users, dir := access.Users{}, t.TempDir()
	for _, r := range m.Guard.Mesh.Roles() {
		users[r.Name] = []string{m.Guard.key(t, dir, r.Name)}
	}
	conf := filepath.Join(dir, "accounts.conf")
	if err := os.WriteFile(conf, []byte(m.Guard.Mesh.Accounts(users)), 0o600); err != nil {
		t.Fatal(err)
	}
	so, err := server.ProcessConfigFile(conf)
	if err != nil {
		t.Fatal(err)
	}
	so.ServerName, so.Host, so.Port, so.NoSigs = "guarded", "127.0.0.1", -1, true
	so.JetStream, so.StoreDir, so.JetStreamMaxMemory, so.JetStreamMaxStore = true, m.store, clusterMemory, clusterStore
	for _, u := range so.Nkeys {
		if u.Account.Name == access.AccountCore {
			so.Nkeys = append(so.Nkeys, &server.NkeyUser{Nkey: m.Guard.key(t, dir, observer), Account: u.Account})
			break
		}
	}
	s, err := server.NewServer(so)
	if err != nil {
		t.Fatal(err)
	}
	s.SetLoggerV2(m.Guard.log, false, false, false)
	s.Start()
	t.Cleanup(func() { s.Shutdown(); s.WaitForShutdown() })
	if !s.ReadyForConnections(guardedReady) {
		t.Fatal("the server did not start")
	}
	m.nodes = append(m.nodes, s)
	if err := m.ConnectAs(access.RoleProvisioner).Ensure(context.Background(), o.topology); err != nil {
		t.Fatal(err)
	}
	m.Conn = m.ConnectAs(observer)
	return m
}

// key makes the key of a user and returns its public part.
func (g *Guard) key(t testing.TB, dir, name string) string {
	t.Helper()
	pair, err := nkeys.CreateUser()
	if err != nil {
		t.Fatal(err)
	}
	seed, err := pair.Seed()
	if err != nil {
		t.Fatal(err)
	}
	g.keys[name] = filepath.Join(dir, name+".nk")
	if err := os.WriteFile(g.keys[name], seed, 0o600); err != nil {
		t.Fatal(err)
	}
	public, err := pair.PublicKey()
	if err != nil {
		t.Fatal(err)
	}
	return public
}

// Access is what a role connects with.
func (g *Guard) Access(role string) mesh.Access {
	a := mesh.Access{NKey: g.keys[role]}
	if r, err := g.Mesh.Role(role); err == nil && !r.System {
		a.InboxPrefix = r.InboxPrefix()
		if r.Restricted() {
			a.APIPrefix = access.APIPrefix
		}
	}
	return a
}

// Log is what the server logged about a subject or whatever else the text names.
func (g *Guard) Log(text string) []string { return g.log.find(text) }

// ConnectAs is Connect with the credentials of a role.
func (m *Mesh) ConnectAs(role string, wires ...Wire) *mesh.Conn {
	m.t.Helper()
	return m.connect(role, mesh.ConnectConfig{InProcess: m.door(wires), Name: role, Settings: m.settings, Logger: m.log, Access: m.Guard.Access(role)})
}

// serverLog keeps what a server says.
type serverLog struct {
	mu    sync.Mutex
	lines []string
}

func (l *serverLog) add(format string, v ...any) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.lines = append(l.lines, fmt.Sprintf(format, v...))
}

func (l *serverLog) find(text string) (found []string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, line := range l.lines {
		if strings.Contains(line, text) {
			found = append(found, line)
		}
	}
	return found
}

func (l *serverLog) Noticef(format string, v ...any) { l.add(format, v...) }
func (l *serverLog) Warnf(format string, v ...any)   { l.add(format, v...) }
func (l *serverLog) Fatalf(format string, v ...any)  { l.add(format, v...) }
func (l *serverLog) Errorf(format string, v ...any)  { l.add(format, v...) }
func (l *serverLog) Debugf(format string, v ...any)  { l.add(format, v...) }
func (l *serverLog) Tracef(format string, v ...any)  { l.add(format, v...) }

// Door leads to the server, for clients that are not ours.
func (m *Mesh) Door() nats.InProcessConnProvider { return m.door(nil) }
