package mesh_test

import (
	"bytes"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/crumbmesh/crumbmesh/internal/meshtest"
	"github.com/crumbmesh/crumbmesh/pkg/crumbs"
	"github.com/crumbmesh/crumbmesh/pkg/fault"
	"github.com/crumbmesh/crumbmesh/pkg/mesh"
)

func TestConnect_ErrorsNameNoPassword(t *testing.T) {
	t.Parallel()
	for server, want := range map[string]string{
		"nats://ada:s3cr3t-canary@127.0.0.1:1":                         "nats://ada:[NATS_PASSWORD]@127.0.0.1:1:",
		"nats://s3cr3t-canary@127.0.0.1:1":                             "nats://[NATS_PASSWORD]@127.0.0.1:1:",
		"ada:s3cr3t-canary@127.0.0.1:1":                                "at ada:[NATS_PASSWORD]@127.0.0.1:1:",
		"nats://a:pw@127.0.0.1:1,nats://ada:s3cr3t-canary@127.0.0.1:1": "nats://a:[NATS_PASSWORD]@127.0.0.1:1,nats://ada:[NATS_PASSWORD]@127.0.0.1:1:",
		"nats://ada:s3cr3t-canary@127.0.0.1:noport":                    "nats://ada:[NATS_PASSWORD]@127.0.0.1:noport:",
		"nats://ada:s3cr3t%2Dcanary@127.0.0.1:1":                       "nats://ada:[NATS_PASSWORD]@127.0.0.1:1:",
		"nats://127.0.0.1:1":                                           "nats://127.0.0.1:1:",
	} {
		_, err := mesh.Connect(t.Context(), mesh.ConnectConfig{Server: server})
		if fault.CodeOf(err) != fault.Unavailable || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "canary") || strings.Contains(err.Error(), ":pw@") {
			t.Errorf("%s: %v", server, err)
		}
	}
}

// The credentials of the connection are the process's first secrets, and its log
// has none.
func TestConnect_F158_LogMasksCredentials(t *testing.T) {
	t.Parallel()
	const seed = "SUADMJTTAJA6MIK3G3PRUEUDDZYLGTGOJKNOGQTEGRITLPOKGONBMTPNBI"
	path := filepath.Join(t.TempDir(), "user.creds")
	if err := os.WriteFile(path, []byte("-----BEGIN USER NKEY SEED-----\n"+seed+"\n------END USER NKEY SEED------\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	m := meshtest.Start(t)
	conn, err := mesh.Connect(t.Context(), mesh.ConnectConfig{InProcess: m.Server, Access: mesh.Access{Creds: path}, Logger: slog.New(slog.NewJSONHandler(&out, nil))})
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if err := conn.Secrets.Add("KEY", "sk-marker-123"); err != nil {
		t.Fatal(err)
	}
	conn.Log.Info("using "+seed, "error", fault.New(fault.ModelError, "401 for sk-marker-123"))
	if got := out.String(); strings.Contains(got, seed) || strings.Contains(got, "sk-marker") || !strings.Contains(got, "[NATS_CREDS]") || !strings.Contains(got, "[KEY]") {
		t.Error(got)
	}
}

// What only a tool provider may see is not kept in a dead letter, which says so.
func TestDeadLetter_WithholdsWhatIsForOneReceiver(t *testing.T) {
	t.Parallel()
	m := meshtest.Start(t)
	if err := m.Conn.Secrets.Add("KEY", "sk-marker-123"); err != nil {
		t.Fatal(err)
	}
	body := `{"runId":"run_1","input":{"n":12345678901234567890},"toolProviderContext":{"key":"s3cr3t-canary"},"principalToken":"s3cr3t-canary","list":[{"toolProviderContext":"s3cr3t-canary"}]}`
	d := &mesh.Delivery{Subject: "run.request.a", Data: []byte(body)}
	if _, err := m.Conn.DeadLetter(t.Context(), crumbs.StreamRequests, "run_1", d, fault.New(fault.InvalidMessage, "bad key sk-marker-123")); err != nil {
		t.Fatal(err)
	}
	got, err := m.Conn.Last(t.Context(), crumbs.StreamDead, "dead.>")
	if err != nil || got == nil {
		t.Fatalf("%v, %v", got, err)
	}
	want := `{"input":{"n":12345678901234567890},"list":[{"toolProviderContext":"[toolProviderContext]"}],"principalToken":"[principalToken]","runId":"run_1","toolProviderContext":"[toolProviderContext]"}`
	if string(got.Data) != want {
		t.Errorf("got  %s\nwant %s", got.Data, want)
	}
	if h := got.Header.Get(mesh.DeadWithheld); h != "principalToken,toolProviderContext" {
		t.Errorf("withheld %q", h)
	}
	if h := got.Header.Get("crumb-dead-reason"); h != "bad key [KEY]" {
		t.Errorf("reason %q", h)
	}
}
