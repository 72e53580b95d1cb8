package durability_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/crumbmesh/crumbmesh/internal/meshtest"
	"github.com/crumbmesh/crumbmesh/pkg/crumbs"
	"github.com/crumbmesh/crumbmesh/pkg/fault"
	"github.com/crumbmesh/crumbmesh/pkg/mesh"
	"github.com/crumbmesh/crumbmesh/pkg/tool"
	"github.com/crumbmesh/crumbmesh/services/orchestrator"
)

// fill stores messages for group idle until its stream takes no more.
func (s scene) fill() {
	s.t.Helper()
	for size := 4 << 10; size > 0; size /= 4 {
		for {
			_, err := s.Mesh.Conn.Publish(context.Background(), &nats.Msg{Subject: crumbs.ToolCallSubject(groupIdle, "filler"), Data: make([]byte, size)})
			if fault.CodeOf(err) == fault.QueueFull {
				break
			}
			if err != nil {
				s.t.Fatal(err)
			}
		}
	}
}

// drain removes what fill stored.
func (s scene) drain() {
	s.t.Helper()
	stream, err := s.Mesh.Conn.JS.Stream(context.Background(), crumbs.StreamToolCalls)
	if err == nil {
		err = stream.Purge(context.Background())
	}
	if err != nil {
		s.t.Fatal(err)
	}
}

// record is the value of a run's record.
func (s scene) record(run crumbs.RunID) string {
	s.t.Helper()
	r, err := s.Mesh.Conn.Bucket(crumbs.BucketRuns).Get(context.Background(), string(run))
	if err != nil {
		s.t.Fatal(err)
	}
	return string(r.Value)
}

func approve(s scene, run crumbs.RunID, calls ...int) {
	s.t.Helper()
	for _, i := range calls {
		if _, err := s.Approve(crumbs.ToolCallID(run, 1, i)); err != nil {
			s.t.Fatal(err)
		}
	}
}

// Schedule 1. TOOLCALLS refuses the commands of two decisions; the second one
// must not overwrite the first, which the same process could not deliver.
func TestDelivery_Schedule01_OwnFailedPublish(t *testing.T) {
	bubble(t, func(t *testing.T, s scene) {
		s.Gateway()
		s.Approvals()
		s.Tools(groupBench, s.counted()...)
		s.apply(asking(clerk("clerk", turn("", call("put"), call("pay")), turn("Done.")), "put", "pay"))
		s.Orchestrator()
		s.Start("clerk", "run_1")
		s.WaitSuspended("run_1")
		s.fill()
		approve(s, "run_1", 0, 1)
		s.Until("the first decision is written", func() bool { return strings.Contains(s.record("run_1"), `"phase":"dispatched"`) })
		if n := len(s.Crumbs("run_1")); n != 4 {
			t.Errorf("%d crumbs: an Outbox goes out commands first, and the queue is full", n)
		}
		s.drain()
		s.WaitEnd("run_1")
		account(t, s.Fleet, "run_1").completed("Done.").ended("1.0:ok 1.1:ok")
		s.want(t, "run_1", "1.0:1 1.1:1")
	}, meshtest.WithSettings(func(s *mesh.Settings) { s.CallsBytes = 64 << 10 }))
}

// Schedule 2. A replica dies after its write; the duplicate window passes, and
// another event of the run comes first. Its decision stands on a delivered one.
func TestDelivery_Schedule02_TheOtherEventFirst(t *testing.T) {
	bubble(t, func(t *testing.T, s scene) {
		s.Gateway()
		s.Approvals()
		slow := s.doing("pay", crumbs.EffectOnce, func(c tool.Context, _ int) error {
			<-time.After(3 * time.Second) // past the window, before the redelivery
			return nil
		})
		s.Tools(groupBench, s.tool("put", crumbs.EffectIdempotent), slow)
		s.apply(asking(clerk("clerk", turn("", call("put"), call("pay")), turn("Done.")), "put"))
		replica := s.Trapped()
		s.Start("clerk", "run_1")
		s.Until("pay runs", func() bool { return s.of("run_1.1.1") == 1 })
		trap := replica.Lay("written", 1)
		approve(s, "run_1", 0)
		<-trap.Dead()
		s.Orchestrator()
		s.WaitEnd("run_1")
		account(t, s.Fleet, "run_1").completed("Done.").told(crumbs.TypeRunStarted, crumbs.TypeStepEnd, crumbs.TypeToolCalled, crumbs.TypeHumanRequired,
			crumbs.TypeHumanResumed, crumbs.TypeToolCalled, // of the dead replica, before:
			crumbs.TypeToolResulted, crumbs.TypeToolResulted, crumbs.TypeStepEnd, crumbs.TypeRunEnded)
		s.want(t, "run_1", "1.0:1 1.1:1")
	}, meshtest.WithSettings(func(s *mesh.Settings) { s.DuplicateWindow = 2 * time.Second }))
}

// overheard are the messages of a run that anybody published, as they were.
func (s scene) overheard(subjects ...string) (all func() []*nats.Msg) {
	s.t.Helper()
	heard := make(chan *nats.Msg, 1024)
	for _, subject := range subjects {
		if _, err := s.Mesh.Conn.NATS.ChanSubscribe(subject, heard); err != nil {
			s.t.Fatal(err)
		}
	}
	return func() (all []*nats.Msg) {
		for len(heard) > 0 {
			all = append(all, <-heard)
		}
		return all
	}
}

// again publishes a copy of a message, without the headers of its first publish.
func (s scene) again(m *nats.Msg) {
	s.t.Helper()
	c := &nats.Msg{Subject: m.Subject, Data: m.Data, Header: nats.Header{}}
	for k, v := range m.Header {
		if !strings.HasPrefix(k, "Nats-") {
			c.Header[k] = v
		}
	}
	if _, err := s.Mesh.Conn.Publish(context.Background(), c); err != nil {
		s.t.Fatal(err)
	}
}

// taken is how many messages the streams that cost something ever took.
func (s scene) taken() (n [3]uint64) {
	for i, name := range []string{crumbs.StreamCrumbs, crumbs.StreamToolCalls, crumbs.StreamModelCalls} {
		_, n[i] = s.Stream(name)
	}
	return n
}

// Schedule 3. Every message of a finished run comes once more, to the replica
// that knows it and to a new one, long after the window.
func TestDelivery_Schedule03_LateCopies_CF_O14(t *testing.T) {
	bubble(t, func(t *testing.T, s scene) {
		s.Gateway()
		s.Approvals()
		s.Tools(groupBench, s.counted()...)
		s.apply(asking(clerk("clerk", turn("", call("put"), call("pay")), turn("Done.")), "pay"))
		replica := s.Orchestrator()
		heard := s.overheard("run.request.*", "run.control.*", "model.result.>", "tool.result.>", "approval.decision.>")
		s.Start("clerk", "run_1")
		s.WaitSuspended("run_1")
		approve(s, "run_1", 1)
		s.WaitEnd("run_1")
		s.settled("run_1")
		<-time.After(s.Mesh.Settings().DuplicateWindow + time.Second)
		s.Cancel("run_1") // CF-O14: a cancel after the end changes nothing
		s.empty(crumbs.StreamInbox)
		copies := heard()
		if len(copies) != 7 { // request, 2 model results, 2 tool results, decision, cancel
			t.Fatalf("%d messages", len(copies))
		}
		before := s.taken()
		for range 2 {
			for _, m := range copies {
				s.again(m)
			}
			s.empty(crumbs.StreamRequests, crumbs.StreamInbox)
			replica.Stop()
			replica = s.Orchestrator()
		}
		if after := s.taken(); after != before {
			t.Errorf("CRUMBS, TOOLCALLS, MODELCALLS took %v, then %v", before, after)
		}
		account(t, s.Fleet, "run_1").completed("Done.")
		s.want(t, "run_1", "1.0:1 1.1:1")
	})
}

// Schedule 4. A replica stops between its write and its first crumb, as by
// SIGSTOP: it and its heartbeats are silent. Another one ends the run; then it
// wakes, and what it sends is late.
func TestDelivery_Schedule04_Zombie(t *testing.T) {
	bubble(t, func(t *testing.T, s scene) {
		s.Gateway()
		s.Tools(groupBench, s.counted()...)
		s.apply(clerk("clerk", turn("", call("put"), call("pay")), turn("Done.")))
		gate, thaw, frozen, woken := &meshtest.Gate{}, make(chan struct{}), make(chan struct{}), make(chan struct{})
		written := 0
		s.On(gate).Orchestrator(func(c *orchestrator.Config) {
			c.At = func(p orchestrator.Point, _ crumbs.RunID) {
				switch {
				case p == "written":
					if written++; written == 2 { // the model's answer: two calls to send
						gate.Shut()
						close(frozen)
						<-thaw
					}
				case p == "delivered" && written == 2:
					close(woken)
				}
			}
		})
		s.Start("clerk", "run_1")
		<-frozen
		s.Orchestrator()
		s.WaitEnd("run_1")
		_, before := s.Stream(crumbs.StreamCrumbs)
		gate.Open()
		close(thaw)
		<-woken
		s.empty(crumbs.StreamToolCalls, crumbs.StreamInbox)
		if _, after := s.Stream(crumbs.StreamCrumbs); after != before {
			t.Errorf("%d crumbs of the zombie are stored", after-before)
		}
		account(t, s.Fleet, "run_1").completed("Done.").ended("1.0:ok 1.1:ok")
		s.want(t, "run_1", "1.0:1 1.1:1")
	}, meshtest.WithSettings(func(s *mesh.Settings) { s.DuplicateWindow = 2 * time.Second }))
}

// Schedule 4, the network's part: the first crumb of a decision and all its
// repetitions stay in the network until the run has ended elsewhere.
func TestDelivery_Schedule04_LatePackets(t *testing.T) {
	bubble(t, func(t *testing.T, s scene) {
		s.Gateway()
		s.Tools(groupBench, s.counted()...)
		s.apply(clerk("clerk", turn("", call("put"), call("pay")), turn("Done.")))
		gate, cut := &meshtest.Gate{}, make(chan struct{})
		commands := 0
		s.On(gate).Orchestrator(func(c *orchestrator.Config) {
			c.At = func(p orchestrator.Point, _ crumbs.RunID) {
				if p == "commands" {
					if commands++; commands == 2 {
						gate.Shut()
						close(cut)
					}
				}
			}
		})
		s.Start("clerk", "run_1")
		<-cut
		s.Orchestrator()
		s.WaitEnd("run_1")
		<-time.After(time.Minute) // the cut replica repeats meanwhile
		_, before := s.Stream(crumbs.StreamCrumbs)
		gate.Open()
		<-time.After(time.Minute)
		if _, after := s.Stream(crumbs.StreamCrumbs); after != before {
			t.Errorf("%d late crumbs are stored", after-before)
		}
		account(t, s.Fleet, "run_1").completed("Done.").ended("1.0:ok 1.1:ok")
		s.want(t, "run_1", "1.0:1 1.1:1")
	}, meshtest.WithSettings(func(s *mesh.Settings) { s.DuplicateWindow = 2 * time.Second }))
}
