package meshtest_test

import (
	"context"
	"testing"

	"github.com/nats-io/nats.go"

	"github.com/crumbmesh/crumbmesh/internal/meshtest"
	"github.com/crumbmesh/crumbmesh/pkg/crumbs"
	"github.com/crumbmesh/crumbmesh/pkg/fault"
)

func TestTap(t *testing.T) {
	t.Parallel()
	meshtest.Bubble(t, func(t *testing.T, m *meshtest.Mesh) {
		verdicts := map[string]meshtest.Verdict{"run.request.dropped": meshtest.Drop, "run.request.muted": meshtest.Mute}
		c := m.Connect("tapped", meshtest.Tap(func(subject string) meshtest.Verdict { return verdicts[subject] }))
		for _, tc := range []struct {
			subject      string
			told, stored bool
		}{{"run.request.passed", true, true}, {"run.request.dropped", false, false}, {"run.request.muted", false, true}} {
			for _, header := range []nats.Header{nil, {"a": {"b"}}} {
				_, err := c.Publish(context.Background(), &nats.Msg{Subject: tc.subject, Header: header, Data: []byte("a\r\nPUB x 1\r\n")})
				if (err == nil) != tc.told || err != nil && fault.CodeOf(err) != fault.Unavailable {
					t.Errorf("%s: told %v", tc.subject, err)
				}
				last, err := m.Conn.Last(context.Background(), crumbs.StreamRequests, tc.subject)
				if err != nil || (last != nil) != tc.stored {
					t.Errorf("%s: stored %v, %v", tc.subject, last, err)
				}
			}
		}
	})
}

// What a shut gate holds arrives late, in order, and nothing before it.
func TestGate(t *testing.T) {
	t.Parallel()
	meshtest.Bubble(t, func(t *testing.T, m *meshtest.Mesh) {
		gate := &meshtest.Gate{}
		c := m.Connect("gated", gate)
		stored := func() uint64 {
			last, err := m.Conn.Last(context.Background(), crumbs.StreamRequests, "run.request.*")
			if err != nil || last == nil {
				return 0
			}
			return last.Sequence
		}
		gate.Shut()
		if _, err := c.Publish(context.Background(), &nats.Msg{Subject: "run.request.a"}); fault.CodeOf(err) != fault.Unavailable {
			t.Errorf("told %v", err)
		}
		if n := stored(); n != 0 {
			t.Errorf("%d stored while the gate was shut", n)
		}
		gate.Open()
		if _, err := c.Publish(context.Background(), &nats.Msg{Subject: "run.request.b"}); err != nil {
			t.Error(err)
		}
		if n := stored(); n != 2 {
			t.Errorf("%d stored in the end, want both", n)
		}
	})
}

// A server that comes back has its streams, and connections find it.
func TestMesh_Restart(t *testing.T) {
	t.Parallel()
	meshtest.Bubble(t, func(t *testing.T, m *meshtest.Mesh) {
		back := make(chan struct{}, 1)
		m.Conn.NATS.SetReconnectHandler(func(*nats.Conn) { back <- struct{}{} })
		if _, err := m.Conn.Publish(context.Background(), &nats.Msg{Subject: "run.request.a"}); err != nil {
			t.Fatal(err)
		}
		m.Restart()
		<-back
		last, err := m.Conn.Last(context.Background(), crumbs.StreamRequests, "run.request.a")
		if err != nil || last == nil {
			t.Errorf("stored %v, %v", last, err)
		}
	})
}
