package durability_test

import (
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/crumbmesh/crumbmesh/internal/fleet"
	"github.com/crumbmesh/crumbmesh/internal/meshtest"
	"github.com/crumbmesh/crumbmesh/pkg/crumbs"
	"github.com/crumbmesh/crumbmesh/pkg/fault"
	"github.com/crumbmesh/crumbmesh/pkg/mesh"
	"github.com/crumbmesh/crumbmesh/pkg/tool"
	"github.com/crumbmesh/crumbmesh/pkg/tool/worker"
	"github.com/crumbmesh/crumbmesh/services/orchestrator"
)

// dies is a tool that kills its worker once its effect took place.
func (s scene) dies(name string, effect crumbs.Effect, holder func() *fleet.Service, killed func(worker string)) tool.Tool {
	return s.doing(name, effect, func(tool.Context, int) error {
		h := holder()
		h.Kill()
		killed(h.Name)
		s.Park()
		return nil
	})
}

// Schedule 8. A claim has expired before its group is back: the request may not
// start any more, and what its worker did is not denied.
func TestClaim_Schedule08_Expiry(t *testing.T) {
	bubble(t, func(t *testing.T, s scene) {
		s.Gateway()
		var holder atomic.Pointer[fleet.Service]
		gone := make(chan struct{})
		deadly := s.dies("pay", crumbs.EffectOnce, holder.Load, func(string) { close(gone) })
		holder.Store(s.Tools(groupBench, deadly))
		s.apply(clerk("clerk", turn("", call("pay")), turn("Done.")))
		s.Orchestrator(timed(func(c *orchestrator.Timing) { c.StartBefore, c.ToolTimeout = time.Second, time.Second }))
		s.Start("clerk", "run_1")
		<-gone
		<-time.After(5 * time.Second)
		if c := s.Claim("run_1.1.0", 1); c.State != "" {
			t.Fatalf("the claim did not expire: %+v", c)
		}
		s.Tools(groupBench, deadly)
		s.WaitEnd("run_1")
		h := account(t, s.Fleet, "run_1").completed("Done.").ended("1.0:unknown")
		if e := h.errors["run_1.1.0"].Error; e.Code != fault.OutcomeUnknown {
			t.Errorf("%v", e)
		}
		s.want(t, "run_1", "1.0:1")
	}, meshtest.WithSettings(func(s *mesh.Settings) { s.ClaimTTL = 3 * time.Second }))
}

// Schedule 8, second part: the worker that ran a call gets a second request for
// it, once while it runs and once after.
func TestClaim_Schedule08_SecondRequest(t *testing.T) {
	bubble(t, func(t *testing.T, s scene) {
		s.Gateway()
		heard := s.overheard("tool.call.>")
		s.Tools(groupBench, s.doing("pay", crumbs.EffectOnce, func(tool.Context, int) error { <-time.After(30 * time.Second); return nil }))
		s.apply(clerk("clerk", turn("", call("pay")), turn("Done.")))
		s.Orchestrator()
		s.Start("clerk", "run_1")
		s.Until("pay runs", func() bool { return s.of("run_1.1.0") == 1 })
		request := heard()[0]
		s.again(request)
		s.WaitEnd("run_1")
		s.again(request)
		s.empty(crumbs.StreamToolCalls, crumbs.StreamInbox)
		account(t, s.Fleet, "run_1").completed("Done.").ended("1.0:ok")
		s.want(t, "run_1", "1.0:1")
	})
}

// Schedule 11. A call that kills each worker that runs it ends as lost after
// three starts, a `once` call after its first, and the queue is free of both.
func TestClaim_Schedule11_Poison_F143_F147(t *testing.T) {
	bubble(t, func(t *testing.T, s scene) {
		s.Gateway()
		holders, killed := map[crumbs.Effect]*atomic.Pointer[fleet.Service]{}, make(chan string, 16)
		// A worker a tool, so that one's end is not the other's.
		deadly := func(name string, effect crumbs.Effect) (start func()) {
			holder := &atomic.Pointer[fleet.Service]{}
			holders[effect] = holder
			ready := make(chan struct{}, 1)
			ready <- struct{}{}
			poison := s.dies(name, effect, func() *fleet.Service { <-ready; return holder.Load() }, func(who string) { killed <- name + " " + who })
			return func() {
				holder.Store(s.Tools("only_"+name, poison))
				select {
				case ready <- struct{}{}:
				default:
				}
			}
		}
		start := map[string]func(){"peek": deadly("peek", crumbs.EffectPure), "put": deadly("put", crumbs.EffectIdempotent), "pay": deadly("pay", crumbs.EffectOnce)}
		d := clerk("clerk", turn("", call("peek"), call("put"), call("pay"), call("sit")), turn("Done."))
		for i := range d.Tools {
			d.Tools[i].Worker.Group = "only_" + d.Tools[i].Name
			start[d.Tools[i].Name]()
		}
		s.announced(groupIdle, "sit")
		s.apply(having(d, groupIdle, "sit", crumbs.EffectOnce))
		heard := s.overheard("model.call.>")
		s.Orchestrator(timed(func(c *orchestrator.Timing) { c.StartBefore, c.Slack = 2*time.Minute, time.Second }))
		s.Start("clerk", "run_1")
		who := ""
		for range 3 + 3 + 1 {
			name, worker, _ := strings.Cut(<-killed, " ")
			if name == "pay" {
				who = worker
			}
			start[name]()
		}
		s.WaitEnd("run_1")
		h := account(t, s.Fleet, "run_1").completed("Done.").ended("1.0:error 1.1:error 1.2:unknown 1.3:error")
		for _, id := range []crumbs.CallID{"run_1.1.0", "run_1.1.1", "run_1.1.3"} {
			if e := h.errors[id].Error; e.Code != fault.ToolLost {
				t.Errorf("%s: %v", id, e)
			}
		}
		if e := h.errors["run_1.1.2"]; e.Worker != who || e.Error.Code != fault.OutcomeUnknown {
			t.Errorf("unknown names worker %q, the killed one is %q: %v", e.Worker, who, e.Error)
		}
		s.want(t, "run_1", "1.0:3 1.1:3 1.2:1")
		if n := len(prompt(t, heard(), 2)); n != 4 {
			t.Errorf("the model is told %d results of 4 calls", n)
		}
		s.empty(crumbs.StreamToolCalls, crumbs.StreamInbox)
		if dead := s.Messages(crumbs.StreamDead, crumbs.DeadFilter(crumbs.StreamToolCalls, "run_1")); len(dead) != 2 {
			t.Errorf("%d dead letters, want the two poisonous requests", len(dead))
		}
	}, meshtest.WithTopology([]string{"only_peek", "only_put", "only_pay"}, nil))
}

// announced makes a tool known that nobody serves.
func (s scene) announced(group, name string) {
	s.t.Helper()
	s.Tools(group, s.tool(name, crumbs.EffectOnce)).Stop()
}

// Schedule 15. The worker's heartbeats and acks get lost for longer than AckWait
// while it runs a `once` call, and another worker is there: no false alarm.
func TestClaim_Schedule15_LostHeartbeats(t *testing.T) {
	bubble(t, func(t *testing.T, s scene) {
		s.Gateway()
		var deaf atomic.Bool
		lossy := meshtest.Tap(func(subject string) meshtest.Verdict {
			if deaf.Load() && strings.HasPrefix(subject, "$JS.ACK.") {
				return meshtest.Drop
			}
			return meshtest.Pass
		})
		slow := s.doing("pay", crumbs.EffectOnce, func(tool.Context, int) error {
			<-time.After(30 * time.Second)
			deaf.Store(false)
			return nil
		})
		s.On(lossy).Worker(worker.Config{Group: groupBench, Name: "holder"}, slow)
		s.apply(clerk("clerk", turn("", call("pay")), turn("Done.")))
		s.Orchestrator()
		deaf.Store(true)
		s.Start("clerk", "run_1")
		s.Until("pay runs", func() bool { return s.of("run_1.1.0") == 1 })
		s.Tools(groupBench, slow) // gets the redeliveries
		s.WaitEnd("run_1")
		h := account(t, s.Fleet, "run_1").completed("Done.").ended("1.0:ok")
		if w := h.results["run_1.1.0"].Worker; w != "holder" {
			t.Errorf("worker %q answered", w)
		}
		s.want(t, "run_1", "1.0:1")
		s.empty(crumbs.StreamToolCalls, crumbs.StreamInbox)
	})
}

// Schedule 15, second part: the claim is written and its answer lost.
func TestClaim_Schedule15_LostAnswer(t *testing.T) {
	bubble(t, func(t *testing.T, s scene) {
		s.Gateway()
		var muted atomic.Int64
		mute := meshtest.Tap(func(subject string) meshtest.Verdict {
			if strings.HasPrefix(subject, "$KV.claims.") && muted.Add(1) == 1 {
				return meshtest.Mute
			}
			return meshtest.Pass
		})
		s.On(mute).Tools(groupBench, s.tool("pay", crumbs.EffectOnce))
		s.apply(clerk("clerk", turn("", call("pay")), turn("Done.")))
		s.Orchestrator()
		s.Start("clerk", "run_1")
		s.WaitEnd("run_1")
		account(t, s.Fleet, "run_1").completed("Done.").ended("1.0:ok")
		s.want(t, "run_1", "1.0:1")
		if n := s.Claim("run_1.1.0", 1).Starts; n != 1 || muted.Load() != 2 {
			t.Errorf("%d starts by %d writes, want one by two: the second is refused and tells that the first stands", n, muted.Load())
		}
	})
}

// A worker is cut off during calls of both kinds, longer than its presence lasts,
// and comes back with its results when others have answered.
func TestClaim_CutOff_F136(t *testing.T) {
	bubble(t, func(t *testing.T, s scene) {
		s.Gateway()
		gate := &meshtest.Gate{}
		slow := func(name string, effect crumbs.Effect) tool.Tool {
			return s.doing(name, effect, func(_ tool.Context, nth int) error {
				if nth == 1 {
					<-time.After(50 * time.Second)
				}
				return nil
			})
		}
		tools := []tool.Tool{slow("put", crumbs.EffectIdempotent), slow("pay", crumbs.EffectOnce)}
		s.On(gate).Worker(worker.Config{Group: groupBench, Name: "cut"}, tools...)
		s.apply(clerk("clerk", turn("", call("put"), call("pay")), turn("Done.")))
		s.Orchestrator()
		s.Start("clerk", "run_1")
		s.Until("both run", func() bool { return s.total("run_1") == 2 })
		gate.Shut()
		s.Tools(groupBench, tools...)
		s.WaitEnd("run_1")
		_, before := s.Stream(crumbs.StreamCrumbs)
		<-time.After(3 * time.Minute) // the cut worker tries to report
		gate.Open()
		s.empty(crumbs.StreamToolCalls, crumbs.StreamInbox)
		h := account(t, s.Fleet, "run_1").completed("Done.").ended("1.0:ok 1.1:unknown")
		if w := h.errors["run_1.1.1"].Worker; w != "cut" {
			t.Errorf("unknown names worker %q", w)
		}
		s.want(t, "run_1", "1.0:2 1.1:1") // put twice under one CallID
		<-time.After(time.Minute)
		if _, after := s.Stream(crumbs.StreamCrumbs); after != before {
			t.Errorf("%d late crumbs", after-before)
		}
	})
}
