package durability_test

import (
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/crumbmesh/crumbmesh/internal/meshtest"
	"github.com/crumbmesh/crumbmesh/pkg/crumbs"
	"github.com/crumbmesh/crumbmesh/pkg/decision"
	"github.com/crumbmesh/crumbmesh/pkg/fault"
	"github.com/crumbmesh/crumbmesh/pkg/tool"
	"github.com/crumbmesh/crumbmesh/services/orchestrator"
)

// outlast is longer than a pull that was sent before its replica fell asleep.
const outlast = 5 * time.Second

// Schedule 7. A replica knows a run as it was when it fell asleep, another one
// brings it on, and the first one wakes to each kind of event. What its stale
// record does not know of is not dropped.
func TestStale_Schedule07_F141(t *testing.T) {
	for event, tc := range map[string]struct {
		cause func(s scene, release chan struct{})
		check func(h *history)
	}{
		"tool result": {
			func(_ scene, release chan struct{}) { close(release) },
			func(h *history) { h.completed("Done.").ended("1.0:ok 1.1:expired") }},
		"decision": {
			func(s scene, release chan struct{}) {
				if _, err := s.Decide(decision.Answer{CheckpointID: "run_1.1.1", Outcome: crumbs.DecideAnswer, Response: []byte(`0`)}); err != nil {
					s.t.Fatal(err)
				}
				<-time.After(outlast)
				close(release)
			},
			func(h *history) { h.completed("Done.").ended("1.0:ok 1.1:answered") }},
		"control": {
			func(s scene, _ chan struct{}) { s.Cancel("run_1") },
			func(h *history) { h.failed(fault.RunCancelled).ended("1.0:cancelled 1.1:withdrawn") }},
		"timer": {
			func(s scene, release chan struct{}) { <-time.After(45 * time.Second); close(release) },
			func(h *history) { h.completed("Done.").ended("1.0:ok 1.1:expired") }},
	} {
		t.Run(event, func(t *testing.T) {
			bubble(t, func(t *testing.T, s scene) {
				release := make(chan struct{})
				s.Approvals()
				s.Tools(groupBench, s.doing("put", crumbs.EffectIdempotent, func(c tool.Context, _ int) error {
					select {
					case <-c.Done():
					case <-release:
					}
					return c.Err()
				}))
				s.apply(human(clerk("clerk", turn("", call("put"), question("confirm")), turn("Done.")), "confirm", 30*time.Second))
				sleeper := s.sleeper()
				s.Start("clerk", "run_1")
				s.WaitType("run_1", crumbs.TypeRunStarted)
				sleeper.sleep()
				other := s.Orchestrator()
				s.Gateway()
				s.WaitType("run_1", crumbs.TypeHumanRequired)
				other.Stop()
				sleeper.wake()
				tc.cause(s, release)
				s.WaitEnd("run_1")
				tc.check(account(t, s.Fleet, "run_1"))
				s.want(t, "run_1", "1.0:1")
				sleeper.wasStale(t)
			})
		})
	}
}

// Schedule 7, the model's result: of the second call, which the replica that gets
// it has not heard of.
func TestStale_Schedule07_ModelResult(t *testing.T) {
	bubble(t, func(t *testing.T, s scene) {
		s.Tools(groupBench, s.tool("put", crumbs.EffectIdempotent))
		s.apply(clerk("clerk", turn("", call("put")), turn("Done.")))
		sleeper := s.sleeper()
		s.Start("clerk", "run_1")
		s.WaitType("run_1", crumbs.TypeRunStarted)
		sleeper.sleep()
		first := s.Gateway()
		s.Until("the model answered", func() bool { _, n := s.Stream(crumbs.StreamInbox); return n == 1 })
		first.Stop()
		other := s.Orchestrator()
		s.Until("the second model call waits", func() bool { held, _ := s.Stream(crumbs.StreamModelCalls); return held == 1 })
		s.WaitType("run_1", crumbs.TypeToolResulted)
		other.Stop()
		sleeper.wake()
		s.Gateway()
		s.WaitEnd("run_1")
		account(t, s.Fleet, "run_1").completed("Done.").ended("1.0:ok")
		s.want(t, "run_1", "1.0:1")
		sleeper.wasStale(t)
	})
}

// sleeper is a replica that takes no messages while it sleeps.
type sleeper struct {
	asleep atomic.Bool
	awake  atomic.Bool // again
	points chan orchestrator.Point
}

func (s scene) sleeper() *sleeper {
	s.t.Helper()
	r := &sleeper{points: make(chan orchestrator.Point, 1024)}
	s.On(meshtest.Tap(func(subject string) meshtest.Verdict {
		if r.asleep.Load() && strings.HasPrefix(subject, "$JS.API.CONSUMER.MSG.NEXT.") {
			return meshtest.Drop
		}
		return meshtest.Pass
	})).Orchestrator(func(c *orchestrator.Config) {
		c.At = func(p orchestrator.Point, _ crumbs.RunID) {
			if r.awake.Load() {
				r.points <- p
			}
		}
	})
	return r
}

func (r *sleeper) sleep() {
	r.asleep.Store(true)
	<-time.After(outlast)
}

func (r *sleeper) wake() {
	r.asleep.Store(false)
	r.awake.Store(true)
}

// wasStale checks that the replica first looked at the record it had, wrote
// nothing on top of it, and read again.
func (r *sleeper) wasStale(t *testing.T) {
	t.Helper()
	var got []orchestrator.Point
	for len(r.points) > 0 {
		got = append(got, <-r.points)
	}
	again := slices.Index(got[1:], "read") + 1
	if got[0] != "read" || again == 0 || slices.Contains(got[:again], "written") {
		t.Errorf("the replica went through %v, want a second read before it wrote: it was not stale", got)
	}
}
