package mesh_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/crumbmesh/crumbmesh/internal/meshtest"
	"github.com/crumbmesh/crumbmesh/pkg/crumbs"
	"github.com/crumbmesh/crumbmesh/pkg/mesh"
)

func TestBucket_CompareAndSet(t *testing.T) {
	t.Parallel()
	m := meshtest.Start(t)
	ctx, b := context.Background(), m.Conn.Bucket(crumbs.BucketRuns)
	rev, err := b.CompareAndSet(ctx, "run_1", []byte(`1`), 0, 0)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := b.CompareAndSet(ctx, "run_1", []byte(`2`), 0, 0); !errors.Is(err, mesh.ErrConflict) {
		t.Fatalf("second create: %v", err)
	}
	if _, err := b.CompareAndSet(ctx, "run_1", []byte(`2`), rev, time.Hour); err != nil {
		t.Fatal(err)
	}
	r, err := b.Get(ctx, "run_1")
	if err != nil || string(r.Value) != "2" {
		t.Fatalf("got %q, %v", r.Value, err)
	}
}

func TestPublishOnce_OneWaits(t *testing.T) {
	t.Parallel()
	m := meshtest.Start(t)
	ctx := context.Background()
	subject := crumbs.DecisionSubject("run_1", "run_1.1.0")
	for range 3 {
		if err := m.Conn.PublishOnce(ctx, &nats.Msg{Subject: subject, Data: []byte(`{}`)}); err != nil {
			t.Fatal(err)
		}
	}
	s, err := m.Conn.JS.Stream(ctx, crumbs.StreamInbox)
	if err != nil {
		t.Fatal(err)
	}
	if n := s.CachedInfo().State.Msgs; n != 1 {
		t.Fatalf("%d messages wait, want 1", n)
	}
}

func TestConsume_RetryComesBack(t *testing.T) {
	t.Parallel()
	meshtest.Bubble(t, func(t *testing.T, m *meshtest.Mesh) {
		ctx, stop := context.WithCancel(context.Background())
		seen := make(chan int, 8)
		loop, err := m.Conn.NewLoop(ctx, mesh.ConsumeConfig{Stream: crumbs.StreamInbox, Consumer: mesh.ConsumerEvents, Capacity: 4},
			func(_ context.Context, d *mesh.Delivery) error {
				seen <- d.Count
				if d.Count < 3 {
					return mesh.Retry(time.Second, errors.New("not yet"))
				}
				return nil
			})
		if err != nil {
			t.Fatal(err)
		}
		done := make(chan error)
		go func() { done <- loop.Run(ctx) }()
		if _, err := m.Conn.Publish(ctx, &nats.Msg{Subject: "run.control.run_1", Data: []byte(`{}`)}); err != nil {
			t.Fatal(err)
		}
		for want := 1; want <= 3; want++ {
			if got := <-seen; got != want {
				t.Fatalf("delivery %d, want %d", got, want)
			}
		}
		stop()
		if err := <-done; err != nil {
			t.Fatal(err)
		}
	})
}

func TestClaims_RevokeAfterStart(t *testing.T) {
	t.Parallel()
	m := meshtest.Start(t)
	ctx, claims := context.Background(), m.Conn.Claims()
	alive := func(context.Context, string) (bool, error) { return false, nil }
	start := mesh.Start{Key: "run_1.1.0.1", Worker: "w1", MessageSeq: 7, Effect: crumbs.EffectOnce, Alive: alive}
	if v, _, err := claims.Begin(ctx, start); err != nil || v != mesh.VerdictRun {
		t.Fatalf("first start: %v %v", v, err)
	}
	if v, _, _ := claims.Begin(ctx, start); v != mesh.VerdictUnknown {
		t.Fatalf("redelivery of a once call whose holder is gone: %v, want unknown", v)
	}
	start.MessageSeq = 8
	if v, _, _ := claims.Begin(ctx, start); v != mesh.VerdictDrop {
		t.Fatalf("second request: %v, want drop", v)
	}
	for range 2 {
		if started, err := claims.Revoke(ctx, "run_1.1.0.1"); err != nil || !started {
			t.Fatalf("revoke of a started claim: %v %v", started, err)
		}
	}
	if started, err := claims.Revoke(ctx, "run_1.1.1.1"); err != nil || started {
		t.Fatalf("revoke of a claim nobody took: %v %v", started, err)
	}
	start.Key, start.Effect = "run_1.1.1.1", crumbs.EffectPure
	if v, _, _ := claims.Begin(ctx, start); v != mesh.VerdictDrop {
		t.Fatalf("start after revoke: %v, want drop", v)
	}
}
