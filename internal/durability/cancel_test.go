package durability_test

import (
	"context"
	"encoding/json"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/crumbmesh/crumbmesh/internal/meshtest"
	"github.com/crumbmesh/crumbmesh/pkg/agent"
	"github.com/crumbmesh/crumbmesh/pkg/crumbs"
	"github.com/crumbmesh/crumbmesh/pkg/decision"
	"github.com/crumbmesh/crumbmesh/pkg/fault"
	"github.com/crumbmesh/crumbmesh/pkg/tool"
	"github.com/crumbmesh/crumbmesh/services/orchestrator"
)

// within is a random time up to 5 ms.
func within() time.Duration { return time.Duration(rand.IntN(5000)) * time.Microsecond }

// Schedule 9. Runs are cancelled within milliseconds of the start of their calls,
// and in half of them no ctl.cancel arrives. Nothing starts after the run's last
// crumb, and no call that ended `cancelled` took place.
func TestCancel_Schedule09_AgainstStart(t *testing.T) {
	bubble(t, func(t *testing.T, s scene) {
		deaf := meshtest.Tap(func(subject string) meshtest.Verdict {
			if run, ok := strings.CutPrefix(subject, "ctl.cancel."); ok && (run[len(run)-1]-'0')%2 == 1 {
				return meshtest.Drop
			}
			return meshtest.Pass
		})
		s.Gateway()
		slowly := tool.Ready(func(tool.Context) error { <-time.After(within()); return nil }) // before the claim
		effect := func(name string, effect crumbs.Effect) tool.Tool {
			return s.doing(name, effect, func(c tool.Context, _ int) error {
				if last, err := s.Mesh.Conn.Last(context.Background(), crumbs.StreamCrumbs, crumbs.RunCrumbsFilter(c.RunID)); err != nil || strings.HasSuffix(last.Subject, ".agent.error") {
					t.Errorf("%s started after the end of its run (%v)", c.CallID, err)
				}
				select {
				case <-c.Done():
					return context.Cause(c)
				case <-time.After(within()):
					return nil
				}
			}, slowly)
		}
		s.Tools(groupBench, effect("put", crumbs.EffectIdempotent), effect("pay", crumbs.EffectOnce))
		s.apply(clerk("clerk", turn("", call("pay"), call("put"), call("pay")), turn("Done.")))
		s.On(deaf).Orchestrator()
		s.On(deaf).Orchestrator()
		runs := scaled(t, 50)
		var all sync.WaitGroup
		for i := range runs {
			run := crumbs.RunID("run_" + itoa(i))
			moment := make(chan *nats.Msg, 8)
			subject := crumbs.ToolCallSubject(groupBench, run)
			if i%3 == 0 {
				subject = "model.result.script." + string(run) + ".>" // a little before
			}
			if _, err := s.Mesh.Conn.NATS.ChanSubscribe(subject, moment); err != nil {
				t.Fatal(err)
			}
			all.Go(func() {
				<-moment
				if i%3 == 2 {
					<-time.After(within())
				}
				s.Cancel(run)
			})
			s.Start("clerk", run)
		}
		all.Wait()
		cancelled := 0
		for i := range runs {
			run := crumbs.RunID("run_" + itoa(i))
			s.WaitEnd(run)
			h := account(t, s.Fleet, run)
			if h.code == "" { // the results were stored before the cancel
				h.completed("Done.")
			} else {
				h.failed(fault.RunCancelled)
				cancelled++
			}
			for id, outcome := range h.outcomes {
				n := s.of(id)
				switch {
				case outcome == "cancelled" && strings.HasSuffix(string(id), ".1"): // put: interrupted, or never started
				case outcome == "cancelled" && n == 0, outcome == "ok" && n == 1, outcome == "unknown" && n == 1:
				default:
					t.Errorf("%s ended %s after %d executions", id, outcome, n)
				}
			}
		}
		if cancelled == 0 {
			t.Error("no run was cancelled in time")
		}
		s.empty(crumbs.StreamToolCalls, crumbs.StreamInbox)
	})
}

// Schedule 14. The cancel comes before its request.
func TestCancel_Schedule14_BeforeTheRequest(t *testing.T) {
	bubble(t, func(t *testing.T, s scene) {
		s.Gateway()
		s.Tools(groupBench, s.counted()...)
		s.apply(clerk("clerk", turn("", call("pay")), turn("Done.")))
		s.Orchestrator()
		s.Cancel("run_1")
		s.empty(crumbs.StreamInbox)
		s.Start("clerk", "run_1")
		s.WaitEnd("run_1")
		account(t, s.Fleet, "run_1").failed(fault.RunCancelled).told(crumbs.TypeRunStarted, crumbs.TypeAgentError)
		s.Start("clerk", "run_1") // the same request again is the same run
		s.empty(crumbs.StreamRequests, crumbs.StreamModelCalls)
		account(t, s.Fleet, "run_1").failed(fault.RunCancelled)
		s.want(t, "run_1", "")
	})
}

// A run waits for approval or cancel, and cancel wins; another waits for approval
// while its time runs out. Both end at once, their questions are withdrawn, and a
// late answer is refused.
func TestCancel_Questions_F152(t *testing.T) {
	bubble(t, func(t *testing.T, s scene) {
		s.Gateway()
		s.Approvals()
		s.Tools(groupBench, s.counted()...)
		s.apply(asking(clerk("clerk", turn("", call("pay")), turn("Done.")), "pay"))
		s.Orchestrator()
		if err := s.Request(crumbs.RunRequest{AgentID: "clerk", RunID: "run_late", Limits: &crumbs.Limits{DeadlineMs: 60_000}}); err != nil {
			t.Fatal(err)
		}
		s.Start("clerk", "run_cancelled")
		s.WaitSuspended("run_cancelled")
		s.Cancel("run_cancelled")
		s.WaitEnd("run_cancelled")
		s.WaitEnd("run_late")
		account(t, s.Fleet, "run_cancelled").failed(fault.RunCancelled).ended("1.0:withdrawn")
		account(t, s.Fleet, "run_late").failed(fault.RunDeadlineExceeded).ended("1.0:withdrawn")
		for _, run := range []crumbs.RunID{"run_cancelled", "run_late"} {
			id := crumbs.ToolCallID(run, 1, 0)
			s.Until("the question is withdrawn", func() bool { return s.Row(id).Status == decision.StatusWithdrawn })
			if _, err := s.Approve(id); fault.CodeOf(err) != fault.CheckpointNotFound {
				t.Errorf("%s: a late answer: %v", run, err)
			}
			s.want(t, run, "")
		}
	})
}

// A run with two open calls is cancelled: one runs in a worker, the other waits
// for a group without workers. The worker hears of it, and no message stays.
func TestCancel_OpenCalls_F155_F147(t *testing.T) {
	bubble(t, func(t *testing.T, s scene) {
		s.Gateway()
		told := make(chan error, 2)
		hold := func(name string, effect crumbs.Effect) tool.Tool {
			return s.doing(name, effect, func(c tool.Context, _ int) error {
				<-c.Done()
				told <- context.Cause(c)
				return c.Err()
			})
		}
		s.Tools(groupBench, hold("put", crumbs.EffectIdempotent), hold("pay", crumbs.EffectOnce))
		s.announced(groupIdle, "sit")
		s.apply(having(clerk("clerk", turn("", call("put"), call("pay"), call("sit")), turn("Done.")), groupIdle, "sit", crumbs.EffectOnce))
		s.Orchestrator(timed(func(c *orchestrator.Timing) { c.StartBefore = time.Minute }))
		s.Start("clerk", "run_1")
		s.Until("both run", func() bool { return s.total("run_1") == 2 })
		begun := time.Now()
		s.Cancel("run_1")
		for range 2 {
			if err := <-told; err == nil {
				t.Error("the handler was not told why")
			}
		}
		s.WaitEnd("run_1")
		if took := time.Since(begun); took > 2*time.Second {
			t.Errorf("the run ended %s after the cancel", took)
		}
		h := account(t, s.Fleet, "run_1").failed(fault.RunCancelled).ended("1.0:cancelled 1.1:unknown 1.2:cancelled")
		if e := h.errors["run_1.1.1"].Error; e.Code != fault.OutcomeUnknown {
			t.Errorf("an interrupted `once` call: %v", e)
		}
		s.want(t, "run_1", "1.0:1 1.1:1")
		s.empty(crumbs.StreamToolCalls, crumbs.StreamInbox) // what idle's queue holds goes at its startBefore
		s.want(t, "run_1", "1.0:1 1.1:1")
	})
}

// The model is cancelled in the middle of its answer: no retry, no second call.
func TestCancel_DuringTheModel_CF_O11(t *testing.T) {
	bubble(t, func(t *testing.T, s scene) {
		s.Gateway()
		d := clerk("clerk", agent.Turn{Chunks: []string{"one ", "two ", "three"}, DelayMs: 10_000}, turn("again"))
		d.ErrorHandling.Retry = &agent.Retry{Attempts: 3, BackoffMs: 500, BackoffMultiplier: 2}
		s.apply(d)
		s.Orchestrator()
		deltas := make(chan *nats.Msg, 64)
		if _, err := s.Mesh.Conn.NATS.ChanSubscribe(crumbs.SubjectDeltas, deltas); err != nil {
			t.Fatal(err)
		}
		s.Start("clerk", "run_1")
		<-deltas
		s.Cancel("run_1")
		s.WaitEnd("run_1")
		<-time.After(time.Minute)
		account(t, s.Fleet, "run_1").failed(fault.RunCancelled)
		if _, n := s.Stream(crumbs.StreamModelCalls); n != 1 {
			t.Errorf("%d model calls", n)
		}
		for len(deltas) > 0 {
			var d crumbs.TextDelta
			if err := json.Unmarshal((<-deltas).Data, &d); err != nil || d.Delta == "three" {
				t.Errorf("the model went on: %+v, %v", d, err)
			}
		}
		s.empty(crumbs.StreamInbox, crumbs.StreamModelCalls)
	})
}
