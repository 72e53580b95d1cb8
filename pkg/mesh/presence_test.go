package mesh_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/crumbmesh/crumbmesh/internal/meshtest"
	"github.com/crumbmesh/crumbmesh/pkg/crumbs"
	"github.com/crumbmesh/crumbmesh/pkg/mesh"
)

// A worker whose heartbeats are lost for less than its row lives never seems gone:
// it says that it is there at the first moment that it can.
func TestAnnounce_LostHeartbeats(t *testing.T) {
	t.Parallel()
	meshtest.Bubble(t, func(t *testing.T, m *meshtest.Mesh) {
		began := time.Now()
		conn := m.Connect("worker", meshtest.Tap(func(subject string) meshtest.Verdict {
			if since := time.Since(began); strings.HasPrefix(subject, "$KV.workers.") && since > time.Second && since < 11*time.Second {
				return meshtest.Drop
			}
			return meshtest.Pass
		}))
		ctx, leave := context.WithCancel(context.Background())
		p := mesh.Presence{Worker: "w1", Service: "toolexec", Queue: "pay"}
		gone, err := conn.Announce(ctx, p)
		if err != nil {
			t.Fatal(err)
		}
		for time.Since(began) < 30*time.Second {
			<-time.After(500 * time.Millisecond)
			if alive, err := m.Conn.Alive(ctx, crumbs.ToolPresence(p.Queue, p.Worker)); err != nil || !alive {
				t.Fatalf("after %s: alive %v, %v", time.Since(began), alive, err)
			}
		}
		leave()
		<-gone
		if alive, err := m.Conn.Alive(context.Background(), crumbs.ToolPresence(p.Queue, p.Worker)); err != nil || alive {
			t.Errorf("after it left: alive %v, %v", alive, err)
		}
	}, meshtest.WithSettings(func(s *mesh.Settings) { s.PresenceTTL = 12 * time.Second }))
}
