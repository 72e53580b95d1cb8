package durability_test

import (
	"context"
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/crumbmesh/crumbmesh/pkg/agent"
	"github.com/crumbmesh/crumbmesh/pkg/crumbs"
	"github.com/crumbmesh/crumbmesh/pkg/fault"
	"github.com/crumbmesh/crumbmesh/pkg/mesh"
	"github.com/crumbmesh/crumbmesh/pkg/tool"
)

// spoil overwrites a run's record with bytes that are none, beside its headers or
// without them, and returns them.
func (s scene) spoil(run crumbs.RunID, headers bool) string {
	s.t.Helper()
	bucket := s.Mesh.Conn.Bucket(crumbs.BucketRuns)
	r, err := bucket.Get(context.Background(), string(run))
	if err != nil {
		s.t.Fatal(err)
	}
	w := mesh.Write{Key: string(run), Value: []byte("{broken " + string(run)), Revision: r.Revision, Header: map[string]string{}}
	for k := range r.Header {
		if headers && strings.HasPrefix(k, "crumb-") {
			w.Header[k] = r.Header.Get(k)
		}
	}
	if _, err := bucket.Set(context.Background(), w); err != nil {
		s.t.Fatal(err)
	}
	return string(w.Value)
}

// Schedule 13. Records that do not decode meet an answer, a result, a cancel and
// a timer: each run ends and says so, its bytes are kept, and nobody else waits.
// A record without its headers cannot say whose it is: its message is kept too.
func TestPoison_Schedule13_UndecodableRecord(t *testing.T) {
	bubble(t, func(t *testing.T, s scene) {
		s.Gateway()
		s.Approvals()
		release := make(chan struct{})
		s.Tools(groupBench, s.doing("pay", crumbs.EffectOnce, func(c tool.Context, _ int) error {
			if c.RunID == "run_result" {
				<-release
			}
			return nil
		}))
		s.apply(asking(clerk("asker", turn("", call("pay")), turn("Done.")), "pay"), clerk("payer", turn("", call("pay")), turn("Done.")),
			human(clerk("waiter", turn("", question("confirm")), turn("Done.")), "confirm", time.Minute))
		day := s.Orchestrator()
		events := map[crumbs.RunID]func(){
			"run_answer":   func() { approve(s, "run_answer", 0) },
			"run_result":   func() { close(release) },
			"run_cancel":   func() { s.Cancel("run_cancel") },
			"run_timer":    func() {},
			"run_headless": func() { s.Cancel("run_headless") },
		}
		for _, run := range []crumbs.RunID{"run_answer", "run_cancel", "run_headless"} {
			s.Start("asker", run)
			s.WaitSuspended(run)
		}
		s.Start("payer", "run_result")
		s.Start("waiter", "run_timer")
		s.WaitSuspended("run_timer")
		s.WaitType("run_result", crumbs.TypeToolCalled)
		day.Stop()
		spoilt := map[crumbs.RunID]string{}
		for run := range events {
			spoilt[run] = s.spoil(run, run != "run_headless")
		}
		s.Orchestrator()
		for run, happen := range events {
			happen()
			if run == "run_headless" {
				continue
			}
			all := s.WaitEnd(run)
			var last crumbs.AgentError
			if err := json.Unmarshal(all[len(all)-1].Body, &last); err != nil || last.Error == nil || last.Error.Code != fault.InternalError {
				t.Errorf("%s ended with %s", run, all[len(all)-1].Body)
			}
			for i, c := range all {
				if c.Base.Seq != uint64(i+1) {
					t.Errorf("%s: crumb %d has seq %d", run, i+1, c.Base.Seq)
				}
			}
			kept := s.Messages(crumbs.StreamDead, crumbs.DeadFilter("KV_"+crumbs.BucketRuns, run))
			if len(kept) != 1 || string(kept[0].Data()) != spoilt[run] {
				t.Errorf("%s: %d dead letters hold its record", run, len(kept))
			}
			s.WaitTrimmed(run)
		}
		if v := s.View("run_cancel"); v.Status != "failed" {
			t.Errorf("the cancelled one is %s", v.Status)
		}
		s.empty(crumbs.StreamInbox)
		if kept := s.Messages(crumbs.StreamDead, crumbs.DeadFilter(crumbs.StreamInbox, "run_headless")); len(kept) == 0 {
			t.Error("the message that met a record without headers is not kept")
		}
		s.Start("payer", "run_next")
		s.WaitEnd("run_next")
		account(t, s.Fleet, "run_next").completed("Done.")
	})
}

// Arguments of 1.3 MB and a large result pass through: what is over the limit of a
// message travels as an object. A result over the limit of results is told at once.
// (Real time: an upload by the NATS client may leave a goroutine behind, which a
// bubble would take for a deadlock.)
func TestPoison_Schedule13_LargeValues_F142(t *testing.T) {
	t.Parallel()
	s := realTime(t)
	s.Gateway()
	large := func(name string, bytes int) tool.Tool {
		return tool.New(name, "Return a large text.", func(c tool.Context, _ json.RawMessage, _ tool.Yield) (json.RawMessage, error) {
			s.add(c.CallID)
			return json.Marshal(strings.Repeat("y", bytes))
		}, tool.Effect(crumbs.EffectOnce))
	}
	s.Tools(groupBench, large("peek", mesh.InlineMax-200), large("pay", 5_000_000))
	args := json.RawMessage(`{"a":"{{ .results.tool_peek }}","b":"{{ .results.tool_peek }}","c":"{{ .results.tool_peek }}","d":"{{ .results.tool_peek }}","e":"{{ .results.tool_peek }}"}`)
	s.apply(clerk("clerk", turn("", call("peek")), turn("", agent.ScriptCall{Name: "tool_pay", Args: args}), turn("Done.")))
	s.Orchestrator()
	heard := s.overheard("tool.>", "crumb.>", "model.>")
	s.Start("clerk", "run_1")
	s.WaitEnd("run_1")
	s.want(t, "run_1", "1.0:1 2.0:1")
	if v := s.View("run_1"); v.Status != "completed" || string(v.Output) != `"Done."` {
		t.Errorf("%s %s %v", v.Status, v.Output, v.Error)
	}
	references := 0
	for _, m := range heard() {
		if len(m.Data) > mesh.InlineMax {
			t.Errorf("%s has %d bytes", m.Subject, len(m.Data))
		}
		if strings.Contains(string(m.Data), `"dataref"`) {
			references++
		}
	}
	if e := account(t, s.Fleet, "run_1").errors["run_1.2.0"].Error; e == nil || e.Code != fault.PayloadTooLarge {
		t.Errorf("a result of 5 MB: %v", e)
	}
	if references < 4 { // a result, a call, their crumbs
		t.Errorf("%d bodies travelled as objects", references)
	}
	if n := len(s.record("run_1")); n > 64<<10 {
		t.Errorf("the record has %d bytes", n)
	}
}
