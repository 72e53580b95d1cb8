package mesh_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/crumbmesh/crumbmesh/pkg/mesh"
)

func TestEvery_CallsUntilStopped(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var calls []time.Duration
		begun := time.Now()
		stop := mesh.Every(time.Second, func() { calls = append(calls, time.Since(begun)) })
		<-time.After(3*time.Second + time.Millisecond)
		synctest.Wait()
		stop()
		stop() // again is harmless
		<-time.After(5 * time.Second)
		synctest.Wait()
		if len(calls) != 3 || calls[0] != time.Second || calls[2] != 3*time.Second {
			t.Errorf("calls at %v, want 1s 2s 3s", calls)
		}
	})
}

// A call that takes longer than the interval is not called beside itself, and a
// stop from within it is the last word.
func TestEvery_OneAtATime(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var running, calls int
		stops := make(chan func(), 1)
		stops <- mesh.Every(time.Second, func() {
			if running++; running > 1 {
				t.Error("two calls at once")
			}
			<-time.After(3 * time.Second)
			running--
			if calls++; calls == 2 {
				(<-stops)()
			}
		})
		<-time.After(time.Minute)
		synctest.Wait()
		if calls != 2 {
			t.Errorf("%d calls, want 2", calls)
		}
	})
}
