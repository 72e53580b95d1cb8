package mesh_test

import (
	"testing"
	"time"

	"github.com/crumbmesh/crumbmesh/internal/meshtest"
	"github.com/crumbmesh/crumbmesh/pkg/mesh"
)

// A machine that is gone, or cut off, says nothing to its clients. They leave it
// for another server before what they hold is taken for lost.
func TestConnect_LeavesASilentServer(t *testing.T) {
	t.Parallel()
	m := meshtest.Start(t, meshtest.WithListener())
	c, err := mesh.Connect(t.Context(), mesh.ConnectConfig{Server: m.Server.URL(), Name: "worker"})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	opts := c.NATS.Opts
	after := opts.PingInterval * time.Duration(opts.MaxPingsOut+1)
	if present := mesh.DefaultSettings().PresenceTTL; after <= 0 || after >= present {
		t.Errorf("a silent server is left after %v, want sooner than a worker is taken for gone: %v", after, present)
	}
}
