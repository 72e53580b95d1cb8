package guard_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/nats-io/nats.go"

	"github.com/crumbmesh/crumbmesh/internal/meshtest"
	"github.com/crumbmesh/crumbmesh/pkg/crumbs"
	"github.com/crumbmesh/crumbmesh/pkg/mesh"
	"github.com/crumbmesh/crumbmesh/pkg/mesh/access"
)

// snapshot is a stream as `nats backup` keeps it.
type snapshot struct {
	Config json.RawMessage `json:"config"`
	State  json.RawMessage `json:"state"`
	chunks [][]byte
}

// The role of backups reads a whole stream, and the provisioner makes it again on a
// mesh that does not have it, or has it empty, with its messages and consumers:
// neither needs more than its role allows.
func TestBackup_OneRoleReadsAnotherRestores(t *testing.T) {
	t.Parallel()
	from := newScene(t)
	backups, err := mesh.ReadBackups(take(t, from.attacker(t, access.RoleBackup), crumbs.StreamToolCalls).keep(t))
	if err != nil {
		t.Fatal(err)
	}
	to := &scene{Mesh: meshtest.StartGuarded(t, []string{payments, research}, []string{"script"}), t: t} // every stream is there and empty
	for _, there := range []bool{false, true} {
		got, err := to.ConnectAs(access.RoleProvisioner).Restore(t.Context(), backups[0])
		if err != nil || got.There != there {
			t.Errorf("restored %+v, %v; want that it was there: %t", got, err, there)
		}
	}
	for _, name := range []string{crumbs.StreamToolCalls, crumbs.StreamToolCalls + " group_" + payments, crumbs.StreamToolCalls + " group_" + research} {
		if want, got := from.state()[name], to.state()[name]; got != want || want == "" {
			t.Errorf("%s is %q, was %q", name, got, want)
		}
	}
	for _, s := range []*scene{from, to} {
		if refused := s.Guard.Log("Violation"); len(refused) > 0 {
			t.Errorf("NATS refused %q", refused)
		}
	}
}

// keep writes the folder that `nats backup` would.
func (s snapshot) keep(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	meta, err := json.Marshal(s)
	if err == nil {
		err = os.Mkdir(filepath.Join(dir, "one"), 0o700)
	}
	for name, data := range map[string][]byte{"backup.json": meta, "stream.arc.s2": slices.Concat(s.chunks...)} {
		if err == nil {
			err = os.WriteFile(filepath.Join(dir, "one", name), data, 0o600)
		}
	}
	if err != nil {
		t.Fatal(err)
	}
	return dir
}

func take(t *testing.T, a *attacker, stream string) snapshot {
	t.Helper()
	inbox := a.conn.NewInbox()
	sub, err := a.conn.SubscribeSync(inbox)
	if err != nil {
		t.Fatal(err)
	}
	a.flush()
	answer := a.ask("$JS.API.STREAM.SNAPSHOT."+stream, nil, `{"deliver_subject":"`+inbox+`","chunk_size":131072}`)
	var out snapshot
	if err := json.Unmarshal(answer.Data, &out); err != nil || isError(answer) || out.Config == nil {
		t.Fatalf("a snapshot: %v: %s", err, answer.Data)
	}
	for {
		m, err := sub.NextMsg(answerWait)
		if err != nil {
			t.Fatal(err)
		}
		if len(m.Data) == 0 {
			if status := m.Header.Get("Status"); status != "" && status != "204" {
				t.Fatalf("the snapshot ended with %v", m.Header)
			}
			return out
		}
		out.chunks = append(out.chunks, slices.Clone(m.Data))
		if m.Reply == "" {
			continue // only some chunks are waited for
		}
		if err := a.conn.PublishMsg(&nats.Msg{Subject: m.Reply}); err != nil {
			t.Fatal(err)
		}
	}
}
