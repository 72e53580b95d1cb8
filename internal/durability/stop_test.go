package durability_test

import (
	"testing"
	"time"

	"github.com/crumbmesh/crumbmesh/internal/fleet"
	"github.com/crumbmesh/crumbmesh/internal/meshtest"
	"github.com/crumbmesh/crumbmesh/pkg/crumbs"
	"github.com/crumbmesh/crumbmesh/pkg/tool"
	"github.com/crumbmesh/crumbmesh/services/orchestrator"
)

// stopMax is what compose.yaml and the chart give a process until it is killed.
const stopMax = 45 * time.Second

// NATS falls silent while every service has work in hand, and all are told to stop:
// each ends by itself before it would be killed. Once NATS is back others finish the run.
func TestStop_WhileNATSIsSilent(t *testing.T) {
	bubble(t, func(t *testing.T, s scene) {
		gate := &meshtest.Gate{}
		cut := s.On(gate)
		services := map[string]*fleet.Service{"modelgw": cut.Gateway(), "approvals": cut.Approvals()}
		services["toolexec"] = cut.Tools(groupBench, s.doing("put", crumbs.EffectIdempotent, func(c tool.Context, nth int) error {
			if nth == 1 {
				gate.Shut()
				<-c.Done()
				return c.Err()
			}
			return nil
		}))
		s.apply(clerk("clerk", turn("", call("put")), turn("Done.")))
		services["orchestrator"] = cut.Orchestrator()
		s.Start("clerk", "run_1")
		s.Until("the call runs", func() bool { return s.total("run_1") == 1 })
		begun := time.Now()
		type end struct {
			name string
			took time.Duration
		}
		ends := make(chan end, len(services))
		for name, service := range services {
			go func() { service.Stop(); ends <- end{name, time.Since(begun)} }()
		}
		for range services {
			if e := <-ends; e.took >= stopMax {
				t.Errorf("%s took %s to stop: it is killed after %s", e.name, e.took, stopMax)
			}
		}
		gate.Open()
		s.Gateway()
		s.Orchestrator()
		s.Tools(groupBench, s.doing("put", crumbs.EffectIdempotent, func(tool.Context, int) error { return nil }))
		s.WaitEnd("run_1")
		account(t, s.Fleet, "run_1").completed("Done.").ended("1.0:ok")
	})
}

// The same in the middle of a decision: what is half done is another replica's to finish.
func TestStop_InTheMiddleOfADecision(t *testing.T) {
	bubble(t, func(t *testing.T, s scene) {
		s.Gateway()
		s.Tools(groupBench, s.counted()...)
		s.apply(clerk("clerk", turn("", call("pay")), turn("Done.")))
		gate := &meshtest.Gate{}
		stuck, done := make(chan struct{}), false
		replica := s.On(gate).Orchestrator(func(c *orchestrator.Config) {
			c.At = func(p orchestrator.Point, _ crumbs.RunID) {
				if p == "written" && !done {
					done = true
					gate.Shut()
					close(stuck)
				}
			}
		})
		s.Start("clerk", "run_1")
		<-stuck
		begun := time.Now()
		replica.Stop()
		if took := time.Since(begun); took >= stopMax {
			t.Errorf("it took %s to stop: it is killed after %s", took, stopMax)
		}
		gate.Open()
		s.Orchestrator()
		s.WaitEnd("run_1")
		account(t, s.Fleet, "run_1").completed("Done.").ended("1.0:ok")
		s.want(t, "run_1", "1.0:1")
	})
}
