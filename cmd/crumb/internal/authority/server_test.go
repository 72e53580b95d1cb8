package authority_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/nats-io/nats-server/v2/server"

	"github.com/crumbmesh/crumbmesh/cmd/crumb/internal/authority"
	"github.com/crumbmesh/crumbmesh/pkg/mesh/access"
)

// What somebody wrote into the servers' own configuration is never taken back:
// neither by a new group, nor by a rotation, nor by TLS that comes later.
func TestWrite_KeepsTheServersOwnConfiguration(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	a := open(t, dir, authority.Request{Groups: []string{"a"}, Server: "nats://nats.example.com:7330"})
	conf := filepath.Join(dir, "nats", "nats-server.conf")
	own := strings.ReplaceAll(files(t, dir)["nats/nats-server.conf"], "0.0.0.0:7330", "127.0.0.1:7331")
	if !strings.Contains(own, "127.0.0.1:7331") {
		t.Fatalf("it listens elsewhere than its URL says:\n%s", own)
	}
	if err := os.WriteFile(conf, []byte(own), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, step := range []struct {
		name   string
		change func()
	}{
		{"a new group", func() { open(t, dir, authority.Request{Groups: []string{"b"}, Server: "nats://other:1"}) }},
		{"a rotation", func() { again(t, a, a.Rotate, access.RoleClient) }},
		{"the end of a rotation", func() { again(t, a, a.Finish, access.RoleClient) }},
		{"certificates", func() { open(t, dir, authority.Request{Hosts: []string{"localhost"}}) }},
	} {
		step.change()
		if got := files(t, dir)["nats/nats-server.conf"]; got != own {
			t.Errorf("%s wrote the main configuration again:\n%s", step.name, got)
		}
	}
	if b := open(t, dir, authority.Request{}); !b.TLS() || !b.IncludesTLS() {
		t.Error("TLS that came later is not included")
	}
	tls := files(t, dir)["nats/tls.conf"] + "# my own\n"
	if err := os.WriteFile(filepath.Join(dir, "nats", "tls.conf"), []byte(tls), 0o600); err != nil {
		t.Fatal(err)
	}
	open(t, dir, authority.Request{})
	if files(t, dir)["nats/tls.conf"] != tls {
		t.Error("tls.conf was written again")
	}
	if err := os.WriteFile(conf, []byte("include accounts.conf\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if open(t, dir, authority.Request{}).IncludesTLS() {
		t.Error("it is said that a configuration without tls.conf includes it")
	}
}

func again(t *testing.T, a *authority.Authority, change func(string) error, name string) {
	t.Helper()
	err := change(name)
	if err == nil {
		err = a.Write()
	}
	if err != nil {
		t.Fatal(err)
	}
}

// The main configuration is one to run: on the address that the settings name, each
// message on the disk before it is acknowledged, the store in one place wherever the
// server is started, and no path to what is not the server's.
func TestWrite_MainConfigurationOfServers(t *testing.T) {
	t.Parallel()
	for url, want := range map[string]struct {
		host string
		port int
	}{
		"":                            {"127.0.0.1", 4222}, // the settings of roles name the loopback
		"nats://127.0.0.1:7330":       {"127.0.0.1", 7330},
		"nats://localhost":            {"127.0.0.1", 4222},
		"tls://[::1]:7330":            {"::1", 7330},
		"tls://nats.example.com:7330": {"0.0.0.0", 7330},
		"nats://a:7330,nats://b:7331": {"0.0.0.0", 7330},
		"nats.example.com:7330":       {"0.0.0.0", 7330},
		"tls://nats.example.com":      {"0.0.0.0", 4222},
	} {
		t.Run(url, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			open(t, dir, authority.Request{Server: url, Hosts: []string{"localhost"}})
			o, err := server.ProcessConfigFile(filepath.Join(dir, "nats", "nats-server.conf"))
			if err != nil {
				t.Fatal(err)
			}
			if o.Host != want.host || o.Port != want.port {
				t.Errorf("listens on %s port %d, want %v", o.Host, o.Port, want)
			}
			if !o.SyncAlways || o.StoreDir != filepath.Join(dir, "nats", "jetstream") || o.TLSConfig == nil {
				t.Errorf("sync always %v, store %s, TLS %v", o.SyncAlways, o.StoreDir, o.TLSConfig != nil)
			}
			for name, text := range files(t, dir) {
				if strings.HasSuffix(name, ".conf") && (strings.Contains(text, dir+"/keys") || strings.Contains(text, dir+"/tls")) {
					t.Errorf("%s leads a server out of its folder:\n%s", name, text)
				}
			}
		})
	}
}
