package cli

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/alecthomas/kong"

	"github.com/crumbmesh/crumbmesh/cmd/crumb/internal/terminal"
)

// invoked is the invocation of a command line, in an environment.
func invoked(t *testing.T, environment map[string]string, args ...string) *invocation {
	t.Helper()
	var line commands
	app, err := kong.New(&line, kong.Resolvers(&configFile{}), kong.Bind(&invocation{}))
	if err != nil {
		t.Fatal(err)
	}
	parsed, err := app.Parse(args)
	if err != nil {
		t.Fatal(err)
	}
	return &invocation{globals: &line.globals, connection: connectionFlags(parsed), std: terminal.Stdio{Env: func(name string) (string, bool) { v, ok := environment[name]; return v, ok }}}
}

// A command that is printed reaches the same mesh when it is copied, as a role that
// may give it.
func TestCopied_CommandsReachTheMesh(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	for role, text := range map[string]string{"client": "server: nats://file:1\nnkey: client.nk\ninboxPrefix: _INBOX.client\njsApiPrefix: MESHJS\n",
		"operator": "nkey: operator.nk\ninboxPrefix: _INBOX.operator\n", "approver": "nkey: approver.nk\ninboxPrefix: _INBOX.approver\n"} {
		if err := os.WriteFile(filepath.Join(dir, role+".yaml"), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	client, operator, approver := filepath.Join(dir, "client.yaml"), filepath.Join(dir, "operator.yaml"), filepath.Join(dir, "approver.yaml")
	for name, c := range map[string]struct {
		environment map[string]string
		args        []string
		text, want  string
	}{
		"nothing said":       {nil, []string{"doctor"}, "crumb dead list", "crumb dead list"},
		"server":             {nil, []string{"doctor", "--server", "nats://a:1"}, "look with `crumb approvals show r.1.0`, then approve it", "look with `crumb --server nats://a:1 approvals show r.1.0`, then approve it"},
		"in a sentence":      {nil, []string{"doctor", "--server", "nats://a:1"}, "nats consumer rm A b, then crumb init", "nats consumer rm A b, then crumb --server nats://a:1 init"},
		"not the mesh":       {nil, []string{"doctor", "--server", "nats://a:1"}, "`crumb dev`, crumbmesh init, `crumb init --help`", "`crumb dev`, crumbmesh init, `crumb init --help`"},
		"own role":           {nil, []string{"explain", "r", "--config", client}, "crumb runs cancel r", "crumb --config " + client + " runs cancel r"},
		"approve":            {nil, []string{"explain", "r", "--config", client}, "crumb approvals approve r.1.0", "crumb --config " + approver + " approvals approve r.1.0"},
		"dead":               {nil, []string{"explain", "r", "--config", client}, "crumb dead list", "crumb --config " + operator + " dead list"},
		"a role not beside":  {nil, []string{"doctor", "--config", operator}, "crumb toolexec --group g --dir DIR", "crumb --config DIR/toolexec-g.yaml toolexec --group g --dir DIR"},
		"the approver":       {nil, []string{"approvals", "list", "--config", approver}, "crumb approvals approve r.1.0", "crumb --config " + approver + " approvals approve r.1.0"},
		"flags of the role":  {nil, []string{"run", "a", "--server", "nats://a:1", "--nkey", "/c.nk", "--inbox-prefix", "_INBOX.client"}, "crumb approvals approve r", "crumb --server nats://a:1 --config DIR/approver.yaml approvals approve r"},
		"a role of the env.": {map[string]string{"NATS_NKEY": "/c.nk"}, []string{"run", "a", "--inbox-prefix", "_INBOX.client"}, "crumb approvals approve r", "env -u NATS_NKEY crumb --config DIR/approver.yaml approvals approve r"},
		"accounts of others": {nil, []string{"run", "a", "--nkey", "/c.nk"}, "crumb approvals approve r", "crumb --nkey /c.nk approvals approve r"},
		"quoted":             {nil, []string{"doctor", "--nkey", "/my keys/c.nk"}, "crumb dead list", "crumb --nkey '/my keys/c.nk' dead list"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if got := invoked(t, c.environment, c.args...).calls(c.text); got != c.want {
				t.Errorf("got  %s\nwant %s", got, c.want)
			}
		})
	}
	if i := invoked(t, nil, "run", "a", "--config", client); i.mayAnswer() {
		t.Error("a client is asked")
	}
	if i := invoked(t, nil, "run", "a", "--config", approver); !i.mayAnswer() {
		t.Error("an approver is not asked")
	}
}
