package mesh_test

import (
	"context"
	"sync/atomic"
	"testing"

	"github.com/nats-io/nats.go"

	"github.com/crumbmesh/crumbmesh/internal/meshtest"
	"github.com/crumbmesh/crumbmesh/pkg/crumbs"
	"github.com/crumbmesh/crumbmesh/pkg/fault"
	"github.com/crumbmesh/crumbmesh/pkg/mesh"
)

// A message whose handling always panics is given up after three times, with its
// run; the service is asked first, and a panic of that is no reason to go on. Other
// messages are worked on meanwhile.
func TestLoop_P9_PanickingMessageIsGivenUp(t *testing.T) {
	t.Parallel()
	for name, giveUp := range map[string]func(context.Context, *mesh.Delivery, error) (crumbs.RunID, error){
		"nobody is asked":   nil,
		"the service tells": func(context.Context, *mesh.Delivery, error) (crumbs.RunID, error) { return "run_bad", nil },
		"telling panics":    func(context.Context, *mesh.Delivery, error) (crumbs.RunID, error) { panic("again") },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			m := meshtest.Start(t)
			var bad, good atomic.Int64
			done := make(chan struct{})
			cfg := mesh.ConsumeConfig{Stream: crumbs.StreamInbox, Consumer: mesh.ConsumerEvents, Capacity: 2}
			loop, err := m.Connect("service").NewLoop(t.Context(), cfg, func(_ context.Context, d *mesh.Delivery) error {
				if d.Subject == crumbs.ControlSubject("run_bad") {
					bad.Add(1)
					panic("bad")
				}
				good.Add(1)
				return nil
			})
			if err != nil {
				t.Fatal(err)
			}
			if giveUp != nil {
				loop.BeforeGivingUp(giveUp)
			}
			sub, err := m.Conn.NATS.Subscribe(crumbs.SubjectDead, func(*nats.Msg) { close(done) })
			if err != nil {
				t.Fatal(err)
			}
			defer func() { _ = sub.Unsubscribe() }()
			for _, run := range []crumbs.RunID{"run_bad", "run_good"} {
				if _, err := m.Conn.Publish(t.Context(), &nats.Msg{Subject: crumbs.ControlSubject(run), Data: []byte("{}")}); err != nil {
					t.Fatal(err)
				}
			}
			ctx, stop := context.WithCancel(t.Context())
			ended := make(chan error, 1)
			go func() { ended <- loop.Run(ctx) }()
			<-done
			stop()
			if err := <-ended; err != nil {
				t.Fatal(err)
			}
			letter, err := m.Conn.Last(t.Context(), crumbs.StreamDead, crumbs.DeadFilter(crumbs.StreamInbox, "run_bad"))
			if err != nil || letter == nil || letter.Header.Get(crumbs.DeadCode) != string(fault.InternalError) || letter.Header.Get(crumbs.DeadDeliveries) != "3" {
				t.Fatalf("the letter: %+v %v", letter, err)
			}
			// The server takes an acknowledgement when it comes to it.
			left, err := m.Conn.Next(t.Context(), crumbs.StreamInbox, ">", 1)
			for left != nil && t.Context().Err() == nil && err == nil {
				left, err = m.Conn.Next(t.Context(), crumbs.StreamInbox, ">", 1)
			}
			if err != nil || left != nil || bad.Load() != 3 || good.Load() != 1 {
				t.Errorf("left %v %v; handled %d and %d times", left, err, bad.Load(), good.Load())
			}
		})
	}
}

// The run of a message is named by its subject.
func TestRunOf(t *testing.T) {
	t.Parallel()
	call := crumbs.ToolCallID("run_1", 1, 0)
	for subject, want := range map[string]crumbs.RunID{
		crumbs.RequestSubject("run_2"): "", crumbs.ControlSubject("run_1"): "run_1", crumbs.OrderSubject(call, 1): "run_1",
		crumbs.ModelCallSubject("script", "run_1"): "run_1", crumbs.ToolCallSubject("demo", "run_1"): "run_1",
		crumbs.ModelResultSubject("script", call, 1): "run_1", crumbs.ToolResultSubject("demo", call, 1): "run_1",
		crumbs.DecisionSubject("run_1", call): "run_1", crumbs.TimerDueSubject("run_1", 3): "run_1",
		crumbs.CrumbSubject("clerk", "run_1", crumbs.TypeToolCalled): "run_1", "run.control": "", "tool.call.demo.a b": "", "": "",
	} {
		if got := crumbs.RunOf(subject); got != want {
			t.Errorf("%q: %q, want %q", subject, got, want)
		}
	}
}
