package durability_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/crumbmesh/crumbmesh/internal/meshtest"
	"github.com/crumbmesh/crumbmesh/pkg/agent"
	"github.com/crumbmesh/crumbmesh/pkg/crumbs"
	"github.com/crumbmesh/crumbmesh/pkg/decision"
	"github.com/crumbmesh/crumbmesh/pkg/fault"
	"github.com/crumbmesh/crumbmesh/pkg/mesh"
	"github.com/crumbmesh/crumbmesh/pkg/tool"
	"github.com/crumbmesh/crumbmesh/pkg/tool/worker"
	"github.com/crumbmesh/crumbmesh/services/approvals"
	"github.com/crumbmesh/crumbmesh/services/modelgw"
	"github.com/crumbmesh/crumbmesh/services/orchestrator"
)

// Schedule 12. All orchestrators are down while questions are answered in time
// and calls finish in time, and come back when expiries and deadlines are over.
func TestOutage_Schedule12_NightShift(t *testing.T) {
	bubble(t, func(t *testing.T, s scene) {
		s.Gateway()
		s.Approvals()
		slow := s.doing("pay", crumbs.EffectOnce, func(tool.Context, int) error { <-time.After(20 * time.Second); return nil })
		s.Tools(groupBench, slow, s.tool("put", crumbs.EffectIdempotent))
		s.apply(
			human(clerk("asker", turn("", call("put"), question("confirm")), turn("Done.")), "confirm", time.Minute),
			clerk("payer", turn("", call("pay")), turn("Done.")))
		short := timed(func(c *orchestrator.Timing) {
			c.StartBefore, c.ToolTimeout, c.Slack = 30*time.Second, 30*time.Second, time.Second
		})
		day := s.Orchestrator(short)
		const runs = 8
		for i := range runs {
			s.Start("asker", crumbs.RunID("asked_"+itoa(i)))
			s.Start("payer", crumbs.RunID("paid_"+itoa(i)))
		}
		for i := range runs {
			s.WaitSuspended(crumbs.RunID("asked_" + itoa(i)))
			s.Until("the call runs", func() bool { return s.total(crumbs.RunID("paid_"+itoa(i))) == 1 })
		}
		day.Stop()
		<-time.After(time.Second)
		for i := range runs {
			if i%4 == 3 {
				continue // nobody answers this one: it must expire
			}
			answer := decision.Answer{CheckpointID: crumbs.ToolCallID(crumbs.RunID("asked_"+itoa(i)), 1, 1), Outcome: crumbs.DecideAnswer, Response: []byte(`false`)}
			if _, err := s.Decide(answer); err != nil {
				t.Fatal(err)
			}
		}
		<-time.After(5 * time.Minute)
		s.Orchestrator(short)
		for i := range runs {
			asked, paid := crumbs.RunID("asked_"+itoa(i)), crumbs.RunID("paid_"+itoa(i))
			s.WaitEnd(asked)
			s.WaitEnd(paid)
			want := "1.0:ok 1.1:answered"
			if i%4 == 3 {
				want = "1.0:ok 1.1:expired"
			}
			account(t, s.Fleet, asked).completed("Done.").ended(want)
			account(t, s.Fleet, paid).completed("Done.").ended("1.0:ok")
		}
	})
}

// A decision is recorded while no orchestrator lives. The first one that starts
// has no key and fails; the second is killed as it applies the decision; the third
// finishes. Until then the question is decided, not done. Nothing but run and
// call id is needed to answer.
func TestOutage_DecisionSurvives_F019_F026_CF_H03_CF_H04(t *testing.T) {
	bubble(t, func(t *testing.T, s scene) {
		s.Gateway()
		crash := errors.New("crash")
		first := s.Approvals(func(c *approvals.Config) { c.AfterRecord = func(crumbs.CheckpointID) error { return crash } })
		s.Tools(groupBench, s.counted()...)
		s.apply(asking(clerk("clerk", turn("", call("pay")), turn("Done.")), "pay"))
		day := s.Trapped()
		s.Start("clerk", "run_1")
		s.WaitSuspended("run_1")
		day.Kill()
		id := crumbs.ToolCallID("run_1", 1, 0)
		if _, err := s.Approve(id); err == nil {
			t.Fatal("approvals did not crash between record and publish")
		}
		first.Kill()
		s.Approvals()
		if row := s.Row(id); row.Status != decision.StatusDecided {
			t.Errorf("the question is %s, want decided", row.Status)
		}
		if err := orchestrator.Run(context.Background(), orchestrator.Config{}, s.Mesh.Connect("keyless")); fault.CodeOf(err) != fault.InvalidConfig {
			t.Errorf("without a key: %v", err)
		}
		replica := s.Trapped()
		<-replica.Lay("written", 1).Dead()
		if row := s.Row(id); row.Status != decision.StatusDecided {
			t.Errorf("the question is %s before the run says so, want decided", row.Status)
		}
		s.Orchestrator()
		s.WaitEnd("run_1")
		account(t, s.Fleet, "run_1").completed("Done.").ended("1.0:ok").told(crumbs.TypeRunStarted, crumbs.TypeStepEnd, crumbs.TypeHumanRequired,
			crumbs.TypeHumanResumed, crumbs.TypeToolCalled, crumbs.TypeToolResulted, crumbs.TypeStepEnd, crumbs.TypeRunEnded)
		s.want(t, "run_1", "1.0:1")
		s.Until("the question is applied", func() bool { return s.Row(id).Status == decision.StatusApplied })
		_, err := s.Decide(decision.Answer{CheckpointID: id, Outcome: crumbs.DecideReject})
		if fault.CodeOf(err) != fault.CheckpointNotFound {
			t.Errorf("CF-H04: another answer: %v", err)
		}
	})
}

// Schedule 6. The server restarts inside the duplicate window, which it forgets,
// between commands that were acknowledged and the redelivery of their events.
func TestOutage_Schedule06_ServerRestart_F144(t *testing.T) {
	bubble(t, func(t *testing.T, s scene) {
		s.Gateway()
		s.Tools(groupBench, s.counted()...)
		s.apply(clerk("clerk", turn("", call("put"), call("pay")), turn("Done.")))
		replica := s.Trapped()
		for _, nth := range []int64{1, 2} { // model.call, then the two tool.call
			run := crumbs.RunID("run_" + itoa(int(nth)))
			trap := replica.Lay("commands", nth)
			s.Start("clerk", run)
			<-trap.Dead()
			s.Mesh.Restart()
			replica = s.Trapped()
			s.WaitEnd(run)
			account(t, s.Fleet, run).completed("Done.").ended("1.0:ok 1.1:ok")
			s.want(t, run, "1.0:1 1.1:1")
			for step := 1; step <= 2; step++ {
				if n := s.Claim(crumbs.ModelCallID(run, step), 1).Starts; n != 1 {
					t.Errorf("%s: the model was asked %d times in step %d", run, n, step)
				}
			}
		}
	})
}

// A server that stands alone restarts with every stream that services look for:
// each of them starts again, and live tokens flow.
func TestOutage_ServicesStartAfterAServer_F144(t *testing.T) {
	t.Parallel()
	s := realTime(t, meshtest.WithSettings(func(s *mesh.Settings) { *s = mesh.DefaultSettings().Small() }))
	s.Mesh.Restart()
	s.Until("connected again", func() bool { return s.Mesh.Conn.Health() == nil })
	s.Orchestrator()
	s.Gateway()
	s.Approvals()
	s.Tools(groupBench, s.counted()...)
	s.apply(clerk("clerk", agent.Turn{Chunks: []string{"Do", "ne."}}))
	s.Start("clerk", "run_1")
	s.WaitEnd("run_1")
	account(t, s.Fleet, "run_1").completed("Done.")
	if live := s.Messages(crumbs.StreamDeltas, crumbs.RunDeltasFilter("run_1")); len(live) != 2 {
		t.Errorf("%d deltas, want 2", len(live))
	}
}

// What a service works on is deleted under it: each says what is missing and which
// command makes it. Once that is done work goes on by itself.
func TestOutage_ConsumerDeleted_F144(t *testing.T) {
	bubble(t, func(t *testing.T, s scene) {
		health := map[string]func() error{}
		take := func(name string) func(func() error) { return func(check func() error) { health[name] = check } }
		s.Gateway(func(c *modelgw.Config) { c.Health = take("modelgw") })
		s.Approvals(func(c *approvals.Config) { c.Health = take("approvals") })
		health["toolexec"] = s.worker().Health
		s.apply(clerk("clerk", turn("", call("pay")), turn("Done.")))
		s.Orchestrator(func(c *orchestrator.Config) { c.Health = take("orchestrator") })
		for name, check := range health {
			if err := check(); err != nil {
				t.Errorf("%s at first: %v", name, err)
			}
		}
		gone := map[string]struct{ stream, consumer, repair string }{
			"orchestrator": {crumbs.StreamInbox, mesh.ConsumerEvents, "run `crumb init`"},
			"approvals":    {crumbs.StreamCrumbs, mesh.ConsumerApprovals, "run `crumb init`"},
			"modelgw":      {crumbs.StreamModelCalls, mesh.ProviderConsumer("script"), "crumb init --provider script"},
			"toolexec":     {crumbs.StreamToolCalls, mesh.GroupConsumer(groupBench), "crumb init --group bench"},
		}
		for _, g := range gone {
			if err := s.Mesh.Conn.JS.DeleteConsumer(context.Background(), g.stream, g.consumer); err != nil {
				t.Fatal(err)
			}
		}
		<-time.After(30 * time.Second)
		for name, g := range gone {
			for range 5 { // at whatever moment of its loop
				err := health[name]()
				if err == nil || !strings.Contains(err.Error(), string(fault.TopologyMissing)) || !strings.Contains(err.Error(), g.consumer) || !strings.Contains(err.Error(), g.repair) {
					t.Errorf("%s without its consumer: %v", name, err)
				}
				<-time.After(110 * time.Millisecond)
			}
		}
		if err := s.Mesh.Conn.EnsureConsumers(context.Background(), mesh.Topology{Groups: map[string]int{groupBench: 0}, Providers: map[string]int{"script": 0}}); err != nil {
			t.Fatal(err)
		}
		s.Start("clerk", "run_1")
		s.WaitEnd("run_1")
		account(t, s.Fleet, "run_1").completed("Done.").ended("1.0:ok")
		<-time.After(30 * time.Second)
		for name, check := range health {
			if err := check(); err != nil {
				t.Errorf("%s in the end: %v", name, err)
			}
		}
	})
}

// A stream or bucket is deleted under the services: the readiness of each that needs it
// names it, until it is there again.
func TestOutage_StreamDeleted(t *testing.T) {
	bubble(t, func(t *testing.T, s scene) {
		health := map[string]func() error{}
		take := func(name string) func(func() error) { return func(check func() error) { health[name] = check } }
		s.Gateway(func(c *modelgw.Config) { c.Health = take("modelgw") })
		s.Approvals(func(c *approvals.Config) { c.Health = take("approvals") })
		s.Orchestrator(func(c *orchestrator.Config) { c.Health = take("orchestrator") })
		health["toolexec"] = s.worker().Health
		all := []string{"approvals", "modelgw", "orchestrator", "toolexec"}
		for stream, by := range map[string][]string{
			crumbs.StreamDeltas: {"modelgw", "toolexec"}, crumbs.StreamBlobs: all,
			"KV_" + crumbs.BucketClaims: {"modelgw", "orchestrator", "toolexec"}, "KV_" + crumbs.BucketTools: {"orchestrator", "toolexec"},
		} {
			if err := s.Mesh.Conn.JS.DeleteStream(context.Background(), stream); err != nil {
				t.Fatal(err)
			}
			<-time.After(30 * time.Second)
			for _, name := range all {
				err := health[name]()
				if says := err != nil && strings.Contains(err.Error(), "stream "+stream+": missing; run `crumb init`"); says != slices.Contains(by, name) {
					t.Errorf("%s without %s: %v", name, stream, err)
				}
			}
			if err := s.Mesh.Conn.Ensure(context.Background(), mesh.Topology{}); err != nil {
				t.Fatal(err)
			}
			<-time.After(30 * time.Second)
			for name, check := range health {
				if err := check(); err != nil {
					t.Errorf("%s with %s again: %v", name, stream, err)
				}
			}
		}
	})
}

// worker serves the group until the test ends.
func (s scene) worker() *worker.Worker {
	s.t.Helper()
	ready := make(chan struct{})
	w, err := worker.New(context.Background(), worker.Config{Group: groupBench, Ready: func() { close(ready) }}, s.Mesh.Connect("toolexec"), s.counted()...)
	if err != nil {
		s.t.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- w.Run(ctx) }()
	<-ready
	s.t.Cleanup(func() {
		stop()
		if err := <-ended; err != nil {
			s.t.Error(err)
		}
	})
	return w
}

// The presence of a worker ends a bound after its death, though no event says so,
// and the marker that its expiry leaves is no value.
func TestOutage_PresenceExpires_F140(t *testing.T) {
	bubble(t, func(t *testing.T, s scene) {
		ctx := context.Background()
		w := s.Tools(groupBench, s.tool("pay", crumbs.EffectOnce))
		alive := func() bool {
			ok, err := s.Mesh.Conn.Alive(ctx, crumbs.ToolPresence(groupBench, w.Name))
			if err != nil {
				t.Fatal(err)
			}
			return ok
		}
		<-time.After(time.Minute)
		if !alive() {
			t.Error("a living worker is not present")
		}
		w.Kill()
		<-time.After(s.Mesh.Settings().PresenceTTL + time.Millisecond)
		if alive() {
			t.Error("a dead worker is present")
		}
		<-time.After(s.Mesh.Settings().PresenceTTL) // for the server to drop the row
		r, err := s.Mesh.Conn.Bucket(crumbs.BucketWorkers).Get(ctx, crumbs.ToolPresence(groupBench, w.Name))
		if err != nil || r.Exists() {
			t.Errorf("the row that expired: %+v, %v", r, err)
		}
	})
}

// The write of the state that asks a person takes place, but its writer hears
// nothing; then nobody answers. The run ends with the expiry it was given.
func TestOutage_LostAnswerOfTheWrite_F151(t *testing.T) {
	bubble(t, func(t *testing.T, s scene) {
		s.Gateway()
		s.Approvals()
		writes := 0
		mute := meshtest.Tap(func(subject string) meshtest.Verdict {
			if subject == "$KV.runs.run_1" {
				if writes++; writes == 2 {
					return meshtest.Mute
				}
			}
			return meshtest.Pass
		})
		s.apply(human(clerk("clerk", turn("", question("confirm")), turn("Done.")), "confirm", 2*time.Minute))
		s.On(mute).Orchestrator()
		s.Start("clerk", "run_1")
		s.WaitEnd("run_1")
		account(t, s.Fleet, "run_1").completed("Done.").ended("1.0:expired")
		if writes < 3 {
			t.Errorf("%d writes: no answer was lost", writes)
		}
	})
}
