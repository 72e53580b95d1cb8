package authority_test

import (
	"flag"
	"os"
	"path/filepath"
	"regexp"
	"testing"

	"github.com/nats-io/nkeys"

	"github.com/crumbmesh/crumbmesh/pkg/mesh/access"
)

var update = flag.Bool("update", false, "write deploy/nats again")

// exampleConf is what the table of roles comes to for a mesh of two groups.
const exampleConf = "../../../../deploy/nats/accounts.conf"

var userLine = regexp.MustCompile(`# (\S+)\n\s+\{ nkey: (U[A-Z2-7]+)`)

// deploy/nats/accounts.conf is what `crumb init --auth` makes, with the public keys
// of nobody: their seeds were thrown away.
func TestExampleConf_IsFresh(t *testing.T) {
	t.Parallel()
	m := access.Mesh{Groups: []string{"payments", "research"}, Providers: []string{"script"}}
	text, err := os.ReadFile(exampleConf)
	if err != nil && !*update {
		t.Fatal(err)
	}
	users := access.Users{}
	for _, found := range userLine.FindAllStringSubmatch(string(text), -1) {
		users[found[1]] = []string{found[2]}
	}
	for _, r := range m.Roles() {
		if len(users[r.Name]) > 0 {
			continue
		}
		pair, err := nkeys.CreateUser()
		if err != nil {
			t.Fatal(err)
		}
		public, err := pair.PublicKey()
		if err != nil {
			t.Fatal(err)
		}
		users[r.Name] = []string{public}
	}
	want := m.Accounts(users)
	if *update {
		if err := os.MkdirAll(filepath.Dir(exampleConf), 0o750); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(exampleConf, []byte(want), 0o600); err != nil {
			t.Fatal(err)
		}
		return
	}
	if string(text) != want {
		t.Error("deploy/nats/accounts.conf is not what the table says; go test ./cmd/crumb/internal/authority -update")
	}
}
