package cli

import (
	"bytes"
	"context"
	"encoding/json"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"

	"github.com/crumbmesh/crumbmesh/cmd/crumb/internal/terminal"
	"github.com/crumbmesh/crumbmesh/pkg/agent"
	"github.com/crumbmesh/crumbmesh/pkg/mesh"
)

// serverOf starts a server whose streams may hold so many bytes on the disk.
func serverOf(t *testing.T, storeMax int64) string {
	t.Helper()
	s, err := server.NewServer(&server.Options{Host: "127.0.0.1", Port: server.RANDOM_PORT, JetStream: true, StoreDir: t.TempDir(),
		NoSigs: true, NoLog: true, JetStreamMaxStore: storeMax, JetStreamMaxMemory: 1 << 30})
	if err != nil {
		t.Fatal(err)
	}
	s.Start()
	t.Cleanup(func() { s.Shutdown(); s.WaitForShutdown() })
	if !s.ReadyForConnections(10 * time.Second) {
		t.Fatal("the server did not start")
	}
	return s.ClientURL()
}

// crumb runs one command line outside a terminal.
func crumb(t *testing.T, args ...string) (status int, out, errs string) {
	t.Helper()
	var stdout, stderr bytes.Buffer
	std := terminal.Stdio{In: strings.NewReader(""), Out: &stdout, Err: &stderr, Env: func(string) (string, bool) { return "", false }}
	status = Main(context.WithoutCancel(t.Context()), args, std)
	return status, stdout.String(), stderr.String()
}

// An init that found no room leaves some of the streams. The next one goes on from
// there, whichever stream is the first that is missing.
func TestInit_GoesOnWhereTheRoomWasUsedUp(t *testing.T) {
	t.Parallel()
	for name, storeMax := range map[string]int64{"TOOLCALLS or MODELCALLS is missing": 10e9, "CRUMBS is missing": 40e9} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			url := serverOf(t, storeMax)
			status, _, errs := crumb(t, "init", "--server", url)
			if status != statusUsage || !strings.Contains(errs, "no room for stream ") || !strings.Contains(errs, "`crumb --server "+url+" init --size small`") {
				t.Fatalf("status %d: %s", status, errs)
			}
			for range 2 {
				if status, _, errs := crumb(t, "init", "--size", "small", "--server", url); status != statusCompleted {
					t.Fatalf("--size small: status %d: %s", status, errs)
				}
			}
			conn, err := mesh.Connect(t.Context(), mesh.ConnectConfig{Server: url, Name: "test"})
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(conn.Close)
			if _, err := conn.Adopt(t.Context()); err != nil {
				t.Fatal(err)
			}
			drift, err := conn.Drift(t.Context(), mesh.Topology{Groups: map[string]int{agent.DefaultGroup: 0}, Providers: map[string]int{agent.ScriptProvider: 0}})
			if err != nil || len(drift) > 0 {
				t.Errorf("drift %+v, %v", drift, err)
			}
		})
	}
}

// What a file says of a group goes before what the project says of it: a limit, and
// nothing when it names none.
func TestInit_LimitsOfProjectAndFile(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	for name, text := range map[string]string{
		"crumb.yaml":                      "groups:\n  ledger: {maxInFlight: 4}\n  payments: {maxInFlight: 20}\n",
		"agents/clerk/agent.yaml":         "model: {provider: script, model: clerk}\n",
		"agents/clerk/prompt.md":          "Do it.\n",
		"agents/clerk/scripts/clerk.yaml": "turns:\n  - text: Done.\n",
	} {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	file := configOf(t, "group: [ledger, payments=7, other]\nprovider: [script]\nsize: small\n")
	status, out, errs := crumb(t, "init", "--server", serverOf(t, 40e9), "--dir", dir, "--config", file, "--json")
	var got made
	if err := json.Unmarshal([]byte(out), &got); status != statusCompleted || err != nil {
		t.Fatalf("status %d, %v: %s%s", status, err, out, errs)
	}
	if want := map[string]int{"ledger": 4, "payments": 7, "other": 0, agent.DefaultGroup: 0}; !maps.Equal(got.Groups, want) {
		t.Errorf("groups %v, want %v", got.Groups, want)
	}
}

// The help names what exists.
func TestInit_HelpNamesTheQueues(t *testing.T) {
	t.Parallel()
	if _, out, _ := crumb(t, "init", "--help"); !strings.Contains(strings.Join(strings.Fields(out), " "), "The group scripts and the provider script always get a queue.") {
		t.Error(out)
	}
}

// Who deploys finds every service in one place.
func TestHelp_ListsTheServices(t *testing.T) {
	t.Parallel()
	_, out, _ := crumb(t, "--help")
	_, services, _ := strings.Cut(out, "Services of a deployment:")
	for _, name := range []string{"crumb approvals --key-file", "orchestrator", "toolexec", "modelgw"} {
		if !strings.Contains(services, name) {
			t.Errorf("%s is not under the services:\n%s", name, out)
		}
	}
}
