//go:build e2e

package compose_test

import (
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/compose-spec/compose-go/v2/types"
	"go.yaml.in/yaml/v3"
)

// confFolder is where containers have the settings of their role.
const confFolder = "/etc/crumbmesh"

// accounts makes the folder of accounts with the command that compose.accounts.yaml
// names, and loads both files.
func accounts(t *testing.T) (string, *types.Project) {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "auth")
	command := exec.CommandContext(t.Context(), "go", "run", "./cmd/crumb", "init", "--auth", dir, "--dir", "examples/publisher")
	command.Dir = root
	if out, err := command.CombinedOutput(); err != nil {
		t.Fatalf("crumb init --auth: %v\n%s", err, out)
	}
	p, err := load(t.Context(), []string{filepath.Join(root, "compose.yaml"), filepath.Join(root, "compose.accounts.yaml")},
		"CRUMBMESH_AUTH="+dir, "CRUMBMESH_USER=1000:1000", "CRUMB_APPROVALS_PUBKEY=")
	if err != nil {
		t.Fatal(err)
	}
	return dir, p
}

// mounted are a container's mounts: the file on this machine by that in the container.
func mounted(s types.ServiceConfig) map[string]string {
	out := map[string]string{}
	for _, v := range s.Volumes {
		if v.Type == types.VolumeTypeBind {
			out[v.Target] = v.Source
		}
	}
	return out
}

// configOf is the settings file that a container is told of, "" when of none.
func configOf(s types.ServiceConfig) string {
	if i := slices.Index(s.Command, "--config"); i >= 0 {
		return s.Command[i+1]
	}
	if file := s.Environment["CRUMB_CONFIG"]; file != nil {
		return *file
	}
	return ""
}

// Each container finds its role's settings, and what they name, where they say; the
// files are those that `crumb init --auth` makes; no container has another role's.
func TestE2E_ComposeAccounts_EveryMountIsThere(t *testing.T) {
	t.Parallel()
	dir, p := accounts(t)
	roles := map[string]string{"init": "provisioner", "apply": "operator", "orchestrator": "orchestrator", "modelgw": "modelgw",
		"approvals": "approvals", "toolexec-scripts": "toolexec-scripts", "toolexec-demo": "toolexec-demo"}
	for name, role := range roles {
		s := p.Services[name]
		files := mounted(s)
		want := map[string]string{confFolder + "/keys/" + role + ".nk": filepath.Join(dir, "keys", role+".nk")}
		if name == "init" {
			if key := s.Environment["NATS_NKEY"]; key == nil || want[*key] == "" {
				t.Errorf("init: NATS_NKEY is not the file that is mounted")
			}
		} else {
			file := configOf(s)
			if file != confFolder+"/"+role+".yaml" {
				t.Errorf("%s has the settings %q", name, file)
			}
			want[file] = filepath.Join(dir, role+".yaml")
			for key, path := range paths(t, want[file]) {
				if files[confFolder+"/"+path] == "" {
					t.Errorf("%s: its settings say %s: %s, which is not mounted", name, key, path)
				}
				want[confFolder+"/"+path] = filepath.Join(dir, path)
			}
		}
		got := maps.Clone(files)
		maps.DeleteFunc(got, func(_, source string) bool { return !strings.HasPrefix(source, dir) })
		if !maps.Equal(got, want) {
			t.Errorf("%s has %v, want %v", name, got, want)
		}
		for target, source := range want {
			if info, err := os.Stat(source); err != nil || !info.Mode().IsRegular() {
				t.Errorf("%s: %s is mounted as %s: %v", name, source, target, err)
			}
		}
		if s.User != "1000:1000" {
			t.Errorf("%s runs as %q, which cannot read its seed", name, s.User)
		}
		// An empty variable would go before the keys of the file.
		if _, set := s.Environment["CRUMB_APPROVALS_PUBKEY"]; set {
			t.Errorf("%s has CRUMB_APPROVALS_PUBKEY", name)
		}
	}
	for name := range serving(p) {
		if roles[name] == "" {
			t.Errorf("service %s has no role", name)
		}
	}
}

// paths are the files that a role's settings name, by key.
func paths(t *testing.T, file string) map[string]string {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	var settings map[string]any
	if err := yaml.Unmarshal(text, &settings); err != nil {
		t.Fatal(err)
	}
	out := map[string]string{}
	for _, key := range []string{"nkey", "keyFile", "tlsCa", "tlsCert", "tlsKey"} {
		if path, ok := settings[key].(string); ok {
			out[key] = path
		}
	}
	return out
}

// The NATS servers have their own folder, none of the seeds, and the configuration
// that includes both.
func TestE2E_ComposeAccounts_ServersHaveNoSeeds(t *testing.T) {
	t.Parallel()
	dir, p := accounts(t)
	for _, node := range nodes {
		files := mounted(p.Services[node])
		config := "/etc/nats/nats.accounts.conf"
		if configOf(p.Services[node]) != config || files[config] == "" || files["/etc/nats/nats.conf"] == "" {
			t.Errorf("%s: %v with %v", node, p.Services[node].Command, files)
		}
		if folder := files["/etc/nats/accounts"]; folder != filepath.Join(dir, "nats") {
			t.Errorf("%s: accounts are %q", node, folder)
		}
		for target, source := range files {
			if strings.HasPrefix(source, dir) && target != "/etc/nats/accounts" {
				t.Errorf("%s has %s", node, source)
			}
		}
	}
}
