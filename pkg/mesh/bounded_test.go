package mesh_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/crumbmesh/crumbmesh/internal/meshtest"
	"github.com/crumbmesh/crumbmesh/pkg/crumbs"
	"github.com/crumbmesh/crumbmesh/pkg/fault"
)

// A read whose request or answer is lost fails in seconds, however far away its
// caller's deadline is.
func TestRead_LostRequest(t *testing.T) {
	t.Parallel()
	meshtest.Bubble(t, func(t *testing.T, m *meshtest.Mesh) {
		c := m.Connect("lossy", meshtest.Tap(func(subject string) meshtest.Verdict {
			if strings.HasPrefix(subject, "$JS.API.STREAM.MSG.GET.") || strings.HasPrefix(subject, "$JS.API.DIRECT.GET.") {
				return meshtest.Drop
			}
			return meshtest.Pass
		}))
		ctx, cancel := context.WithTimeout(context.Background(), time.Hour)
		defer cancel()
		for name, read := range map[string]func() error{
			"record":  func() error { _, err := c.Bucket(crumbs.BucketRuns).Get(ctx, "run_1"); return err },
			"message": func() error { _, err := c.Message(ctx, crumbs.StreamInbox, 1); return err },
			"blob": func() error {
				_, err := c.Blobs(crumbs.AreaCore).Get(ctx, "run_1/"+strings.Repeat("0", 64))
				return err
			},
		} {
			begun := time.Now()
			if err := read(); fault.CodeOf(err) != fault.Unavailable {
				t.Errorf("%s: %v", name, err)
			}
			if took := time.Since(begun); took > time.Minute {
				t.Errorf("%s: told after %s", name, took)
			}
		}
	})
}
