package durability_test

import (
	"context"
	"encoding/json"
	"testing"
	"time"

	"github.com/crumbmesh/crumbmesh/internal/fleet"
	"github.com/crumbmesh/crumbmesh/internal/meshtest"
	"github.com/crumbmesh/crumbmesh/pkg/agent"
	"github.com/crumbmesh/crumbmesh/pkg/crumbs"
	"github.com/crumbmesh/crumbmesh/pkg/decision"
	"github.com/crumbmesh/crumbmesh/pkg/fault"
	"github.com/crumbmesh/crumbmesh/pkg/mesh"
)

// brief is the retention of a deployment, a day an hour.
func brief(s *mesh.Settings) {
	s.CrumbsAge, s.RunTTL, s.BlobsAge, s.DeadAge = 14*time.Hour, 15*time.Hour, 30*time.Hour, 30*time.Hour
	s.ClaimTTL, s.TimerTTL, s.TombstoneTTL = 2*time.Hour, time.Hour, time.Hour
}

// What a run leaves goes: timers and claims first, then its crumbs, its record, and
// what it put aside. While crumbs of it are there its id is not free.
func TestRetention_NothingStays(t *testing.T) {
	bubble(t, func(t *testing.T, s scene) {
		gateway, tools := s.Gateway(), s.Tools(groupBench, s.read(true))
		s.apply(reader("reader", largePage+1))
		o := s.Orchestrator()
		s.Start("reader", "run_1")
		s.WaitEnd("run_1")
		s.settled("run_1")
		s.Cancel("run_2") // of a run that nobody asks for
		s.empty(crumbs.StreamInbox)
		ended := time.Now()
		<-time.After(25 * time.Minute) // its timers are due
		for _, service := range []interface{ Stop() }{o, gateway, tools} {
			service.Stop() // idle loops make virtual days long
		}
		held := func(stream string) bool { n, _ := s.Stream(stream); return n > 0 }
		record := func(run string) bool {
			r, err := s.Mesh.Conn.Bucket(crumbs.BucketRuns).Get(context.Background(), run)
			if err != nil {
				t.Fatal(err)
			}
			return r.Exists()
		}
		for _, at := range []struct {
			after                                               time.Duration
			timers, tombstone, claims, crumbs, record, putAside bool
		}{
			{30 * time.Minute, true, true, true, true, true, true},
			{100 * time.Minute, false, false, true, true, true, true},
			{2*time.Hour + 5*time.Minute, false, false, false, true, true, true},
			{13 * time.Hour, false, false, false, true, true, true},
			{14*time.Hour + 30*time.Minute, false, false, false, false, true, true},
			{16 * time.Hour, false, false, false, false, false, true},
			{31 * time.Hour, false, false, false, false, false, false},
		} {
			<-time.After(time.Until(ended.Add(at.after)))
			for what, pair := range map[string][2]bool{
				"timers": {held(crumbs.StreamTimers), at.timers}, "the cancel": {record("run_2"), at.tombstone}, "claims": {held("KV_" + crumbs.BucketClaims), at.claims},
				"crumbs": {held(crumbs.StreamCrumbs), at.crumbs}, "the record": {record("run_1"), at.record}, "blobs": {held(crumbs.StreamBlobs), at.putAside},
			} {
				if pair[0] != pair[1] {
					t.Errorf("%s after the end: %s are there: %v, want %v", at.after, what, pair[0], pair[1])
				}
			}
		}
	}, meshtest.WithSettings(brief))
}

// A run asks one question after the other and would never end. It does, while all
// its crumbs and everything it put aside are still there.
func TestRetention_NoRunOutlivesItsCrumbs(t *testing.T) {
	bubble(t, func(t *testing.T, s scene) {
		s.Gateway()
		s.Approvals()
		d := clerk("clerk", turn("One.", question("next")), turn("Two.", question("next")), turn("Three.", question("next")), turn("Done."))
		s.apply(human(d, "next", 0))
		s.Orchestrator()
		s.Start("clerk", "run_1")
		begun := time.Now()
		for step := range 2 {
			s.WaitFor("run_1", func(c fleet.Stored) bool { return c.Base.Suspended && c.Base.Step == step+1 })
			<-time.After(50 * time.Minute)
			id := crumbs.ToolCallID("run_1", step+1, 0)
			if _, err := s.Decide(decision.Answer{CheckpointID: id, Outcome: crumbs.DecideAnswer, Response: json.RawMessage(`"go on"`)}); err != nil {
				t.Fatal(err)
			}
		}
		s.WaitEnd("run_1")
		if took, longest := time.Since(begun), s.Mesh.Settings().RunMax(); took < longest || took > longest+time.Minute {
			t.Errorf("the run ended after %s, want %s", took, longest)
		}
		account(t, s.Fleet, "run_1").failed(fault.RunDeadlineExceeded).ended("1.0:answered 2.0:answered 3.0:withdrawn")
	}, meshtest.WithSettings(func(s *mesh.Settings) { brief(s); s.CrumbsAge = 2 * time.Hour }))
}

// What a run has put aside is gone. The run ends and says so, instead of coming back
// for ever.
func TestRetention_AValueThatIsGoneEndsItsRun(t *testing.T) {
	bubble(t, func(t *testing.T, s scene) {
		s.Gateway()
		s.Approvals()
		s.Tools(groupBench, s.read(true))
		page := agent.ScriptCall{Name: "tool_read", Args: json.RawMessage(`{"page":30}`)}
		s.apply(human(having(clerk("clerk", turn("", page, question("next")), turn("Done.")), groupBench, "read", crumbs.EffectPure), "next", 0))
		s.Orchestrator()
		s.Start("clerk", "run_1")
		s.WaitSuspended("run_1")
		blobs, err := s.Mesh.Conn.JS.Stream(t.Context(), crumbs.StreamBlobs)
		if err == nil {
			err = blobs.Purge(t.Context())
		}
		if err != nil {
			t.Fatal(err)
		}
		id := crumbs.ToolCallID("run_1", 1, 1)
		if _, err := s.Decide(decision.Answer{CheckpointID: id, Outcome: crumbs.DecideAnswer, Response: json.RawMessage(`1`)}); err != nil {
			t.Fatal(err)
		}
		s.WaitTrimmed("run_1")
		if v := s.View("run_1"); v.Status != "failed" || v.Error == nil || v.Error.Code != fault.RunNotFound {
			t.Errorf("%+v", v)
		}
	})
}
