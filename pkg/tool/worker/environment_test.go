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
	environment := []string{"PATH=/bin", "LEDGER_TOKEN=t"}
	for name, value := range variables {
		environment = append(environment, name+"="+value)
	}
	return worker.FromEnvironment(environment)
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
		"CRUMB_WAIT": "2m", "CRUMB_HTTP": ":8480",
	})
	if err != nil {
		t.Fatal(err)
	}
	want := mesh.Access{NKey: "/k/seed", CA: "/k/ca", Cert: "/k/crt", Key: "/k/key", APIPrefix: "MESHJS", InboxPrefix: "_INBOX.toolexec-a"}
	if e.Process.Mesh.Access != want || e.Process.Mesh.Server != "tls://n:1" {
		t.Errorf("connects to %s as %+v, want %+v", e.Process.Mesh.Server, e.Process.Mesh.Access, want)
	}
	if e.Worker.Group != "a" || e.Worker.Slots != 3 || e.Worker.Grace != time.Minute || e.Worker.Verify == nil {
		t.Errorf("serves %+v", e.Worker)
	}
	if e.Process.Wait != 2*time.Minute || e.Process.HTTP != ":8480" || e.Process.Service != "toolexec-a" {
		t.Errorf("runs as %+v", e.Process)
	}
	e, err = environment(t, map[string]string{"CRUMB_GROUP": "a", "CRUMB_APPROVALS_PUBKEY": signed(t)})
	if err != nil || e.Process.Mesh.Server != mesh.DefaultServer || e.Process.Mesh.Access != (mesh.Access{}) || e.Process.HTTP != "" {
		t.Errorf("with the least: %+v, %v", e.Process.Mesh, err)
	}
}

// A file's paths start at its folder; a variable goes before it, an empty one does not.
func TestFromEnvironment_File(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "toolexec-a.yaml")
	text := "server: nats://n:1\nnkey: keys/a.nk\nhttp: 127.0.0.1:8482\nwait: 1m\ninboxPrefix: _INBOX.toolexec-a\njsApiPrefix: MESHJS\ngroup: a\ngrace: 5s\napprovalsPubkey: [" + signed(t) + "]\n"
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	e, err := environment(t, map[string]string{"CRUMB_CONFIG": file, "CRUMB_GROUP": "b", "NATS_URL": ""})
	if err != nil {
		t.Fatal(err)
	}
	want := mesh.Access{NKey: filepath.Join(filepath.Dir(file), "keys", "a.nk"), APIPrefix: "MESHJS", InboxPrefix: "_INBOX.toolexec-a"}
	if e.Process.Mesh.Access != want || e.Process.Mesh.Server != "nats://n:1" || e.Worker.Group != "b" || e.Worker.Grace != 5*time.Second ||
		e.Process.HTTP != "127.0.0.1:8482" || e.Process.Wait != time.Minute {
		t.Errorf("got %s %+v %+v", e.Process.Mesh.Server, e.Process.Mesh.Access, e.Worker)
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
		"CRUMB_GROUP": "", "CRUMB_APPROVALS_PUBKEY": "", "CRUMB_SLOTS": "0", "CRUMB_GRACE": "-1s", "CRUMB_WAIT": "0s", "CRUMB_SLOT": "2", "CRUMB_LOG_LEVEL": "loud", "CRUMB_LOG_FORMAT": "xml", "CRUMB_CONFIG": filepath.Join(t.TempDir(), "none"),
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

// A variable of the product that no worker reads is refused, whatever it holds, and
// told from those that one reads; others are nobody's business.
func TestFromEnvironment_UnknownVariable(t *testing.T) {
	t.Parallel()
	for _, value := range []string{"1m", ""} {
		_, err := environment(t, map[string]string{"CRUMB_GROUP": "a", "CRUMB_APPROVALS_PUBKEY": signed(t), "CRUMB_GRASE": value})
		if fault.CodeOf(err) != fault.InvalidConfig || !strings.Contains(err.Error(), "CRUMB_GRASE is no setting of a worker") || !strings.Contains(err.Error(), "CRUMB_GRACE, CRUMB_WAIT, CRUMB_HTTP") {
			t.Errorf("CRUMB_GRASE=%q: %v", value, err)
		}
	}
}

// Every setting can stand in the file, but the one that names it and the one about
// who started the process.
func TestSettings_AreTheKeysOfTheFile(t *testing.T) {
	t.Parallel()
	values := map[string]string{"approvalsPubkey": signed(t), "group": "a", "slots": "3", "grace": "5s", "wait": "5s", "logLevel": "warn", "logFormat": "json"}
	var text strings.Builder
	for _, s := range worker.Settings() {
		if (s.Key == "") != (s.Variable == "CRUMB_CONFIG" || s.Variable == "CRUMB_PARENT") {
			t.Errorf("%s has the key %q", s.Variable, s.Key)
		}
		if s.Key == "" {
			continue
		}
		value, ok := values[s.Key]
		if !ok {
			value = "/some"
		}
		text.WriteString(s.Key + ": " + value + "\n")
	}
	file := filepath.Join(t.TempDir(), "all.yaml")
	if err := os.WriteFile(file, []byte(text.String()), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := environment(t, map[string]string{"CRUMB_CONFIG": file}); err != nil {
		t.Errorf("%v\n%s", err, text.String())
	}
}
