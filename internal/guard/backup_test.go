package guard_test

import (
	"encoding/json"
	"slices"
	"testing"

	"github.com/nats-io/nats.go"

	"github.com/crumbmesh/crumbmesh/internal/meshtest"
	"github.com/crumbmesh/crumbmesh/pkg/crumbs"
	"github.com/crumbmesh/crumbmesh/pkg/mesh/access"
)

// snapshot is a stream as `nats backup` keeps it.
type snapshot struct {
	Config json.RawMessage `json:"config"`
	State  json.RawMessage `json:"state"`
	chunks [][]byte
}

// The role of backups reads a whole stream, and the provisioner makes it again on a
// mesh that does not have it, with its messages and consumers: neither needs more than
// its role allows.
func TestBackup_OneRoleReadsAnotherRestores(t *testing.T) {
	t.Parallel()
	from := newScene(t)
	kept := take(t, from.attacker(t, access.RoleBackup), crumbs.StreamToolCalls)
	to := &scene{Mesh: meshtest.StartGuarded(t, []string{payments, research}, []string{"script"}), t: t}
	if err := to.Conn.JS.DeleteStream(t.Context(), crumbs.StreamToolCalls); err != nil {
		t.Fatal(err)
	}
	restore(t, to.attacker(t, access.RoleProvisioner), crumbs.StreamToolCalls, kept)
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

func restore(t *testing.T, a *attacker, stream string, kept snapshot) {
	t.Helper()
	body, err := json.Marshal(kept)
	if err != nil {
		t.Fatal(err)
	}
	answer := a.ask("$JS.API.STREAM.RESTORE."+stream, nil, string(body))
	var begun struct {
		Deliver string `json:"deliver_subject"`
	}
	if err := json.Unmarshal(answer.Data, &begun); err != nil || begun.Deliver == "" {
		t.Fatalf("a restore: %v: %s", err, answer.Data)
	}
	for _, chunk := range kept.chunks {
		a.ask(begun.Deliver, nil, string(chunk))
	}
	if end := a.ask(begun.Deliver, nil, ""); isError(end) || len(end.Data) == 0 {
		t.Fatalf("the end of a restore: %s", end.Data)
	}
}
