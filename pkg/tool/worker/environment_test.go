package worker_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/crumbmesh/crumbmesh/pkg/decision"
	"github.com/crumbmesh/crumbmesh/pkg/fault"
	"github.com/crumbmesh/crumbmesh/pkg/mesh"
	"github.com/crumbmesh/crumbmesh/pkg/tool/worker"
)

func environment(t *testing.T, variables map[string]string) (worker.Environment, error) {
	t.Helper()
	return worker.FromEnvironment(func(name string) string { return variables[name] })
}

func signed(t *testing.T) string {
	t.Helper()
	return decision.NewKey().Public()
}

// Every variable arrives where it belongs.
func TestFromEnvironment_Variables(t *testing.T) {
	t.Parallel()
	e, err := environment(t, map[string]string{
		"NATS_URL": "tls://n:1", "NATS_NKEY": "/k/seed", "CRUMB_TLS_CA": "/k/ca", "CRUMB_TLS_CERT": "/k/crt", "CRUMB_TLS_KEY": "/k/key",
		"CRUMB_JS_API_PREFIX": "MESHJS", "CRUMB_INBOX_PREFIX": "_INBOX.toolexec-a", "CRUMB_GROUP": "a",
		"CRUMB_APPROVALS_PUBKEY": signed(t) + ", " + signed(t), "CRUMB_SLOTS": "3", "CRUMB_GRACE": "1m", "CRUMB_LOG_FORMAT": "json",
	})
	if err != nil {
		t.Fatal(err)
	}
	want := mesh.Access{NKey: "/k/seed", CA: "/k/ca", Cert: "/k/crt", Key: "/k/key", APIPrefix: "MESHJS", InboxPrefix: "_INBOX.toolexec-a"}
	if e.Mesh.Access != want || e.Mesh.Server != "tls://n:1" {
		t.Errorf("connects to %s as %+v, want %+v", e.Mesh.Server, e.Mesh.Access, want)
	}
	if e.Worker.Group != "a" || e.Worker.Slots != 3 || e.Worker.Grace != time.Minute || e.Worker.Verify == nil {
		t.Errorf("serves %+v", e.Worker)
	}
	e, err = environment(t, map[string]string{"CRUMB_GROUP": "a", "CRUMB_APPROVALS_PUBKEY": signed(t)})
	if err != nil || e.Mesh.Server != mesh.DefaultServer || e.Mesh.Access != (mesh.Access{}) {
		t.Errorf("with the least: %+v, %v", e.Mesh, err)
	}
}

// A file's paths start at its folder; a variable goes before it, an empty one does not.
func TestFromEnvironment_File(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "toolexec-a.yaml")
	text := "server: nats://n:1\nnkey: keys/a.nk\ninboxPrefix: _INBOX.toolexec-a\njsApiPrefix: MESHJS\ngroup: a\ngrace: 5s\napprovalsPubkey: [" + signed(t) + "]\n"
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	e, err := environment(t, map[string]string{"CRUMB_CONFIG": file, "CRUMB_GROUP": "b", "NATS_URL": ""})
	if err != nil {
		t.Fatal(err)
	}
	want := mesh.Access{NKey: filepath.Join(filepath.Dir(file), "keys", "a.nk"), APIPrefix: "MESHJS", InboxPrefix: "_INBOX.toolexec-a"}
	if e.Mesh.Access != want || e.Mesh.Server != "nats://n:1" || e.Worker.Group != "b" || e.Worker.Grace != 5*time.Second {
		t.Errorf("got %s %+v %+v", e.Mesh.Server, e.Mesh.Access, e.Worker)
	}
	if err := os.WriteFile(file, []byte("approvalsPubkey: "+signed(t)+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := environment(t, map[string]string{"CRUMB_CONFIG": file, "CRUMB_GROUP": "a"}); err != nil {
		t.Errorf("one key that is no list: %v", err)
	}
	if err := os.WriteFile(file, []byte("inboxprefix: x\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := environment(t, map[string]string{"CRUMB_CONFIG": file}); fault.CodeOf(err) != fault.InvalidConfig || !strings.Contains(err.Error(), "inboxPrefix") {
		t.Errorf("a key that is none: %v", err)
	}
}

// What is wrong is named as whoever sets it knows it.
func TestFromEnvironment_NamesWhatIsWrong(t *testing.T) {
	t.Parallel()
	for variable, value := range map[string]string{
		"CRUMB_GROUP": "", "CRUMB_APPROVALS_PUBKEY": "", "CRUMB_SLOTS": "0", "CRUMB_GRACE": "-1s", "CRUMB_LOG_LEVEL": "loud", "CRUMB_LOG_FORMAT": "xml", "CRUMB_CONFIG": filepath.Join(t.TempDir(), "none"),
	} {
		variables := map[string]string{"CRUMB_GROUP": "a", "CRUMB_APPROVALS_PUBKEY": signed(t)}
		variables[variable] = value
		if _, err := environment(t, variables); fault.CodeOf(err) != fault.InvalidConfig || !strings.Contains(err.Error(), variable) {
			t.Errorf("%s=%q: %v", variable, value, err)
		}
	}
	if _, err := environment(t, map[string]string{"CRUMB_GROUP": "a", "CRUMB_APPROVALS_PUBKEY": "short"}); fault.CodeOf(err) != fault.InvalidConfig || !strings.Contains(err.Error(), "CRUMB_APPROVALS_PUBKEY") {
		t.Errorf("a key that is none: %v", err)
	}
}
