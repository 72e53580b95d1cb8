package mesh_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/nats-io/nats.go"

	"github.com/crumbmesh/crumbmesh/internal/meshtest"
	"github.com/crumbmesh/crumbmesh/pkg/crumbs"
	"github.com/crumbmesh/crumbmesh/pkg/fault"
	"github.com/crumbmesh/crumbmesh/pkg/mesh"
)

// A stream with messages is never made again: one that has what the backup has is
// there, one that ends before is another mesh's.
func TestRestore_KeepsWhatHasMessages(t *testing.T) {
	t.Parallel()
	m := meshtest.Start(t)
	if _, err := m.Conn.JS.PublishMsg(t.Context(), &nats.Msg{Subject: "crumb.writer.run_1.step.end"}); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		last string
		code fault.Code
	}{{"1", ""}, {"2", fault.InvalidConfig}} {
		dir := t.TempDir()
		for name, text := range map[string]string{
			"backup.json":   `{"config":{"name":"` + crumbs.StreamCrumbs + `"},"state":{"messages":1,"last_seq":` + c.last + `}}`,
			"stream.arc.s2": "",
		} {
			file := filepath.Join(dir, crumbs.StreamCrumbs, name)
			if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		backups, err := mesh.ReadBackups(dir)
		if err != nil {
			t.Fatal(err)
		}
		got, err := m.Conn.Restore(t.Context(), backups[0])
		if fault.CodeOf(err) != c.code || got.There != (c.code == "") {
			t.Errorf("a backup that ends at %s: %+v, %v; want the code %q", c.last, got, err, c.code)
		}
		if last, err := m.Conn.Message(t.Context(), crumbs.StreamCrumbs, 1); last == nil || err != nil {
			t.Fatalf("the message is gone: %v", err)
		}
	}
}
