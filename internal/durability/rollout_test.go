package durability_test

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/crumbmesh/crumbmesh/internal/fleet"
	"github.com/crumbmesh/crumbmesh/internal/meshtest"
	"github.com/crumbmesh/crumbmesh/pkg/agent"
	"github.com/crumbmesh/crumbmesh/pkg/crumbs"
	"github.com/crumbmesh/crumbmesh/pkg/fault"
	"github.com/crumbmesh/crumbmesh/pkg/mesh"
	"github.com/crumbmesh/crumbmesh/pkg/tool"
	"github.com/crumbmesh/crumbmesh/pkg/tool/worker"
	"github.com/crumbmesh/crumbmesh/services/modelgw"
)

// lasts is a tool that takes a while, and stops when it is told to.
func (s scene) lasts(name string, effect crumbs.Effect, d time.Duration) tool.Tool {
	return s.doing(name, effect, func(c tool.Context, _ int) error {
		select {
		case <-c.Done():
			return c.Err()
		case <-time.After(d):
			return nil
		}
	})
}

// Two replicas of every service are replaced one after the other, all the time,
// while runs go on. Their grace is enough for a payment and for nothing else, so
// that model answers and other calls are interrupted in the middle. It costs no run
// anything: no call has a second attempt or a start more than the one that finished
// it, no payment is made twice or unknown, and nothing waits to be redelivered,
// which would take an hour.
func TestRollout_CostsNothing(t *testing.T) {
	bubble(t, func(t *testing.T, s scene) {
		const grace = 300 * time.Millisecond
		tools := []tool.Tool{s.lasts("peek", crumbs.EffectPure, 2*grace), s.lasts("put", crumbs.EffectIdempotent, 2*grace), s.lasts("pay", crumbs.EffectOnce, grace/2)}
		fleets := [][2]*fleet.Service{}
		starts := []func() *fleet.Service{
			func() *fleet.Service { return s.Orchestrator() },
			func() *fleet.Service { return s.Gateway(func(c *modelgw.Config) { c.Grace = grace }) },
			func() *fleet.Service { return s.Worker(worker.Config{Group: groupBench, Grace: grace}, tools...) },
			func() *fleet.Service { return s.Approvals() },
		}
		for _, start := range starts {
			fleets = append(fleets, [2]*fleet.Service{start(), start()})
		}
		slow := agent.Turn{Text: "Now.", ToolCalls: []agent.ScriptCall{call("peek"), call("put"), call("pay")}, DelayMs: (2 * grace).Milliseconds()}
		s.apply(clerk("clerk", slow, turn("Done.")), asking(clerk("asker", slow, turn("Done.")), "pay"))
		runs := scaled(t, 200)
		over := make(chan struct{})
		go func() {
			defer close(over)
			for i := range runs {
				if run := crumbs.RunID("run_" + itoa(i)); i%4 == 0 {
					s.Start("asker", run)
				} else {
					s.Start("clerk", run)
				}
				<-time.After(20 * time.Millisecond)
			}
			for i := 0; i < runs; i += 4 {
				run := crumbs.RunID("run_" + itoa(i))
				s.WaitType(run, crumbs.TypeHumanRequired)
				s.Until("the approval of "+string(run), func() bool {
					_, err := s.Approve(crumbs.ToolCallID(run, 1, 2))
					if err != nil && fault.CodeOf(err) != fault.Unavailable && fault.CodeOf(err) != fault.CheckpointNotFound {
						t.Error(err)
					}
					return err == nil
				})
			}
			for i := range runs {
				s.WaitEnd(crumbs.RunID("run_" + itoa(i)))
			}
		}()
		rounds := 0
		for going := true; going; rounds++ {
			for i, start := range starts {
				fresh := start()
				fleets[i][rounds%2].Stop()
				fleets[i][rounds%2] = fresh
				<-time.After(grace)
			}
			select {
			case <-over:
				going = false
			default:
			}
		}
		again := 0
		for i := range runs {
			run := crumbs.RunID("run_" + itoa(i))
			h := account(t, s.Fleet, run).completed("Now.Done.").ended("1.0:ok 1.1:ok 1.2:ok")
			for id := range h.results {
				if c := s.Claim(id, 1); c.State != mesh.ClaimStarted || c.Starts != 1 {
					t.Errorf("claim of %s: %+v", id, c)
				}
			}
			for step := range 2 {
				if c := s.Claim(crumbs.ModelCallID(run, step+1), 1); c.State != mesh.ClaimStarted || c.Starts != 1 {
					t.Errorf("claim of model call %d of %s: %+v", step+1, run, c)
				}
			}
			if n := s.of(crumbs.ToolCallID(run, 1, 2)); n != 1 {
				t.Errorf("%s paid %d times", run, n)
			}
			again += s.total(run) - 3
		}
		if again == 0 {
			t.Error("no call was interrupted")
		}
		t.Logf("%d rounds, %d calls interrupted", rounds, again)
		s.empty(crumbs.StreamRequests, crumbs.StreamInbox, crumbs.StreamToolCalls, crumbs.StreamModelCalls)
		if dead, _ := s.Stream(crumbs.StreamDead); dead != 0 {
			t.Errorf("%d dead letters", dead)
		}
	}, meshtest.WithSettings(func(s *mesh.Settings) { s.AckWait = time.Hour }))
}

// Orchestrator and worker are told to stop while a streaming tool has sent two of
// five pieces, and their grace is too short for it. Another worker runs the call
// again under its id, and it finishes once.
func TestRollout_HalfOfAStream_F148(t *testing.T) {
	bubble(t, func(t *testing.T, s scene) {
		const pieces = 5
		s.Gateway()
		half := make(chan struct{})
		stream := tool.New("put", "Stream.", func(c tool.Context, _ json.RawMessage, yield tool.Yield) (json.RawMessage, error) {
			first := s.add(c.CallID) == 1
			for i := range pieces {
				if first && i == 2 {
					close(half)
					<-c.Done()
					return nil, c.Err()
				}
				if err := yield(json.RawMessage(itoa(i))); err != nil {
					return nil, err
				}
			}
			return json.RawMessage(`"whole"`), nil
		}, tool.Effect(crumbs.EffectIdempotent), tool.Stream())
		s.apply(clerk("clerk", turn("", call("put")), turn("Done.")))
		orchestrator, holder := s.Orchestrator(), s.Worker(worker.Config{Group: groupBench, Grace: time.Second}, stream)
		s.Start("clerk", "run_1")
		<-half
		orchestrator.Stop()
		holder.Stop()
		s.Orchestrator()
		other := s.Worker(worker.Config{Group: groupBench}, stream)
		s.WaitEnd("run_1")
		h := account(t, s.Fleet, "run_1").completed("Done.").ended("1.0:ok")
		if r := h.results["run_1.1.0"]; r.Worker != other.Name || string(r.Result) != `"whole"` || r.Deltas != pieces {
			t.Errorf("%+v", r)
		}
		if c := s.Claim("run_1.1.0", 1); c.Starts != 1 {
			t.Errorf("%+v", c)
		}
		s.want(t, "run_1", "1.0:2")
	})
}
