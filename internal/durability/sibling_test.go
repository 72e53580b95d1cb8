package durability_test

import (
	"encoding/json"
	"errors"
	"testing"

	"github.com/nats-io/nats.go"

	"github.com/crumbmesh/crumbmesh/pkg/agent"
	"github.com/crumbmesh/crumbmesh/pkg/crumbs"
	"github.com/crumbmesh/crumbmesh/pkg/fault"
	"github.com/crumbmesh/crumbmesh/pkg/tool"
)

// Four calls of one turn: two with equal arguments, one that fails at once, one
// that panics. Each ends by itself, both equal ones run, nothing suspends the run,
// and the model is told of all four in the next step.
func TestCalls_OneTurn_F035_F044_F045(t *testing.T) {
	bubble(t, func(t *testing.T, s scene) {
		s.Gateway()
		s.Tools(groupBench, s.tool("peek", crumbs.EffectPure),
			s.doing("put", crumbs.EffectIdempotent, func(tool.Context, int) error { return errors.New("no such shelf") }),
			s.doing("pay", crumbs.EffectOnce, func(tool.Context, int) error { panic("out of paper") }))
		heard := s.overheard("model.call.>")
		s.apply(clerk("clerk", turn("", call("peek"), call("put"), call("pay"), call("peek")), turn("Done.")))
		s.Orchestrator()
		s.Start("clerk", "run_1")
		for _, c := range s.WaitEnd("run_1") {
			if c.Base.Suspended {
				t.Errorf("F035: %s suspends the run", c.Base.Type)
			}
		}
		account(t, s.Fleet, "run_1").completed("Done.").ended("1.0:ok 1.1:error 1.2:error 1.3:ok")
		s.want(t, "run_1", "1.0:1 1.1:1 1.2:1 1.3:1")
		if results := prompt(t, heard(), 2); len(results) != 4 {
			t.Errorf("the model knows %d results", len(results))
		}
	})
}

// A run is cancelled at the first token of its second step: one crumb ends it, and
// that is of the cancel, not of the step before.
func TestCancel_InTheSecondStep_F057(t *testing.T) {
	bubble(t, func(t *testing.T, s scene) {
		s.Gateway()
		s.Tools(groupBench, s.counted()...)
		s.apply(clerk("clerk", turn("First.", call("peek")), agent.Turn{Chunks: []string{"one ", "two ", "three"}, DelayMs: 10_000}))
		s.Orchestrator()
		deltas := make(chan *nats.Msg, 64)
		if _, err := s.Mesh.Conn.NATS.ChanSubscribe(crumbs.SubjectDeltas, deltas); err != nil {
			t.Fatal(err)
		}
		s.Start("clerk", "run_1")
		for m := range deltas {
			var d crumbs.TextDelta
			if err := json.Unmarshal(m.Data, &d); err == nil && d.Delta == "one " {
				break
			}
		}
		s.Cancel("run_1")
		s.WaitEnd("run_1")
		h := account(t, s.Fleet, "run_1").failed(fault.RunCancelled).ended("1.0:ok") // account: one terminal crumb, the last
		if h.output != "" {
			t.Errorf("the run has the output %q", h.output)
		}
	})
}
