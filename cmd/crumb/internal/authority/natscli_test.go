package authority_test

import (
	"encoding/json"
	"os"
	"testing"

	"github.com/crumbmesh/crumbmesh/cmd/crumb/internal/authority"
	"github.com/crumbmesh/crumbmesh/pkg/mesh"
	"github.com/crumbmesh/crumbmesh/pkg/mesh/access"
)

// The contexts of `nats` let their roles in, under the names that it reads; every role
// has a way in, by crumb or by nats.
func TestWrite_ContextsOfNats(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	a := open(t, dir, authority.Request{Groups: []string{"demo"}, Providers: []string{"script"}, Hosts: []string{"localhost", "127.0.0.1"}})
	s := serve(t, dir)
	var have []string
	for _, r := range a.Mesh().Roles() {
		file := a.CLI(r)
		if file == "" {
			if a.Settings(r) == "" {
				t.Errorf("%s has no way in", r.Name)
			}
			continue
		}
		have = append(have, r.Name)
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		var c map[string]string
		if err := json.Unmarshal(text, &c); err != nil {
			t.Fatal(err)
		}
		if c["url"] != mesh.DefaultServer {
			t.Errorf("%s: %s", r.Name, text)
		}
		if _, err := connect(t, s, mesh.Access{NKey: c["nkey"], CA: c["ca"], Cert: c["cert"], Key: c["key"], APIPrefix: c["jetstream_api_prefix"], InboxPrefix: c["inbox_prefix"]}); err != nil {
			t.Errorf("%s: %v", r.Name, err)
		}
	}
	if want := []string{access.RoleProvisioner, access.RoleBackup, access.RoleOperator, access.RoleSystem}; len(have) != len(want) {
		t.Errorf("contexts of %v, want %v", have, want)
	}
}
