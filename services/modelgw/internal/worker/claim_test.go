package worker_test

import (
	"context"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/crumbmesh/crumbmesh/internal/meshtest"
	"github.com/crumbmesh/crumbmesh/pkg/crumbs"
	"github.com/crumbmesh/crumbmesh/pkg/fault"
	"github.com/crumbmesh/crumbmesh/pkg/mesh"
	"github.com/crumbmesh/crumbmesh/services/modelgw/internal/worker/gatewaytest"
)

// claimOfRun1 is the claim of the first model call of run_1.
const claimOfRun1 = "model." + gatewaytest.Provider + ".run_1.1.m.1"

// A gateway took the claim and died: after AckWait another one runs the call
// again, and one result is left.
func TestWorker_P11_RedeliveryRunsAgain(t *testing.T) {
	t.Parallel()
	meshtest.Virtual(t, func(t *testing.T) {
		b := gatewaytest.Start(t)
		ctx := context.Background()
		seq := b.Send(gatewaytest.Call("run_1"))
		cons, err := b.Conn.JS.Consumer(ctx, crumbs.StreamModelCalls, mesh.ProviderConsumer(gatewaytest.Provider))
		if err != nil {
			t.Fatal(err)
		}
		if _, err := cons.Next(); err != nil {
			t.Fatal(err)
		}
		start := mesh.Start{Key: claimOfRun1, Worker: "dead", MessageSeq: seq, Effect: crumbs.EffectIdempotent}
		if v, _, err := b.Conn.Claims().Begin(ctx, start); err != nil || v != mesh.VerdictRun {
			t.Fatalf("claim: %v %v", v, err)
		}
		before := time.Now()
		a := says("again")
		stop := serve(t, b, a)
		if r := b.Result(); r.Status != crumbs.StatusOK || r.Message.Parts[0].Text != "again" {
			t.Fatalf("result: %+v", r.ModelResult)
		}
		if waited := time.Since(before); waited < 3*time.Second || waited > 8*time.Second {
			t.Errorf("redelivered after %s, want about AckWait", waited)
		}
		stop()
		claim, err := b.Conn.Claims().Get(ctx, claimOfRun1)
		if err != nil || claim.Starts != 2 || claim.Worker != "worker-1" {
			t.Errorf("claim: %+v %v", claim, err)
		}
		if a.calls.Load() != 1 || b.Waiting(crumbs.StreamInbox) != 0 || b.Waiting(crumbs.StreamModelCalls) != 0 {
			t.Errorf("%d calls, %d more results, %d requests left", a.calls.Load(), b.Waiting(crumbs.StreamInbox), b.Waiting(crumbs.StreamModelCalls))
		}
	})
}

func TestWorker_P11_SecondRequestDropped(t *testing.T) {
	t.Parallel()
	meshtest.Virtual(t, func(t *testing.T) {
		b := gatewaytest.Start(t)
		a := says("once")
		stop := serve(t, b, a, oneAtATime)
		for _, run := range []crumbs.RunID{"run_1", "run_1", "run_2"} {
			b.Send(gatewaytest.Call(run))
		}
		if first, second := b.Result(), b.Result(); first.RunID != "run_1" || second.RunID != "run_2" {
			t.Fatalf("results of %s and %s", first.RunID, second.RunID)
		}
		stop()
		if n := a.calls.Load(); n != 2 || b.Waiting(crumbs.StreamInbox) != 0 || b.Waiting(crumbs.StreamModelCalls) != 0 {
			t.Fatalf("%d calls, %d more results, %d requests left", n, b.Waiting(crumbs.StreamInbox), b.Waiting(crumbs.StreamModelCalls))
		}
	})
}

// An attempt whose first request still runs drops the second one at once.
func TestWorker_P11_SecondRequestWhileTheFirstRuns(t *testing.T) {
	t.Parallel()
	meshtest.Virtual(t, func(t *testing.T) {
		b := gatewaytest.Start(t)
		a, started := hangs()
		stop := serve(t, b, a)
		b.Send(gatewaytest.Call("run_1"))
		<-started
		b.Send(gatewaytest.Call("run_1"))
		synctest.Wait()
		if n := b.Waiting(crumbs.StreamModelCalls); n != 1 {
			t.Errorf("%d requests, want only the one that runs", n)
		}
		b.Cancel("run_1")
		b.Result()
		stop()
		if n := a.calls.Load(); n != 1 {
			t.Errorf("%d calls, want 1", n)
		}
	})
}

// The ack of an answered attempt is lost: its redelivery is not paid again.
func TestWorker_LostAck(t *testing.T) {
	t.Parallel()
	b := gatewaytest.Start(t)
	a := says("once")
	h := handler(t, b, a)
	d := delivery(b, gatewaytest.Call("run_1"), 7)
	for range 2 {
		if err := h(context.Background(), d); err != nil {
			t.Fatal(err)
		}
	}
	if r := b.Result(); r.Status != crumbs.StatusOK || a.calls.Load() != 1 || b.Waiting(crumbs.StreamInbox) != 0 {
		t.Fatalf("%d calls, result %+v", a.calls.Load(), r.ModelResult)
	}
}

// Heartbeats were late, so the server delivers a call that runs here again.
func TestWorker_RedeliveryWhileItRuns(t *testing.T) {
	t.Parallel()
	b := gatewaytest.Start(t)
	a, started := hangs()
	h := handler(t, b, a)
	d := delivery(b, gatewaytest.Call("run_1"), 7)
	ctx, cancel := context.WithCancel(context.Background())
	first := make(chan error, 1)
	go func() { first <- h(ctx, d) }()
	<-started
	if err := h(ctx, d); fault.CodeOf(err) != fault.Unavailable || !strings.Contains(err.Error(), "still runs in this process") {
		t.Errorf("second delivery: %v", err)
	}
	cancel()
	if err := <-first; fault.CodeOf(err) != fault.ShuttingDown {
		t.Errorf("a stopped gateway: %v, want SHUTTING_DOWN", err)
	}
	if n := a.calls.Load(); n != 1 || b.Waiting(crumbs.StreamInbox) != 0 {
		t.Errorf("%d calls, %d results", n, b.Waiting(crumbs.StreamInbox))
	}
}

func TestWorker_P5_RevokedBeforeStartNeverAnswers(t *testing.T) {
	t.Parallel()
	meshtest.Virtual(t, func(t *testing.T) {
		b := gatewaytest.Start(t)
		if started, err := b.Conn.Claims().Revoke(context.Background(), claimOfRun1); err != nil || started {
			t.Fatalf("revoke: %v %v", started, err)
		}
		a := says("late")
		stop := serve(t, b, a, oneAtATime)
		b.Send(gatewaytest.Call("run_1"))
		b.Send(gatewaytest.Call("run_2"))
		if r := b.Result(); r.RunID != "run_2" {
			t.Fatalf("result of %s, want none of run_1", r.RunID)
		}
		stop()
		if n := a.calls.Load(); n != 1 || b.Waiting(crumbs.StreamInbox) != 0 || b.Waiting(crumbs.StreamModelCalls) != 0 {
			t.Fatalf("%d calls, %d more results, %d requests left", n, b.Waiting(crumbs.StreamInbox), b.Waiting(crumbs.StreamModelCalls))
		}
	})
}

func TestWorker_P4_NeverStartsAfterStartBefore(t *testing.T) {
	t.Parallel()
	meshtest.Virtual(t, func(t *testing.T) {
		b := gatewaytest.Start(t)
		a := says("late")
		stop := serve(t, b, a, oneAtATime)
		void := gatewaytest.Call("run_1")
		void.StartBefore = crumbs.At(time.Now().Add(-time.Second))
		b.Send(void)
		b.Send(gatewaytest.Call("run_2"))
		if r := b.Result(); r.RunID != "run_2" {
			t.Fatalf("result of %s, want none of run_1", r.RunID)
		}
		stop()
		claim, err := b.Conn.Claims().Get(context.Background(), claimOfRun1)
		if err != nil || claim.State != "" || a.calls.Load() != 1 {
			t.Fatalf("claim %+v %v, %d calls", claim, err, a.calls.Load())
		}
	})
}

// A call that killed three gateways is not given a fourth.
func TestWorker_P7_Poison(t *testing.T) {
	t.Parallel()
	meshtest.Virtual(t, func(t *testing.T) {
		b := gatewaytest.Start(t)
		seq := b.Send(gatewaytest.Call("run_1"))
		for range mesh.StartsMax {
			start := mesh.Start{Key: claimOfRun1, Worker: "dead", MessageSeq: seq, Effect: crumbs.EffectIdempotent}
			if v, _, err := b.Conn.Claims().Begin(context.Background(), start); err != nil || v != mesh.VerdictRun {
				t.Fatalf("claim: %v %v", v, err)
			}
		}
		a := says("fourth")
		stop := serve(t, b, a)
		if r := b.Result(); code(r) != fault.ModelError || r.Retryable {
			t.Fatalf("result: %+v", r.ModelResult)
		}
		stop()
		dead, err := b.Conn.Last(context.Background(), crumbs.StreamDead, crumbs.DeadFilter(crumbs.StreamModelCalls, "run_1"))
		if err != nil || dead == nil || dead.Header["crumb-dead-code"][0] != string(fault.ModelError) {
			t.Fatalf("dead letter: %+v %v", dead, err)
		}
		if n := a.calls.Load(); n != 0 || b.Waiting(crumbs.StreamModelCalls) != 0 {
			t.Fatalf("%d calls, %d requests left", n, b.Waiting(crumbs.StreamModelCalls))
		}
	})
}
