package durability_test

import (
	"context"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/crumbmesh/crumbmesh/internal/meshtest"
	"github.com/crumbmesh/crumbmesh/pkg/agent"
	"github.com/crumbmesh/crumbmesh/pkg/crumbs"
	"github.com/crumbmesh/crumbmesh/pkg/fault"
	"github.com/crumbmesh/crumbmesh/pkg/mesh"
	"github.com/crumbmesh/crumbmesh/pkg/tool"
)

const sweepDeliveries = 3

func fewDeliveries() meshtest.Option {
	return meshtest.WithSettings(func(s *mesh.Settings) { s.WorkerMaxDeliver = sweepDeliveries })
}

// useUp takes the messages of a queue and never answers, until the deliveries of
// one are used up and the server has looked at it again.
func (s scene) useUp(stream, consumer string) {
	s.t.Helper()
	cons, err := s.Mesh.Conn.JS.Consumer(context.Background(), stream, consumer)
	if err != nil {
		s.t.Fatal(err)
	}
	for range sweepDeliveries + 1 {
		batch, err := cons.Fetch(1, jetstream.FetchMaxWait(10*time.Second))
		if err != nil {
			s.t.Fatal(err)
		}
		for range batch.Messages() {
		}
	}
}

// lost checks that a call ended as lost long before its deadline, that its message
// is a dead letter, once, and that nothing is left of it.
func (s scene) lost(run crumbs.RunID, begun time.Time, within time.Duration) {
	s.t.Helper()
	s.WaitEnd(run)
	if took := time.Since(begun); took > within {
		s.t.Errorf("%s: told after %s, want %s at most", run, took, within)
	}
	h := account(s.t, s.Fleet, run).completed("Done.").ended("1.0:error")
	if e := h.errors[crumbs.ToolCallID(run, 1, 0)].Error; e.Code != fault.ToolLost {
		s.t.Errorf("%s: %v", run, e)
	}
	s.empty(crumbs.StreamToolCalls, crumbs.StreamInbox)
	if dead := s.letters(run); len(dead) != 1 || dead[0].Code != fault.ToolLost || dead[0].CallID != crumbs.ToolCallID(run, 1, 0) || dead[0].Attempt != 1 {
		s.t.Errorf("%s: dead letters %+v", run, dead)
	}
}

// The server says that deliveries are used up: the run is told at once.
func TestSweep_UsedUpIsHeard_F137(t *testing.T) {
	bubble(t, func(t *testing.T, s scene) {
		s.Gateway()
		s.announced(groupBench, "pay")
		s.apply(clerk("clerk", turn("", call("pay")), turn("Done.")))
		s.Orchestrator()
		s.Orchestrator()
		begun := time.Now()
		s.Start("clerk", "run_1")
		s.WaitType("run_1", crumbs.TypeToolCalled)
		s.useUp(crumbs.StreamToolCalls, mesh.GroupConsumer(groupBench))
		s.lost("run_1", begun, time.Minute)
		if c := s.Claim(crumbs.ToolCallID("run_1", 1, 0), 1); c.State != mesh.ClaimRevoked {
			t.Errorf("its claim is %+v: it might start", c)
		}
		s.Tools(groupBench, s.counted()...)
		<-time.After(time.Minute)
		s.want(t, "run_1", "")
	}, fewDeliveries())
}

// Nobody hears it: no orchestrator lives. The first that comes back finds the
// message by looking; two that look keep one letter and tell the run once.
func TestSweep_UsedUpIsFound_F137(t *testing.T) {
	bubble(t, func(t *testing.T, s scene) {
		s.Gateway()
		s.announced(groupBench, "pay")
		s.apply(clerk("clerk", turn("", call("pay")), turn("Done.")))
		day := s.Orchestrator()
		s.Start("clerk", "run_1")
		s.WaitType("run_1", crumbs.TypeToolCalled)
		day.Stop()
		s.useUp(crumbs.StreamToolCalls, mesh.GroupConsumer(groupBench))
		<-time.After(time.Minute)
		begun := time.Now()
		s.Orchestrator()
		s.Orchestrator()
		s.lost("run_1", begun, 2*time.Minute)
	}, fewDeliveries())
}

// The queue of a group is deleted while a call waits in it, and stays so: the run is
// told after a grace, not at its deadline.
func TestSweep_QueueIsGone(t *testing.T) {
	bubble(t, func(t *testing.T, s scene) {
		s.Gateway()
		s.announced(groupBench, "pay")
		s.apply(clerk("clerk", turn("", call("pay")), turn("Done.")))
		s.Orchestrator()
		begun := time.Now()
		s.Start("clerk", "run_1")
		s.WaitType("run_1", crumbs.TypeToolCalled)
		if err := s.Mesh.Conn.JS.DeleteConsumer(context.Background(), crumbs.StreamToolCalls, mesh.GroupConsumer(groupBench)); err != nil {
			t.Fatal(err)
		}
		s.lost("run_1", begun, 4*time.Minute)
	})
}

// The same for a provider: the run fails with what became of its model call.
func TestSweep_ModelCall(t *testing.T) {
	bubble(t, func(t *testing.T, s scene) {
		s.apply(clerk("clerk", turn("Done.")))
		s.Orchestrator()
		begun := time.Now()
		s.Start("clerk", "run_1")
		s.WaitType("run_1", crumbs.TypeRunStarted)
		s.useUp(crumbs.StreamModelCalls, mesh.ProviderConsumer("script"))
		s.WaitEnd("run_1")
		if took := time.Since(begun); took > time.Minute {
			t.Errorf("told after %s", took)
		}
		account(t, s.Fleet, "run_1").failed(fault.ModelError)
		s.empty(crumbs.StreamModelCalls, crumbs.StreamInbox)
		if dead := s.letters("run_1"); len(dead) != 1 || dead[0].CallID != crumbs.ModelCallID("run_1", 1) {
			t.Errorf("dead letters %+v", dead)
		}
	}, fewDeliveries())
}

// Deliveries are used up while the holder works: it was cut off for a while. Its call
// is left alone, and ends as it says.
func TestSweep_HolderIsLeftAlone(t *testing.T) {
	bubble(t, func(t *testing.T, s scene) {
		s.Gateway()
		gate := &meshtest.Gate{}
		s.On(gate).Tools(groupBench, s.doing("pay", crumbs.EffectOnce, func(tool.Context, int) error {
			<-time.After(40 * time.Second)
			return nil
		}))
		s.apply(clerk("clerk", turn("", call("pay")), turn("Done.")))
		s.Orchestrator()
		s.Start("clerk", "run_1")
		s.Until("the call runs", func() bool { return s.total("run_1") == 1 })
		gate.Shut()
		<-time.After(6 * time.Second) // past AckWait, before its presence ends
		gate.Open()
		s.WaitEnd("run_1")
		account(t, s.Fleet, "run_1").completed("Done.").ended("1.0:ok")
		s.want(t, "run_1", "1.0:1")
	}, meshtest.WithSettings(func(s *mesh.Settings) { s.WorkerMaxDeliver = 1 }))
}

// Runs that are cancelled leave calls in a queue that nobody serves: they are
// removed and are no dead letters; a call that its run waits for stays.
func TestSweep_SettledCallsOfALivingQueue(t *testing.T) {
	bubble(t, func(t *testing.T, s scene) {
		s.Gateway()
		s.announced(groupBench, "pay")
		s.apply(clerk("clerk", turn("", call("pay"), call("pay")), turn("Done.")))
		s.Orchestrator()
		for _, run := range []crumbs.RunID{"run_1", "run_2", "run_3"} {
			s.Start("clerk", run)
			s.WaitType(run, crumbs.TypeToolCalled)
		}
		s.Until("all calls wait", func() bool { held, _ := s.Stream(crumbs.StreamToolCalls); return held == 6 })
		s.Cancel("run_1")
		s.Cancel("run_3")
		s.WaitTrimmed("run_1")
		s.WaitTrimmed("run_3")
		s.Until("only those of run_2 are left", func() bool { held, _ := s.Stream(crumbs.StreamToolCalls); return held == 2 })
		<-time.After(2 * time.Minute)
		if held, _ := s.Stream(crumbs.StreamToolCalls); held != 2 {
			t.Errorf("%d calls are left, want both of run_2", held)
		}
		if letters, _ := s.Stream(crumbs.StreamDead); letters != 0 {
			t.Errorf("%d dead letters", letters)
		}
		s.Tools(groupBench, s.counted()...)
		s.WaitEnd("run_2")
		account(t, s.Fleet, "run_2").completed("Done.").ended("1.0:ok 1.1:ok")
		s.want(t, "run_2", "1.0:1 1.1:1")
	})
}

// forgets takes a group out of the project and of what workers announced, while no
// orchestrator lives that has seen its queue.
func (s scene) forgets(group string, agents ...*agent.Definition) {
	s.t.Helper()
	o := s.Orchestrator()
	s.Apply([]string{groupIdle}, agents...)
	o.Stop()
	bucket := s.Mesh.Conn.Bucket(crumbs.BucketTools)
	var keys []string
	if err := bucket.List(context.Background(), group+".>", func(r mesh.Record) bool { keys = append(keys, r.Key); return true }); err != nil || len(keys) == 0 {
		s.t.Fatal(keys, err)
	}
	for _, key := range keys {
		if err := bucket.Delete(context.Background(), key); err != nil {
			s.t.Fatal(err)
		}
	}
	if err := s.Mesh.Conn.JS.DeleteConsumer(context.Background(), crumbs.StreamToolCalls, mesh.GroupConsumer(group)); err != nil {
		s.t.Fatal(err)
	}
}

// A group is removed for good while a call waits in its queue and no orchestrator
// lives: the first one that comes finds the call where no queue is, and tells its run.
func TestSweep_StrayOfARemovedGroup(t *testing.T) {
	bubble(t, func(t *testing.T, s scene) {
		s.Gateway()
		s.announced(groupBench, "pay")
		s.apply(clerk("clerk", turn("", call("pay")), turn("Done.")))
		day := s.Orchestrator()
		s.Start("clerk", "run_1")
		s.WaitType("run_1", crumbs.TypeToolCalled)
		day.Stop()
		s.forgets(groupBench)
		begun := time.Now()
		s.Orchestrator()
		s.Orchestrator()
		s.lost("run_1", begun, 4*time.Minute)
	})
}

// Somebody publishes a copy of a call for a group that never was, while the call waits
// for its own: the copy becomes a dead letter and its run does not hear of it.
func TestSweep_StrayCopyOfACallThatWaits(t *testing.T) {
	bubble(t, func(t *testing.T, s scene) {
		s.Gateway()
		s.announced(groupBench, "pay")
		s.apply(clerk("clerk", turn("", call("pay")), turn("Done.")))
		s.Orchestrator()
		s.Start("clerk", "run_1")
		s.WaitType("run_1", crumbs.TypeToolCalled)
		var m *mesh.Stored
		s.Until("the call waits", func() bool {
			var err error
			m, err = s.Mesh.Conn.Next(context.Background(), crumbs.StreamToolCalls, crumbs.ToolCallFilter(groupBench), 1)
			return err == nil && m != nil
		})
		copied := nats.Header{"ce-id": m.Header["ce-id"]}
		if _, err := s.Mesh.Conn.Publish(context.Background(), &nats.Msg{Subject: crumbs.ToolCallSubject("nope", "run_1"), Data: m.Data, Header: copied}); err != nil {
			t.Fatal(err)
		}
		s.Until("the copy is a dead letter", func() bool { return len(s.letters("run_1")) == 1 })
		<-time.After(time.Minute)
		s.Tools(groupBench, s.counted()...)
		s.WaitEnd("run_1")
		account(t, s.Fleet, "run_1").completed("Done.").ended("1.0:ok")
		s.want(t, "run_1", "1.0:1")
		s.empty(crumbs.StreamToolCalls, crumbs.StreamInbox)
	})
}
