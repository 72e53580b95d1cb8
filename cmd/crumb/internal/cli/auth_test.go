package cli

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/crumbmesh/crumbmesh/cmd/crumb/internal/terminal"
)

// A rotation says what is left to do, in its order: a key that is finished before the
// servers have the new one shuts the processes out.
func TestInitAuth_ARotationSaysWhatIsNext(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	say := func(args ...string) string {
		t.Helper()
		var out, errOut bytes.Buffer
		if status := Main(t.Context(), append([]string{"init", "--auth", dir, "--group", "a"}, args...), terminal.Stdio{In: strings.NewReader(""), Out: &out, Err: &errOut}); status != 0 {
			t.Fatalf("%v: status %d: %s", args, status, &errOut)
		}
		return errOut.String()
	}
	if text := say(); strings.Contains(text, "next ") || !strings.Contains(text, "all that a NATS server gets") {
		t.Errorf("without a rotation: %s", text)
	}
	for _, c := range []struct {
		args []string
		want []string // in this order
	}{
		{[]string{"--rotate", "client"}, []string{"next 1", "kill -HUP", "Reloaded server configuration", "next 2", "keys/client.nk", "next 3", "--rotate client --finish"}},
		{[]string{"--rotate", "client", "--finish"}, []string{"next 1", "Reloaded server configuration", "believed until then"}},
		{[]string{"--rotate", "approvals-key"}, []string{"next 1", "orchestrators and the workers", "next 2", "approvals service", "next 3", "--rotate approvals-key --finish"}},
		{[]string{"--rotate", "approvals-key", "--finish"}, []string{"next 1", "restart"}},
	} {
		rest := say(c.args...)
		for _, want := range c.want {
			_, after, found := strings.Cut(rest, want)
			if !found {
				t.Errorf("%v: %q is missing or out of order in %s", c.args, want, rest)
				break
			}
			rest = after
		}
	}
	conf := filepath.Join(dir, "nats", "nats-server.conf")
	if err := os.WriteFile(conf, []byte("include accounts.conf\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if text := say("--tls"); !strings.Contains(text, "does not include tls.conf") {
		t.Errorf("TLS that no server has: %s", text)
	}
}
