package durability_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/crumbmesh/crumbmesh/internal/meshtest"
	"github.com/crumbmesh/crumbmesh/pkg/client"
	"github.com/crumbmesh/crumbmesh/pkg/crumbs"
	"github.com/crumbmesh/crumbmesh/pkg/fault"
	"github.com/crumbmesh/crumbmesh/pkg/mesh"
	"github.com/crumbmesh/crumbmesh/pkg/tool"
)

// While a work queue refuses, who asks for a run is told QUEUE_FULL and when to try
// again; the same request of a run that is there is answered. With room again runs
// are taken, and those that were taken end.
func TestQueue_ClientsAreToldThatItIsFull(t *testing.T) {
	bubble(t, func(t *testing.T, s scene) {
		s.Gateway()
		s.Approvals()
		s.Tools(groupBench, s.counted()...)
		s.apply(asking(clerk("clerk", turn("", call("pay")), turn("Done.")), "pay"), clerk("talker", turn("Done.")))
		s.Orchestrator()
		app := client.New(s.Mesh.Connect("app"))
		start := func(run crumbs.RunID) (client.Run, error) {
			return app.Start(context.Background(), client.Request{Agent: "clerk", RunID: run})
		}
		if _, err := start("run_1"); err != nil {
			t.Fatal(err)
		}
		s.WaitSuspended("run_1")
		s.fill()
		approve(s, "run_1", 0) // its command is refused from now on
		var told *fault.Error
		asked := 0
		s.Until("a client is told", func() bool {
			asked++
			_, err := start(crumbs.RunID("asked_" + itoa(asked)))
			told = fault.From(err)
			return fault.CodeOf(err) == fault.QueueFull
		})
		if told.RetryAfterMs != mesh.QueueFullRetry.Milliseconds() {
			t.Errorf("retryAfterMs is %d", told.RetryAfterMs)
		}
		var x crumbs.RunExplained
		if err := s.ask(crumbs.EndpointRunsExplain, crumbs.RunGet{RunID: "run_1"}, &x); err != nil {
			t.Fatal(err)
		}
		if len(x.WaitsFor) != 1 || x.WaitsFor[0].Place != crumbs.PlaceFull || !strings.HasPrefix(x.Advice, "QUEUE_FULL: call run_1.1.0 (tool_pay) is not sent since ") ||
			!strings.Contains(x.Advice, "TOOLCALLS is full with ") {
			t.Errorf("explained: %s, %+v", x.Advice, x.WaitsFor)
		}
		if again, err := start("run_1"); err != nil || again.Created {
			t.Errorf("the run that is there: %+v %v", again, err)
		}
		s.drain()
		s.Until("runs are taken again", func() bool { _, err := start("run_3"); return err == nil })
		s.WaitEnd("run_1")
		account(t, s.Fleet, "run_1").completed("Done.").ended("1.0:ok")
		s.WaitSuspended("run_3")
		if err := s.ask(crumbs.EndpointRunsExplain, crumbs.RunGet{RunID: "run_1"}, &x); err != nil || len(x.WaitsFor) != 0 {
			t.Errorf("explained after its end: %v, %+v", err, x)
		}
	}, meshtest.WithSettings(func(s *mesh.Settings) { s.CallsBytes = 64 << 10 }))
}

// A flood of raw requests is refused by the queue, which holds no more than it may,
// while outcomes of what was taken flow: INBOX takes no part in it.
func TestQueue_FloodOfRequestsIsBounded(t *testing.T) {
	const limit = 4 << 10
	bubble(t, func(t *testing.T, s scene) {
		s.Gateway()
		slow := s.doing("pay", crumbs.EffectOnce, func(tool.Context, int) error { <-time.After(20 * time.Second); return nil })
		s.Tools(groupBench, slow)
		s.apply(clerk("clerk", turn("", call("pay")), turn("Done.")))
		day := s.Orchestrator()
		s.Start("clerk", "run_1")
		s.Until("the call runs", func() bool { return s.total("run_1") == 1 })
		day.Stop()
		taken := []crumbs.RunID{}
		var refused *fault.Error
		for i := 0; refused == nil; i++ {
			run := crumbs.RunID("flood_" + itoa(i))
			err := s.Request(crumbs.RunRequest{AgentID: "clerk", RunID: run})
			if err == nil {
				taken = append(taken, run)
				continue
			}
			refused = fault.From(err)
		}
		if refused.Code != fault.QueueFull || refused.RetryAfterMs <= 0 {
			t.Errorf("refused with %+v", refused)
		}
		stream, err := s.Mesh.Conn.JS.Stream(context.Background(), crumbs.StreamRequests)
		if err != nil {
			t.Fatal(err)
		}
		if got := stream.CachedInfo().State; got.Bytes > limit || int(got.Msgs) != len(taken) {
			t.Errorf("REQUESTS holds %d messages of %d bytes, %d were taken", got.Msgs, got.Bytes, len(taken))
		}
		s.Until("the outcome is stored beside the flood", func() bool { held, _ := s.Stream(crumbs.StreamInbox); return held == 1 })
		s.Orchestrator()
		s.WaitEnd("run_1")
		account(t, s.Fleet, "run_1").completed("Done.").ended("1.0:ok")
		for _, run := range taken {
			s.WaitEnd(run)
			account(t, s.Fleet, run).completed("Done.")
		}
		s.empty(crumbs.StreamRequests, crumbs.StreamInbox, crumbs.StreamToolCalls)
	}, meshtest.WithSettings(func(s *mesh.Settings) { s.RequestsBytes = limit }))
}
