package durability_test

import (
	"testing"
	"testing/synctest"

	"github.com/crumbmesh/crumbmesh/internal/fleet"
	"github.com/crumbmesh/crumbmesh/pkg/crumbs"
	"github.com/crumbmesh/crumbmesh/services/orchestrator"
)

// A replica is killed at each passage of each point of its loop, and another one
// goes on: two calls in parallel, one of them approved by a person.
func TestRun_CrashAtEveryPoint_CF_N19(t *testing.T) {
	for _, point := range orchestrator.Points() {
		t.Run(string(point), func(t *testing.T) {
			bubble(t, func(t *testing.T, s scene) {
				s.Gateway()
				s.Approvals()
				s.Tools(groupBench, s.counted()...)
				s.apply(asking(clerk("clerk", turn("Looking.", call("put"), call("pay")), turn("Done.")), "pay"))
				replica, n := s.Trapped(), int64(1)
				for ; ; n++ {
					survivor := s.crash(replica, point, n)
					if survivor == replica {
						break
					}
					replica = survivor
				}
				if n == 1 {
					t.Error("no run passed the point")
				}
			})
		})
	}
}

// crash plays one run in which a replica dies at its nth passage. It returns the
// replica that is left: the same one when the run ended before.
func (s scene) crash(replica *fleet.Trapped, point orchestrator.Point, n int64) *fleet.Trapped {
	s.t.Helper()
	run := crumbs.RunID("run_" + itoa(int(n)))
	trap := replica.Lay(point, n)
	follow := func(fits func(fleet.Stored) bool) {
		s.t.Helper()
		if _, ok := s.WaitOr(trap.Dead(), run, fits); ok {
			return
		}
		replica, trap = s.Trapped(), &fleet.Trap{}
		s.WaitFor(run, fits)
	}
	s.Start("clerk", run)
	follow(func(c fleet.Stored) bool { return c.Base.Suspended })
	if _, err := s.Approve(crumbs.ToolCallID(run, 1, 1)); err != nil {
		s.t.Fatal(err)
	}
	follow(func(c fleet.Stored) bool { return crumbs.Terminal(c.Base.Type) })
	synctest.Wait() // the last points come after the last crumb
	select {
	case <-trap.Dead():
		replica = s.Trapped()
	default:
	}
	s.settled(run)
	account(s.t, s.Fleet, run).completed("Looking.Done.").ended("1.0:ok 1.1:ok")
	s.want(s.t, run, "1.0:1 1.1:1")
	return replica
}

// settled waits until nothing about a run is left to do: its record is final, and
// every queue is empty.
func (s scene) settled(run crumbs.RunID) {
	s.t.Helper()
	s.WaitTrimmed(run)
	s.empty(crumbs.StreamRequests, crumbs.StreamInbox, crumbs.StreamToolCalls, crumbs.StreamModelCalls)
}

// empty waits until streams hold nothing.
func (s scene) empty(streams ...string) {
	s.t.Helper()
	for _, name := range streams {
		s.Until(name+" is empty", func() bool { held, _ := s.Stream(name); return held == 0 })
	}
}
