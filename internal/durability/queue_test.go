package durability_test

import (
	"context"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/crumbmesh/crumbmesh/internal/meshtest"
	"github.com/crumbmesh/crumbmesh/pkg/agent"
	"github.com/crumbmesh/crumbmesh/pkg/crumbs"
	"github.com/crumbmesh/crumbmesh/pkg/fault"
	"github.com/crumbmesh/crumbmesh/pkg/mesh"
	"github.com/crumbmesh/crumbmesh/services/orchestrator"
)

// Schedule 10. The queues of requests and calls are small, one group has no
// workers, and more is asked for than fits. Clients are told; every run ends, and
// those of the other group with their results.
func TestQueue_Schedule10_Gridlock(t *testing.T) {
	bubble(t, func(t *testing.T, s scene) {
		s.Gateway()
		s.Tools(groupBench, s.tool("pay", crumbs.EffectOnce))
		s.announced(groupIdle, "sit")
		sitting := having(clerk("sitter", turn("", agent.ScriptCall{Name: "tool_sit"}), turn("Done.")), groupIdle, "sit", crumbs.EffectOnce)
		s.apply(clerk("clerk", turn("", call("pay")), turn("Done.")), sitting)
		s.Orchestrator(timed(func(c *orchestrator.Timing) { c.StartBefore = 5 * time.Minute }))
		s.ApplyGroups(map[string]crumbs.Group{groupBench: {}, groupIdle: {StartBeforeMs: 20_000}}, clerk("clerk", turn("", call("pay")), turn("Done.")), sitting)
		runs, refused := scaled(t, 40), 0
		for i := range runs {
			request := crumbs.RunRequest{AgentID: "clerk", RunID: crumbs.RunID("run_" + itoa(i))}
			if i%2 == 0 {
				request.AgentID = "sitter"
			}
			s.Until("the request is taken", func() bool {
				err := s.Request(request)
				if fault.CodeOf(err) == fault.QueueFull {
					refused++
					return false
				}
				if err != nil {
					t.Fatal(err)
				}
				return true
			})
		}
		for i := range runs {
			run := crumbs.RunID("run_" + itoa(i))
			s.WaitEnd(run)
			h := account(t, s.Fleet, run).completed("Done.")
			if i%2 == 0 {
				if h.ended("1.0:error"); h.errors[crumbs.ToolCallID(run, 1, 0)].Error.Code != fault.ToolLost {
					t.Errorf("%s: %v", run, h.errors)
				}
				continue
			}
			h.ended("1.0:ok")
			s.want(t, run, "1.0:1")
		}
		if refused == 0 {
			t.Error("no client was refused: the queues were never full")
		}
		s.empty(crumbs.StreamRequests, crumbs.StreamInbox, crumbs.StreamToolCalls, crumbs.StreamModelCalls)
	}, meshtest.WithSettings(func(s *mesh.Settings) { s.CallsBytes, s.RequestsBytes = 16<<10, 2<<10 }))
}

// A cancel does not wait for a full queue: the command it would be behind is void.
func TestQueue_CancelBehindAFullQueue(t *testing.T) {
	bubble(t, func(t *testing.T, s scene) {
		s.Gateway()
		s.Approvals()
		s.Tools(groupBench, s.counted()...)
		s.apply(asking(clerk("clerk", turn("", call("pay")), turn("Done.")), "pay"))
		s.Orchestrator()
		s.Start("clerk", "run_1")
		s.WaitSuspended("run_1")
		s.fill()
		approve(s, "run_1", 0)
		<-time.After(5 * time.Second)
		begun := time.Now()
		s.Cancel("run_1")
		s.WaitEnd("run_1")
		if took := time.Since(begun); took > time.Minute {
			t.Errorf("the cancel waited %s", took)
		}
		account(t, s.Fleet, "run_1").failed(fault.RunCancelled).ended("1.0:cancelled")
		s.drain()
		<-time.After(time.Minute)
		s.want(t, "run_1", "")
	}, meshtest.WithSettings(func(s *mesh.Settings) { s.CallsBytes = 64 << 10 }))
}

// A worker takes a call again and again and never answers, until its deliveries
// are used up. The run's own deadline ends the call, its message does not stay,
// and a restarted server with new workers does not bring it back.
func TestQueue_DeliveriesUsedUp_F137_F139(t *testing.T) {
	bubble(t, func(t *testing.T, s scene) {
		s.Gateway()
		s.announced(groupBench, "pay")
		s.apply(clerk("clerk", turn("", call("pay")), turn("Done.")))
		s.Orchestrator(timed(func(c *orchestrator.Timing) { c.StartBefore = time.Minute }))
		s.Start("clerk", "run_1")
		cons, err := s.Mesh.Conn.JS.Consumer(context.Background(), crumbs.StreamToolCalls, mesh.GroupConsumer(groupBench))
		if err != nil {
			t.Fatal(err)
		}
		for deliveries := 0; deliveries < 3; {
			batch, err := cons.Fetch(1, jetstream.FetchMaxWait(30*time.Second))
			if err != nil {
				t.Fatal(err)
			}
			for range batch.Messages() {
				deliveries++
			}
		}
		s.WaitEnd("run_1")
		h := account(t, s.Fleet, "run_1").completed("Done.").ended("1.0:error")
		if e := h.errors["run_1.1.0"].Error; e.Code != fault.ToolLost {
			t.Errorf("%v", e)
		}
		s.empty(crumbs.StreamToolCalls)
		s.Mesh.Restart()
		s.Until("the server is back", func() bool { return s.Mesh.Conn.NATS.IsConnected() })
		s.Tools(groupBench, s.counted()...)
		<-time.After(time.Minute)
		s.want(t, "run_1", "")
		account(t, s.Fleet, "run_1").completed("Done.").ended("1.0:error")
	}, meshtest.WithSettings(func(s *mesh.Settings) { s.WorkerMaxDeliver = 3 }))
}

// Two runs that wait for their next model attempt hold no place in the queue of a
// provider that takes two calls at once; a third one runs at once.
func TestQueue_BackoffHoldsNoPlace_F138(t *testing.T) {
	bubble(t, func(t *testing.T, s scene) {
		s.Gateway()
		if err := s.Mesh.Conn.EnsureConsumers(context.Background(), mesh.Topology{Providers: map[string]int{"script": 2}}); err != nil {
			t.Fatal(err)
		}
		failing := clerk("failing", agent.Turn{Error: &agent.TurnError{Status: 529}}, turn("Later."))
		failing.ErrorHandling.Retry = &agent.Retry{Attempts: 2, BackoffMs: 60_000, BackoffMultiplier: 1}
		s.apply(failing, clerk("clerk", turn("At once.")))
		s.Orchestrator()
		for _, run := range []crumbs.RunID{"run_1", "run_2"} {
			s.Start("failing", run)
			s.WaitType(run, crumbs.TypeStepEnd)
		}
		begun := time.Now()
		s.Start("clerk", "run_3")
		s.WaitEnd("run_3")
		if took := time.Since(begun); took > 5*time.Second {
			t.Errorf("the healthy run took %s", took)
		}
		account(t, s.Fleet, "run_3").completed("At once.")
		for _, run := range []crumbs.RunID{"run_1", "run_2"} {
			s.WaitEnd(run)
			account(t, s.Fleet, run).completed("Later.")
		}
	})
}
