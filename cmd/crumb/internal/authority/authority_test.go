package authority_test

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/goccy/go-yaml"
	"github.com/nats-io/nats-server/v2/server"

	"github.com/crumbmesh/crumbmesh/cmd/crumb/internal/authority"
	"github.com/crumbmesh/crumbmesh/internal/meshtest"
	"github.com/crumbmesh/crumbmesh/pkg/crumbs"
	"github.com/crumbmesh/crumbmesh/pkg/fault"
	"github.com/crumbmesh/crumbmesh/pkg/mesh"
	"github.com/crumbmesh/crumbmesh/pkg/mesh/access"
	"github.com/crumbmesh/crumbmesh/pkg/tool"
	"github.com/crumbmesh/crumbmesh/pkg/tool/worker"
)

const started = 10 * time.Second

func open(t *testing.T, dir string, r authority.Request) *authority.Authority {
	t.Helper()
	a, err := authority.Open(dir, r)
	if err == nil {
		err = a.Write()
	}
	if err != nil {
		t.Fatal(err)
	}
	return a
}

// serve starts a server on the main configuration of the folder.
func serve(t *testing.T, dir string) *server.Server {
	t.Helper()
	meshtest.Real(t)
	o, err := server.ProcessConfigFile(filepath.Join(dir, "nats", "nats-server.conf"))
	if err != nil {
		t.Fatal(err)
	}
	o.Host, o.Port, o.HTTPPort, o.StoreDir, o.NoSigs, o.NoLog = "127.0.0.1", -1, 0, t.TempDir(), true, true
	o.JetStreamMaxStore = 64 << 30
	s, err := server.NewServer(o)
	if err != nil {
		t.Fatal(err)
	}
	s.Start()
	t.Cleanup(func() { s.Shutdown(); s.WaitForShutdown() })
	if !s.ReadyForConnections(started) {
		t.Fatal("the server did not start")
	}
	return s
}

// settings are those of a role's file, as far as connections go.
type settings struct {
	NKey            string   `yaml:"nkey"`
	InboxPrefix     string   `yaml:"inboxPrefix"`
	JSAPIPrefix     string   `yaml:"jsApiPrefix"`
	TLSCA           string   `yaml:"tlsCa"`
	TLSCert         string   `yaml:"tlsCert"`
	TLSKey          string   `yaml:"tlsKey"`
	ApprovalsPubkey []string `yaml:"approvalsPubkey"`
	Trust           []string `yaml:"trust"`
	Replaces        string   `yaml:"replaces"`
}

func read(t *testing.T, dir, role string) (settings, mesh.Access) {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(dir, role+".yaml"))
	if err != nil {
		t.Fatal(err)
	}
	var s settings
	if err := yaml.Unmarshal(text, &s); err != nil {
		t.Fatal(err)
	}
	in := func(file string) string {
		if file == "" {
			return ""
		}
		return filepath.Join(dir, file)
	}
	return s, mesh.Access{NKey: in(s.NKey), CA: in(s.TLSCA), Cert: in(s.TLSCert), Key: in(s.TLSKey), APIPrefix: s.JSAPIPrefix, InboxPrefix: s.InboxPrefix}
}

func connect(t *testing.T, s *server.Server, a mesh.Access) (*mesh.Conn, error) {
	t.Helper()
	conn, err := mesh.Connect(context.Background(), mesh.ConnectConfig{Server: s.ClientURL(), Access: a, Settings: mesh.DevSettings()})
	if err == nil {
		t.Cleanup(conn.Close)
	}
	return conn, err
}

// What is there stays: a second time makes no key anew, and a new group is added.
func TestWrite_KeepsKeys(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	open(t, dir, authority.Request{Groups: []string{"a"}, Providers: []string{"script"}, Server: "nats://n:1", Hosts: []string{"localhost"}})
	before := files(t, dir)
	open(t, dir, authority.Request{Groups: []string{"b"}})
	after := files(t, dir)
	for name, text := range before {
		if strings.HasPrefix(name, "keys/") || strings.HasPrefix(name, "tls/") || name == "client.yaml" {
			if after[name] != text {
				t.Errorf("%s was made anew", name)
			}
		}
	}
	if after["keys/toolexec-b.nk"] == "" || !strings.Contains(after["nats/accounts.conf"], "TOOLS_a {") || !strings.Contains(after["nats/accounts.conf"], "TOOLS_b {") {
		t.Error("the new group is not there, or the old one is gone")
	}
	for name := range after {
		info, err := os.Stat(filepath.Join(dir, name))
		if err != nil {
			t.Fatal(err)
		}
		if secret := strings.HasSuffix(name, ".nk") || strings.HasSuffix(name, ".key"); secret && info.Mode().Perm() != 0o600 {
			t.Errorf("%s has mode %o", name, info.Mode().Perm())
		}
		if strings.HasSuffix(name, ".conf") && strings.Contains(after[name], "SU") && strings.Contains(after[name], strings.TrimSpace(after["keys/client.nk"])) {
			t.Errorf("%s has a seed in it", name)
		}
	}
}

func files(t *testing.T, dir string) map[string]string {
	t.Helper()
	out := map[string]string{}
	for _, pattern := range []string{"*.yaml", "*/*"} {
		names, err := filepath.Glob(filepath.Join(dir, pattern))
		if err != nil {
			t.Fatal(err)
		}
		for _, name := range names {
			text, err := os.ReadFile(name)
			if err != nil {
				t.Fatal(err)
			}
			rel, err := filepath.Rel(dir, name)
			if err != nil {
				t.Fatal(err)
			}
			out[rel] = string(text)
		}
	}
	return out
}

// The files are taken by a server as they are, every role gets in with its own, and
// TLS says what is missing to who lacks it.
func TestWrite_ServerAndRolesWithTLS(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	a := open(t, dir, authority.Request{Groups: []string{"demo"}, Providers: []string{"script"}, Hosts: []string{"localhost", "127.0.0.1"}})
	s := serve(t, dir)
	for _, r := range a.Mesh().Roles() {
		if a.Settings(r) == "" {
			continue // of `nats` only: natscli_test.go
		}
		_, who := read(t, dir, r.Name)
		if _, err := connect(t, s, who); err != nil {
			t.Errorf("%s: %v", r.Name, err)
		}
	}
	_, who := read(t, dir, access.RoleProvisioner)
	conn, err := connect(t, s, who)
	if err != nil {
		t.Fatal(err)
	}
	if err := conn.Ensure(t.Context(), mesh.Topology{Groups: map[string]int{"demo": 0}, Providers: map[string]int{"script": 0}}); err != nil {
		t.Fatal(err)
	}
	_, who = read(t, dir, access.RoleClient)
	for want, change := range map[string]func(a mesh.Access) mesh.Access{
		"--tls-ca":       func(a mesh.Access) mesh.Access { a.CA = ""; return a },
		"--tls-cert":     func(a mesh.Access) mesh.Access { a.Cert, a.Key = "", ""; return a },
		"--nkey":         func(a mesh.Access) mesh.Access { a.NKey = ""; return a },
		"--inbox-prefix": func(a mesh.Access) mesh.Access { a.InboxPrefix = ""; return a },
	} {
		if _, err := connect(t, s, change(who)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("want %q, got %v", want, err)
		}
	}
	// Who is nobody, or hears no answer, is told so, not to start a server.
	for _, change := range []func(a mesh.Access) mesh.Access{func(a mesh.Access) mesh.Access { a.NKey = ""; return a }, func(a mesh.Access) mesh.Access { a.InboxPrefix = "_INBOX.operator"; return a }} {
		if _, err := connect(t, s, change(who)); fault.CodeOf(err) != fault.PermissionsViolation || strings.Contains(err.Error(), "crumb dev") {
			t.Errorf("got %v", err)
		}
	}
	// Who asks JetStream under the wrong name waits in vain, and is told why.
	unnamed := who
	unnamed.APIPrefix = ""
	if conn, err = connect(t, s, unnamed); err != nil {
		t.Fatal(err)
	}
	if _, err := conn.Server(t.Context()); fault.CodeOf(conn.Refused(err, access.RoleOperator)) != fault.PermissionsViolation || !strings.Contains(conn.Refused(err, access.RoleOperator).Error(), "--js-api-prefix") {
		t.Errorf("JetStream under another name: %v", conn.Refused(err, access.RoleOperator))
	}
	// Who may not ask is told at once, not after the time of a request.
	conn, err = connect(t, s, who)
	if err != nil {
		t.Fatal(err)
	}
	if err := conn.Request(t.Context(), crumbs.EndpointAgentsApply, struct{}{}, &struct{}{}); fault.CodeOf(err) != fault.PermissionsViolation {
		t.Errorf("agents.apply by a client: %v", err)
	}
}

// While a key is rotated both are believed; afterwards the old one is not.
func TestRotate_BothThenTheNewOne(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	a := open(t, dir, authority.Request{Groups: []string{"demo"}, Providers: []string{"script"}})
	_, old := read(t, dir, access.RoleClient)
	seed, err := os.ReadFile(old.NKey)
	if err != nil {
		t.Fatal(err)
	}
	old.NKey = filepath.Join(t.TempDir(), "old.nk")
	if err := os.WriteFile(old.NKey, seed, 0o600); err != nil {
		t.Fatal(err)
	}
	steps := func(change func(string) error, name string) {
		t.Helper()
		if err := change(name); err != nil {
			t.Fatal(err)
		}
		if err := a.Write(); err != nil {
			t.Fatal(err)
		}
	}
	steps(a.Rotate, access.RoleClient)
	if err := a.Rotate(access.RoleClient); fault.CodeOf(err) != fault.InvalidConfig {
		t.Errorf("rotated twice: %v", err)
	}
	_, young := read(t, dir, access.RoleClient)
	s := serve(t, dir)
	for name, who := range map[string]mesh.Access{"old": old, "new": young} {
		if _, err := connect(t, s, who); err != nil {
			t.Errorf("the %s key while it is rotated: %v", name, err)
		}
	}
	steps(a.Finish, access.RoleClient)
	s = serve(t, dir)
	if _, err := connect(t, s, young); err != nil {
		t.Error(err)
	}
	if _, err := connect(t, s, old); err == nil {
		t.Error("the old key is believed after the rotation")
	}
	// The key of decisions: verifiers know both, approvals signs with the new one and
	// trusts the old, whose place it takes.
	was, _ := read(t, dir, access.RoleOrchestrator)
	steps(a.Rotate, authority.ApprovalsKey)
	is, _ := read(t, dir, access.ToolsRole("demo"))
	by, _ := read(t, dir, access.RoleApprovals)
	if len(is.ApprovalsPubkey) != 2 || is.ApprovalsPubkey[1] != was.ApprovalsPubkey[0] || !slices.Equal(by.Trust, was.ApprovalsPubkey) || by.Replaces != was.ApprovalsPubkey[0] {
		t.Errorf("verifiers have %v, approvals trusts %v and replaces %q, the key was %v", is.ApprovalsPubkey, by.Trust, by.Replaces, was.ApprovalsPubkey)
	}
	steps(a.Finish, authority.ApprovalsKey)
	if is, _ := read(t, dir, access.RoleOrchestrator); len(is.ApprovalsPubkey) != 1 || is.ApprovalsPubkey[0] == was.ApprovalsPubkey[0] {
		t.Errorf("after the rotation: %v", is.ApprovalsPubkey)
	}
	if by, _ := read(t, dir, access.RoleApprovals); len(by.Trust) != 0 || by.Replaces != "" {
		t.Errorf("after the rotation approvals trusts %v and replaces %q", by.Trust, by.Replaces)
	}
	for _, wrong := range []func() error{func() error { return a.Rotate("nobody") }, func() error { return a.Finish(access.RoleClient) }} {
		if err := wrong(); fault.CodeOf(err) != fault.InvalidConfig {
			t.Errorf("got %v", err)
		}
	}
}

// A worker of one's own serves a mesh with accounts and TLS by its role's file alone,
// and by variables alone.
func TestWrite_WorkerOfOnesOwn(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	open(t, dir, authority.Request{Groups: []string{"demo"}, Providers: []string{"script"}, Hosts: []string{"localhost", "127.0.0.1"}})
	s := serve(t, dir)
	_, who := read(t, dir, access.RoleProvisioner)
	conn, err := connect(t, s, who)
	if err != nil {
		t.Fatal(err)
	}
	if err := conn.Ensure(t.Context(), mesh.Topology{Groups: map[string]int{"demo": 0}, Providers: map[string]int{"script": 0}}); err != nil {
		t.Fatal(err)
	}
	role := access.ToolsRole("demo")
	of, files := read(t, dir, role)
	for name, variables := range map[string]map[string]string{
		"its file": {"CRUMB_CONFIG": filepath.Join(dir, role+".yaml"), "NATS_URL": s.ClientURL()},
		"variables": {
			"NATS_URL": s.ClientURL(), "NATS_NKEY": files.NKey, "CRUMB_TLS_CA": files.CA, "CRUMB_TLS_CERT": files.Cert, "CRUMB_TLS_KEY": files.Key,
			"CRUMB_JS_API_PREFIX": files.APIPrefix, "CRUMB_INBOX_PREFIX": files.InboxPrefix, "CRUMB_GROUP": "demo", "CRUMB_APPROVALS_PUBKEY": strings.Join(of.ApprovalsPubkey, ","),
		},
	} {
		var environment []string
		for variable, value := range variables {
			environment = append(environment, variable+"="+value)
		}
		e, err := worker.FromEnvironment(environment)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		conn, err := mesh.Connect(t.Context(), e.Process.Mesh)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		t.Cleanup(conn.Close)
		ctx, stop := context.WithCancel(t.Context())
		served := false
		e.Worker.Ready = func() { served = true; stop() }
		echo := tool.Define("echo", "Echo.", func(_ tool.Context, in struct{}) (struct{}, error) { return in, nil })
		if err := worker.Run(ctx, e.Worker, conn, echo); err != nil || !served {
			t.Errorf("by %s: served %v, %v", name, served, err)
		}
		stop()
		if n := conn.Violations(); n != 0 {
			t.Errorf("by %s: %d refusals", name, n)
		}
	}
}
