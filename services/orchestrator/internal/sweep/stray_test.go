package sweep_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/crumbmesh/crumbmesh/internal/meshtest"
	"github.com/crumbmesh/crumbmesh/pkg/crumbs"
	"github.com/crumbmesh/crumbmesh/pkg/fault"
	"github.com/crumbmesh/crumbmesh/pkg/mesh"
	"github.com/crumbmesh/crumbmesh/services/orchestrator/internal/sweep"
)

// astray is a mesh with the queues of group demo and provider script, and a sweeper
// whose project names nothing else.
type astray struct {
	*meshtest.Mesh
	t *testing.T
	s *sweep.Sweeper
}

func newAstray(t *testing.T, m *meshtest.Mesh) astray {
	return astray{m, t, sweep.New(m.Conn, named{crumbs.StreamToolCalls: {crumbs.ToolCallFilter("demo")}, crumbs.StreamModelCalls: {crumbs.ModelCallFilter("script")}}, 0)}
}

func (a astray) send(subject string, header nats.Header) {
	a.t.Helper()
	if _, err := a.Conn.Publish(a.t.Context(), &nats.Msg{Subject: subject, Header: header, Data: []byte("a mistake")}); err != nil {
		a.t.Fatal(err)
	}
}

// passes looks every 30 seconds, as a process does.
func (a astray) passes(n int) {
	a.t.Helper()
	for i := range n {
		if i > 0 {
			<-time.After(sweep.DefaultEvery)
		}
		if err := a.s.Pass(a.t.Context()); err != nil {
			a.t.Fatal(err)
		}
	}
}

// left lists the subjects on which messages stand.
func (a astray) left(streams ...string) (subjects []string) {
	a.t.Helper()
	for _, stream := range streams {
		for from := uint64(1); ; {
			m, err := a.Conn.Next(a.t.Context(), stream, ">", from)
			if err != nil {
				a.t.Fatal(err)
			}
			if m == nil {
				break
			}
			subjects, from = append(subjects, m.Subject), m.Sequence+1
		}
	}
	return subjects
}

// What stands where no queue is, or ever was, becomes a dead letter that says what
// stands where and what would take it, after a minute; what waits in a queue stays.
func TestPass_Strays(t *testing.T) {
	meshtest.Bubble(t, func(t *testing.T, m *meshtest.Mesh) {
		a := newAstray(t, m)
		gone := map[string]struct {
			label string
			code  fault.Code
			says  string
		}{
			"tool.call.nope.run_1":           {"TOOLCALLS-nope", fault.ToolLost, "group \"nope\" has no queue, and neither the project nor a worker names it: the message was published by mistake, or the group was removed (`crumb init --group nope` makes its queue)"},
			"model.call.none.run_1":          {"MODELCALLS-none", fault.ModelError, "provider \"none\" has no queue, and neither the project nor a worker names it: the message was published by mistake, or the provider was removed (`crumb init --provider none` makes its queue)"},
			"tool.call.demo":                 {"TOOLCALLS-demo", fault.ToolLost, "no queue can take the subject tool.call.demo: expected tool.call.GROUP.RUN"},
			"tool.call.demo.run_1.more":      {"TOOLCALLS-demo", fault.ToolLost, "no queue can take the subject tool.call.demo.run_1.more: expected tool.call.GROUP.RUN"},
			"tool.call.No-Name.run_1":        {"TOOLCALLS-No-Name", fault.ToolLost, "no queue can take the subject tool.call.No-Name.run_1"},
			"model.call.script.run_1.a.b.cc": {"MODELCALLS-script", fault.ModelError, "expected model.call.PROVIDER.RUN"},
		}
		for subject := range gone {
			a.send(subject, nats.Header{"ce-id": {"run_1.1.0.1"}}) // of a run that is not on record
		}
		stay := []string{"model.call.script.run_2", "tool.call.demo.run_1", "tool.call.demo.run_2"}
		for _, subject := range stay {
			a.send(subject, nil)
		}
		a.passes(2)
		if left := a.left(crumbs.StreamModelCalls, crumbs.StreamToolCalls); len(left) != len(gone)+len(stay) {
			t.Errorf("left before the grace is over: %q", left)
		}
		<-time.After(sweep.DefaultEvery)
		a.passes(1)
		left := a.left(crumbs.StreamModelCalls, crumbs.StreamToolCalls)
		slices.Sort(left)
		if !slices.Equal(left, stay) {
			t.Errorf("left: %q, want %q", left, stay)
		}
		letters := 0
		err := m.Conn.DeadLetters(t.Context(), crumbs.DeadFilter("", ""), 1, 1<<20, func(s mesh.Stored, _ int) {
			letters++
			of := s.Header.Get(crumbs.DeadOfSubject)
			want, ok := gone[of]
			if !ok || crumbs.Token(s.Subject, 1) != want.label || s.Header.Get(crumbs.DeadCode) != string(want.code) || !strings.Contains(s.Header.Get(crumbs.DeadReason), want.says) {
				t.Errorf("letter %s of %s: %s: %s", s.Subject, of, s.Header.Get(crumbs.DeadCode), s.Header.Get(crumbs.DeadReason))
			}
		})
		if err != nil || letters != len(gone) {
			t.Errorf("%d letters, %v; want %d", letters, err, len(gone))
		}
		<-time.After(time.Hour)
		a.passes(4)
		if left := a.left(crumbs.StreamModelCalls, crumbs.StreamToolCalls); len(left) != len(stay) {
			t.Errorf("left in the end: %q", left)
		}
	}, meshtest.WithTopology([]string{"demo"}, []string{"script"}))
}

// A pass moves a bounded number of strays, whatever the number of their places, and
// the next one goes on.
func TestPass_StraysAreBounded(t *testing.T) {
	meshtest.Bubble(t, func(t *testing.T, m *meshtest.Mesh) {
		a := newAstray(t, m)
		for i := range 300 {
			a.send(fmt.Sprintf("tool.call.nope_%d.run_1", i/2), nil)
		}
		for i, want := range []int{300, 300, 300 - 256, 0} {
			a.passes(1)
			if left := len(a.left(crumbs.StreamToolCalls)); left != want {
				t.Errorf("after pass %d: %d are left, want %d", i+1, left, want)
			}
			<-time.After(sweep.DefaultEvery)
		}
	}, meshtest.WithTopology([]string{"demo"}, []string{"script"}))
}

// The queue of a group is made in the moment in which a pass is about to move what
// waits for it: the messages are its own.
func TestPass_StraysOfAQueueThatIsMade(t *testing.T) {
	meshtest.Bubble(t, func(t *testing.T, m *meshtest.Mesh) {
		made := make(chan error, 1)
		var once sync.Once
		moment := meshtest.Tap(func(subject string) meshtest.Verdict {
			if strings.HasPrefix(subject, "$JS.API.CONSUMER.INFO."+crumbs.StreamToolCalls+".") {
				once.Do(func() {
					made <- m.Conn.EnsureConsumers(context.Background(), mesh.Topology{Groups: map[string]int{"late": 0}})
				})
			}
			return meshtest.Pass
		})
		a := newAstray(t, m)
		a.s = sweep.New(m.Connect("orchestrator", moment), named{}, 0)
		a.send("tool.call.late.run_1", nil)
		a.send("tool.call.late.run_2", nil)
		a.passes(2)
		if len(made) != 0 {
			t.Fatal("the sweeper was about to move them before the grace was over")
		}
		<-time.After(sweep.DefaultEvery)
		a.passes(5)
		if err := <-made; err != nil {
			t.Fatal(err)
		}
		if left := a.left(crumbs.StreamToolCalls); !slices.Equal(left, []string{"tool.call.late.run_1", "tool.call.late.run_2"}) {
			t.Errorf("left: %q", left)
		}
		cons, err := m.Conn.JS.Consumer(t.Context(), crumbs.StreamToolCalls, mesh.GroupConsumer("late"))
		if err != nil {
			t.Fatal(err)
		}
		if got, err := cons.Next(); err != nil || got.Subject() != "tool.call.late.run_1" {
			t.Errorf("delivered %v, %v", got, err)
		}
	}, meshtest.WithTopology([]string{"demo"}, []string{"script"}))
}

// A subject that looks like a pattern stands for itself.
func TestPass_StrayThatLooksLikeAPattern(t *testing.T) {
	meshtest.Bubble(t, func(t *testing.T, m *meshtest.Mesh) {
		a := newAstray(t, m)
		a.send("tool.call.demo.run_1", nil)
		a.send("tool.call.nope.run_1", nil)
		if err := m.Conn.NATS.Publish("tool.call.*.run_1", []byte("a mistake")); err != nil { // stored or not: as the server likes
			t.Fatal(err)
		}
		a.passes(5)
		if left := a.left(crumbs.StreamToolCalls); !slices.Equal(left, []string{"tool.call.demo.run_1"}) {
			t.Errorf("left: %q", left)
		}
	}, meshtest.WithTopology([]string{"demo"}, []string{"script"}))
}
