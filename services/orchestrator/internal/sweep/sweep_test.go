package sweep_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/crumbmesh/crumbmesh/internal/meshtest"
	"github.com/crumbmesh/crumbmesh/pkg/agent"
	"github.com/crumbmesh/crumbmesh/pkg/crumbs"
	"github.com/crumbmesh/crumbmesh/pkg/fault"
	"github.com/crumbmesh/crumbmesh/services/orchestrator/internal/sweep"
)

// named are the queues that there should be.
type named map[string][]string

func (n named) Queues(context.Context) (map[string][]string, error) { return n, nil }

func (named) Definition(context.Context, crumbs.AgentID, string) (*agent.Definition, error) {
	return nil, fault.New(fault.AgentNotFound, "none")
}

func (named) ToolSet(context.Context, string) (*agent.ToolSet, error) {
	return nil, fault.New(fault.InternalError, "none")
}

// A pass moves a bounded number of messages of a queue that is gone, none before the
// grace, and the next passes the rest; those that wait in a queue that lives stay.
// What says no call is kept all the same.
func TestPass_IsBounded(t *testing.T) {
	meshtest.Bubble(t, func(t *testing.T, m *meshtest.Mesh) {
		const gone, alive = 300, 3
		send := func(group string, n int) {
			for i := range n {
				run := crumbs.RunID(fmt.Sprintf("run_%s_%d", group, i))
				if _, err := m.Conn.Publish(t.Context(), &nats.Msg{Subject: crumbs.ToolCallSubject(group, run), Data: []byte("no call")}); err != nil {
					t.Fatal(err)
				}
			}
		}
		send("idle", gone)
		send("demo", alive)
		s := sweep.New(m.Conn, named{crumbs.StreamToolCalls: {crumbs.ToolCallFilter("idle"), crumbs.ToolCallFilter("demo")}}, 0)
		held := func() uint64 {
			t.Helper()
			if err := s.Pass(t.Context()); err != nil {
				t.Fatal(err)
			}
			stream, err := m.Conn.JS.Stream(t.Context(), crumbs.StreamToolCalls)
			if err != nil {
				t.Fatal(err)
			}
			return stream.CachedInfo().State.Msgs
		}
		for _, step := range []struct {
			wait time.Duration
			want uint64
		}{{0, gone + alive}, {30 * time.Second, gone + alive}, {30 * time.Second, gone + alive - 256}, {30 * time.Second, alive}, {time.Hour, alive}} {
			<-time.After(step.wait)
			if n := held(); n != step.want {
				t.Fatalf("after %s more: %d messages are left, want %d", step.wait, n, step.want)
			}
		}
		if last, err := m.Conn.LastSequence(t.Context(), crumbs.StreamDead); err != nil || last != gone {
			t.Errorf("%d letters, %v; want one of each message", last, err)
		}
	}, meshtest.WithTopology([]string{"demo"}, nil))
}

// A message that its run does not wait for is removed, and is no dead letter.
func TestPass_SettledCallLeavesNothing(t *testing.T) {
	meshtest.Bubble(t, func(t *testing.T, m *meshtest.Mesh) {
		msg := &nats.Msg{Subject: crumbs.ToolCallSubject("idle", "run_1"), Data: []byte(`{}`), Header: nats.Header{"ce-id": {"run_1.1.0.1"}}}
		if _, err := m.Conn.Publish(t.Context(), msg); err != nil {
			t.Fatal(err)
		}
		s := sweep.New(m.Conn, named{crumbs.StreamToolCalls: {crumbs.ToolCallFilter("idle")}}, 0)
		for range 4 {
			if err := s.Pass(t.Context()); err != nil {
				t.Fatal(err)
			}
			<-time.After(30 * time.Second)
		}
		left, err := m.Conn.Next(t.Context(), crumbs.StreamToolCalls, crumbs.SubjectToolCalls, 1)
		letters, lettersErr := m.Conn.LastSequence(t.Context(), crumbs.StreamDead)
		if err != nil || lettersErr != nil || left != nil || letters != 0 {
			t.Errorf("left %v, %d letters (%v %v)", left, letters, err, lettersErr)
		}
	})
}

// To remove twice is to remove.
func TestRemove_Twice(t *testing.T) {
	t.Parallel()
	m := meshtest.Start(t)
	ack, err := m.Conn.Publish(t.Context(), &nats.Msg{Subject: crumbs.ToolCallSubject("idle", "run_1")})
	if err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if err := m.Conn.Remove(t.Context(), crumbs.StreamToolCalls, ack.Sequence); err != nil {
			t.Error(err)
		}
	}
	if _, err := m.Conn.Queues(t.Context(), "NOSUCH"); err == nil {
		t.Error("the queues of no stream are listed")
	}
}
