package durability_test

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/crumbmesh/crumbmesh/internal/fleet"
	"github.com/crumbmesh/crumbmesh/pkg/agent"
	"github.com/crumbmesh/crumbmesh/pkg/crumbs"
	"github.com/crumbmesh/crumbmesh/pkg/tool"
	"github.com/crumbmesh/crumbmesh/pkg/tool/worker"
)

type stored = fleet.Stored

// Six calls of one turn: finishing one, then another starts none of the others
// again, and the run waits for all.
func TestTurn_SixCalls_F024(t *testing.T) {
	bubble(t, func(t *testing.T, s scene) {
		s.Gateway()
		const calls = 6
		gates := map[crumbs.CallID]chan struct{}{}
		turns := agent.Turn{}
		for i := range calls {
			gates[crumbs.ToolCallID("run_1", 1, i)] = make(chan struct{})
			turns.ToolCalls = append(turns.ToolCalls, call("pay"))
		}
		s.Tools(groupBench, s.doing("pay", crumbs.EffectOnce, func(c tool.Context, _ int) error { <-gates[c.CallID]; return nil }))
		s.apply(clerk("clerk", turns, turn("Done.")))
		s.Orchestrator()
		s.Start("clerk", "run_1")
		s.Until("all run", func() bool { return s.total("run_1") == calls })
		finish := func(i int) {
			id := crumbs.ToolCallID("run_1", 1, i)
			close(gates[id])
			s.WaitFor("run_1", func(c stored) bool {
				return c.Base.Type == crumbs.TypeToolResulted && strings.Contains(string(c.Body), `"`+string(id)+`"`)
			})
		}
		for _, i := range []int{1, 4} {
			finish(i)
			<-time.After(20 * time.Second)
			if _, n := s.Stream(crumbs.StreamToolCalls); n != calls || s.View("run_1").Status != "running" {
				t.Errorf("after call %d: %d requests, the run is %s", i, n, s.View("run_1").Status)
			}
		}
		for _, i := range []int{0, 2, 3, 5} {
			finish(i)
		}
		s.WaitEnd("run_1")
		account(t, s.Fleet, "run_1").completed("Done.")
		s.want(t, "run_1", "1.0:1 1.1:1 1.2:1 1.3:1 1.4:1 1.5:1")
	})
}

// A turn of 64 calls, the most there can be, whose results come at
// once to two replicas: all are recorded, none twice.
func TestTurn_SixtyFourCalls_F153(t *testing.T) {
	bubble(t, func(t *testing.T, s scene) {
		s.Gateway()
		s.Tools(groupBench, s.tool("put", crumbs.EffectIdempotent))
		const calls = 64
		turns := agent.Turn{}
		for range calls {
			turns.ToolCalls = append(turns.ToolCalls, call("put"))
		}
		s.apply(clerk("clerk", turns, turn("Done.")))
		s.Orchestrator()
		s.Orchestrator()
		s.Start("clerk", "run_1")
		s.WaitEnd("run_1")
		h := account(t, s.Fleet, "run_1").completed("Done.")
		for i := range calls {
			if id := crumbs.ToolCallID("run_1", 1, i); h.outcomes[id] != "ok" || s.of(id) != 1 {
				t.Errorf("%s ended %s after %d executions", id, h.outcomes[id], s.of(id))
			}
		}
	})
}

// An orchestrator and the worker of a streaming call are told to stop with a
// second of grace, in the middle of the call. Others go on with the same call id,
// and it finishes once.
func TestTurn_StoppedInTheMiddle_F148(t *testing.T) {
	bubble(t, func(t *testing.T, s scene) {
		s.Gateway()
		streaming := tool.New("put", "Put in parts.", func(c tool.Context, _ json.RawMessage, yield tool.Yield) (json.RawMessage, error) {
			s.add(c.CallID)
			for i := range 5 {
				select {
				case <-c.Done():
					return nil, c.Err()
				case <-time.After(2 * time.Second):
				}
				if err := yield(json.RawMessage(itoa(i))); err != nil {
					return nil, err
				}
			}
			return json.RawMessage(`4`), nil
		}, tool.Effect(crumbs.EffectIdempotent), tool.Stream())
		first := s.Worker(worker.Config{Group: groupBench, Name: "first", Grace: time.Second}, streaming)
		s.apply(clerk("clerk", turn("", call("put")), turn("Done.")))
		replica := s.Orchestrator()
		s.Start("clerk", "run_1")
		s.Until("two parts are out", func() bool { _, n := s.Stream(crumbs.StreamDeltas); return n >= 5 }) // three of the model
		replica.Stop()
		first.Stop()
		s.Orchestrator()
		s.Worker(worker.Config{Group: groupBench, Name: "second"}, streaming)
		s.WaitEnd("run_1")
		h := account(t, s.Fleet, "run_1").completed("Done.").ended("1.0:ok")
		if r := h.results["run_1.1.0"]; r.Worker != "second" || string(r.Result) != "4" {
			t.Errorf("%s answered %s", r.Worker, r.Result)
		}
		s.want(t, "run_1", "1.0:2")
	})
}
