package mesh

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/crumbmesh/crumbmesh/pkg/fault"
)

// The first chunk of a restore may find nobody, since where it goes is known before
// whoever listens there is. Given up then, the server keeps an empty stream.
func TestHanded_WaitsForWhoTakesIt(t *testing.T) {
	t.Parallel()
	taken := &nats.Msg{}
	for _, c := range []struct {
		name    string
		unheard int
		then    error
		want    error
	}{
		{"at once", 0, nil, nil},
		{"in a moment", unheardTries - 1, nil, nil},
		{"never", unheardTries, nil, nats.ErrNoResponders},
		{"a chunk that may have been taken is not sent twice", 2, nats.ErrTimeout, nats.ErrTimeout},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				asked, begun := 0, time.Now()
				got, err := handed(t.Context(), func() (*nats.Msg, error) {
					if asked++; asked <= c.unheard {
						return nil, nats.ErrNoResponders
					}
					return taken, c.then
				})
				if !errors.Is(err, c.want) || c.want == nil && got != taken {
					t.Errorf("got %v, %v; want %v", got, err, c.want)
				}
				if most := min(c.unheard+1, unheardTries); asked != most {
					t.Errorf("asked %d times, want %d", asked, most)
				}
				if since := time.Since(begun); since >= 5*time.Second {
					t.Errorf("took %s, when the server has given up", since)
				}
			})
		})
	}
}

func TestHanded_EndsWithItsContext(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	_, err := handed(ctx, func() (*nats.Msg, error) {
		cancel()
		return nil, nats.ErrNoResponders
	})
	if !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
}

func TestBehind(t *testing.T) {
	t.Parallel()
	current := func(name string) *jetstream.PeerInfo { return &jetstream.PeerInfo{Name: name, Current: true} }
	for _, c := range []struct {
		name     string
		replicas int
		cluster  *jetstream.ClusterInfo
		want     string
	}{
		{"one server", 1, nil, ""},
		{"one replica on a cluster", 1, &jetstream.ClusterInfo{Leader: "a"}, ""},
		{"all of three", 3, &jetstream.ClusterInfo{Leader: "a", Replicas: []*jetstream.PeerInfo{current("b"), current("c")}}, ""},
		{"no leader", 3, &jetstream.ClusterInfo{Replicas: []*jetstream.PeerInfo{current("b"), current("c")}}, "nobody leads it"},
		{"what a restore that was given up leaves", 3, &jetstream.ClusterInfo{Leader: "a", Replicas: []*jetstream.PeerInfo{{Name: "b", Lag: 2}, current("c")}}, "replica b is behind"},
		{"catching up", 3, &jetstream.ClusterInfo{Leader: "a", Replicas: []*jetstream.PeerInfo{current("b"), {Name: "c", Current: true, Lag: 1}}}, "replica c is behind"},
		{"gone", 3, &jetstream.ClusterInfo{Leader: "a", Replicas: []*jetstream.PeerInfo{{Name: "b", Current: true, Offline: true}, current("c")}}, "replica b is offline"},
		{"too few", 3, &jetstream.ClusterInfo{Leader: "a", Replicas: []*jetstream.PeerInfo{current("b")}}, "replicas are missing"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			if got := behind(&jetstream.StreamInfo{Config: jetstream.StreamConfig{Replicas: c.replicas}, Cluster: c.cluster}); got != c.want {
				t.Errorf("got %q, want %q", got, c.want)
			}
		})
	}
}

func TestReadBackups_SaysWhatIsWrong(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name  string
		files map[string]string
		want  string
	}{
		{"nothing", nil, "holds no backup"},
		{"no description", map[string]string{"INBOX/stream.arc.s2": "x"}, "INBOX is no backup of a stream"},
		{"no JSON", map[string]string{"INBOX/backup.json": "x", "INBOX/stream.arc.s2": "x"}, "does not describe a stream"},
		{"no name", map[string]string{"INBOX/backup.json": "{}", "INBOX/stream.arc.s2": "x"}, "config.name is missing"},
		{"no messages", map[string]string{"INBOX/backup.json": `{"config":{"name":"INBOX"}}`}, "lacks the stream's messages"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			if _, err := ReadBackups(folder(t, c.files)); fault.CodeOf(err) != fault.InvalidConfig || !strings.Contains(err.Error(), c.want) {
				t.Errorf("got %v, want %s with %q", err, fault.InvalidConfig, c.want)
			}
		})
	}
}

func TestReadBackups_OfEachRelease(t *testing.T) {
	t.Parallel()
	meta := `{"config":{"name":"%"},"state":{"messages":2,"last_seq":5,"consumer_count":1}}`
	got, err := ReadBackups(folder(t, map[string]string{
		"CRUMBS/backup.json": strings.Replace(meta, "%", "CRUMBS", 1), "CRUMBS/stream.arc.s2": "x",
		"INBOX/backup.json": strings.Replace(meta, "%", "INBOX", 1), "INBOX/stream.tar.s2": "x",
	}))
	if err != nil || len(got) != 2 || got[0].Stream != "CRUMBS" || got[1].Stream != "INBOX" {
		t.Fatalf("got %+v, %v", got, err)
	}
	if b := got[1]; b.Messages != 2 || b.Last != 5 || b.Consumers != 1 || filepath.Base(b.data) != "stream.tar.s2" {
		t.Errorf("got %+v", b)
	}
}

func folder(t *testing.T, files map[string]string) string {
	t.Helper()
	dir := t.TempDir()
	for name, text := range files {
		file := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}
