package worker_test

import (
	"context"
	"testing"
	"time"

	"github.com/crumbmesh/crumbmesh/internal/meshtest"
	"github.com/crumbmesh/crumbmesh/pkg/crumbs"
	"github.com/crumbmesh/crumbmesh/pkg/fault"
	"github.com/crumbmesh/crumbmesh/pkg/mesh"
	"github.com/crumbmesh/crumbmesh/services/modelgw/internal/worker/gatewaytest"
)

func TestWorker_CancelInMidStream(t *testing.T) {
	t.Parallel()
	meshtest.Virtual(t, func(t *testing.T) {
		b := gatewaytest.Start(t)
		a, started := hangs()
		serve(t, b, a)
		for _, run := range []crumbs.RunID{"run_1", "run_2"} {
			b.Send(gatewaytest.Call(run))
			<-started
		}
		b.Cancel("run_1", "run_1.1.0") // another call of the run
		b.Cancel("run_2", "run_2.1.0", "run_2.1.m")
		if r := b.Result(); r.RunID != "run_2" || r.Status != crumbs.StatusCancelled || r.Deltas != 1 || r.Message != nil || r.Retryable {
			t.Fatalf("result: %+v", r.ModelResult)
		}
		b.Cancel("run_1")
		if r := b.Result(); r.RunID != "run_1" || r.Status != crumbs.StatusCancelled {
			t.Fatalf("result: %+v", r.ModelResult)
		}
	})
}

// ctl.cancel got lost: the revoked claim stops the call at the next heartbeat.
func TestWorker_P5_RevokedInMidStream(t *testing.T) {
	t.Parallel()
	meshtest.Virtual(t, func(t *testing.T) {
		b := gatewaytest.Start(t)
		a, started := hangs()
		stop := serve(t, b, a)
		b.Send(gatewaytest.Call("run_1"))
		<-started
		revoked := time.Now()
		if started, err := b.Conn.Claims().Revoke(context.Background(), claimOfRun1); err != nil || !started {
			t.Fatalf("revoke: %v %v", started, err)
		}
		if r := b.Result(); r.Status != crumbs.StatusCancelled {
			t.Errorf("result: %+v", r.ModelResult)
		}
		if took := time.Since(revoked); took > 2*b.Conn.Settings.Heartbeat() {
			t.Errorf("stopped after %s, want within two heartbeats of %s", took, b.Conn.Settings.Heartbeat())
		}
		stop()
	})
}

func TestWorker_Deadline(t *testing.T) {
	t.Parallel()
	meshtest.Virtual(t, func(t *testing.T) {
		b := gatewaytest.Start(t)
		a, _ := hangs()
		stop := serve(t, b, a)
		call := gatewaytest.Call("run_1")
		call.DeadlineAt = crumbs.At(time.Now().Add(3 * time.Second))
		b.Send(call)
		r := b.Result()
		if r.Status != crumbs.StatusError || code(r) != fault.ModelTimeout || !r.Retryable || r.Deltas != 1 {
			t.Errorf("result: %+v", r.ModelResult)
		}
		if r.DurationMs < 2900 || r.DurationMs > 3100 {
			t.Errorf("durationMs %d, want about 3000", r.DurationMs)
		}
		stop()
	})
}

// The deadline passed while the request waited: nobody is asked, and the run
// hears of it.
func TestWorker_DeadlineBeforeTheStart(t *testing.T) {
	t.Parallel()
	b := gatewaytest.Start(t)
	a := says("late")
	call := gatewaytest.Call("run_1")
	call.DeadlineAt = crumbs.At(time.Now().Add(-time.Second))
	if err := handler(t, b, a)(context.Background(), delivery(b, call, 1)); err != nil {
		t.Fatal(err)
	}
	if r := b.Result(); code(r) != fault.ModelTimeout || a.calls.Load() != 0 {
		t.Fatalf("%d calls, result %+v", a.calls.Load(), r.ModelResult)
	}
}

// A stopping gateway gives back what it cannot finish: no result, and another
// gateway takes the call without waiting for AckWait.
func TestWorker_ShutdownGivesTheCallBack(t *testing.T) {
	t.Parallel()
	meshtest.Virtual(t, func(t *testing.T) {
		b := gatewaytest.Start(t)
		a, started := hangs()
		stop := serve(t, b, a, func(c *mesh.ConsumeConfig) { c.Grace = time.Second })
		b.Send(gatewaytest.Call("run_1"))
		<-started
		stop()
		if n := b.Waiting(crumbs.StreamInbox); n != 0 {
			t.Errorf("%d results of a stopped gateway", n)
		}
		stopped := time.Now()
		stop = serve(t, b, says("taken over"))
		if r := b.Result(); r.Status != crumbs.StatusOK || r.Message.Parts[0].Text != "taken over" {
			t.Errorf("result: %+v", r.ModelResult)
		}
		if took := time.Since(stopped); took >= b.Conn.Settings.AckWait {
			t.Errorf("taken over after %s, want less than AckWait", took)
		}
		stop()
	})
}

// Rollouts replace a gateway in the middle of an answer more often than a call may
// be started.
func TestWorker_P20_ShutdownCostsNoStart(t *testing.T) {
	t.Parallel()
	meshtest.Virtual(t, func(t *testing.T) {
		b := gatewaytest.Start(t)
		b.Send(gatewaytest.Call("run_1"))
		for range 2 * mesh.StartsMax {
			a, started := hangs()
			stop := serve(t, b, a, func(c *mesh.ConsumeConfig) { c.Grace = time.Second })
			<-started
			stop()
			if c, err := b.Conn.Claims().Get(context.Background(), claimOfRun1); err != nil || c.State != mesh.ClaimReleased || c.Starts != 0 {
				t.Fatalf("claim %+v, %v", c, err)
			}
		}
		start := time.Now()
		stop := serve(t, b, says("at last"))
		if r := b.Result(); r.Status != crumbs.StatusOK || !time.Now().Equal(start) {
			t.Errorf("after %s: %+v", time.Since(start), r.ModelResult)
		}
		stop()
	})
}
