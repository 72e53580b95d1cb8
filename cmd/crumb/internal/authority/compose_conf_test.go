package authority_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/nats-io/nats-server/v2/server"

	"github.com/crumbmesh/crumbmesh/cmd/crumb/internal/authority"
	"github.com/crumbmesh/crumbmesh/pkg/mesh/access"
)

// The servers' configuration of compose.accounts.yaml, with the folder where that
// mounts it, is one: JetStream and the cluster of nats.conf, the accounts of the folder.
func TestComposeConf_HasTheAccounts(t *testing.T) {
	t.Parallel()
	etc, dir := t.TempDir(), t.TempDir()
	open(t, dir, authority.Request{Groups: []string{"demo"}, Providers: []string{"script"}})
	for _, name := range []string{"nats.conf", "nats.accounts.conf"} {
		text, err := os.ReadFile(filepath.Join("..", "..", "..", "..", "deploy", "compose", name))
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(etc, name), text, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Symlink(filepath.Join(dir, "nats"), filepath.Join(etc, "accounts")); err != nil {
		t.Fatal(err)
	}
	o, err := server.ProcessConfigFile(filepath.Join(etc, "nats.accounts.conf"))
	if err != nil {
		t.Fatal(err)
	}
	if !o.JetStream || !o.SyncAlways || o.Cluster.Name == "" || len(o.Routes) != 3 {
		t.Errorf("JetStream %v, sync always %v, cluster %q of %d", o.JetStream, o.SyncAlways, o.Cluster.Name, len(o.Routes))
	}
	if o.SystemAccount != access.AccountSystem || len(o.Nkeys) != len((access.Mesh{Groups: []string{"demo"}, Providers: []string{"script"}}).Roles()) {
		t.Errorf("system account %q, %d users", o.SystemAccount, len(o.Nkeys))
	}
}
