package mesh_test

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/crumbmesh/crumbmesh/internal/meshtest"
	"github.com/crumbmesh/crumbmesh/pkg/crumbs"
	"github.com/crumbmesh/crumbmesh/pkg/fault"
	"github.com/crumbmesh/crumbmesh/pkg/mesh"
)

const patience = time.Minute

// Loops are stopped again and again in the middle of a stream of messages. Every
// one comes to its end, once, although AckWait is an hour: none was lost on its way
// to a loop that stopped.
func TestLoop_StopsLoseNoMessage(t *testing.T) {
	t.Parallel()
	const messages, stops = 1000, 30
	m := meshtest.Start(t, meshtest.WithSettings(func(s *mesh.Settings) { s.AckWait = time.Hour }))
	go func() {
		for range messages {
			if _, err := m.Conn.Publish(context.Background(), &nats.Msg{Subject: crumbs.RequestSubject("clerk"), Data: []byte("{}")}); err != nil {
				t.Error(err)
			}
		}
	}()
	next := make(chan uint64, messages)
	handle := func(_ context.Context, d *mesh.Delivery) error { next <- d.Sequence; return nil }
	seen := map[uint64]bool{}
	await := func(n int) {
		for range n {
			select {
			case seq := <-next:
				if seen[seq] {
					t.Errorf("message %d was handled twice", seq)
				}
				seen[seq] = true
			case <-time.After(patience):
				t.Fatalf("%d of %d messages came", len(seen), messages)
			}
		}
	}
	run := func(ctx context.Context) (wait func()) {
		loop, err := m.Connect("worker").NewLoop(ctx, mesh.ConsumeConfig{Stream: crumbs.StreamRequests, Consumer: mesh.ConsumerRequests, Capacity: 16}, handle)
		if err != nil {
			t.Fatal(err)
		}
		var g sync.WaitGroup
		g.Go(func() {
			if err := loop.Run(ctx); err != nil {
				t.Error(err)
			}
		})
		return g.Wait
	}
	for range stops {
		ctx, stop := context.WithCancel(context.Background())
		wait := run(ctx)
		await(10)
		stop()
		wait()
	}
	ctx, stop := context.WithCancel(context.Background())
	wait := run(ctx)
	await(messages - len(seen))
	stop()
	wait()
}

// What a handler could not do because the grace is over goes to another process at
// once, whatever its error says.
func TestLoop_EndOfGraceGivesBackAtOnce(t *testing.T) {
	t.Parallel()
	meshtest.Bubble(t, func(t *testing.T, m *meshtest.Mesh) {
		if _, err := m.Conn.Publish(t.Context(), &nats.Msg{Subject: crumbs.RequestSubject("clerk"), Data: []byte("{}")}); err != nil {
			t.Fatal(err)
		}
		run := func(h mesh.Handler) (stop func()) {
			ctx, cancel := context.WithCancel(context.Background())
			loop, err := m.Connect("worker").NewLoop(ctx, mesh.ConsumeConfig{Stream: crumbs.StreamRequests, Consumer: mesh.ConsumerRequests, Capacity: 1, Grace: time.Second}, h)
			if err != nil {
				t.Fatal(err)
			}
			ended := make(chan error, 1)
			go func() { ended <- loop.Run(ctx) }()
			return func() {
				cancel()
				if err := <-ended; err != nil {
					t.Error(err)
				}
			}
		}
		entered := make(chan struct{})
		stop := run(func(ctx context.Context, _ *mesh.Delivery) error {
			close(entered)
			<-ctx.Done()
			return fault.New(fault.Unavailable, "NATS did not answer")
		})
		<-entered
		stop()
		stopped, taken := time.Now(), make(chan int, 1)
		stop = run(func(_ context.Context, d *mesh.Delivery) error { taken <- d.Count; return nil })
		if n := <-taken; n != 2 || !time.Now().Equal(stopped) {
			t.Errorf("delivery %d, %s after the stop", n, time.Since(stopped))
		}
		stop()
	})
}
