package worker

import (
	"strings"
	"testing"
	"time"

	"github.com/crumbmesh/crumbmesh/internal/meshtest"
	"github.com/crumbmesh/crumbmesh/pkg/crumbs"
	"github.com/crumbmesh/crumbmesh/pkg/fault"
	"github.com/crumbmesh/crumbmesh/services/orchestrator/internal/core"
	"github.com/crumbmesh/crumbmesh/services/orchestrator/internal/registry"
)

// A record on which the event panics, and the failure after it too, is replaced by
// one that ends the run, and kept among the dead letters as it was.
func TestDecide_P9_PoisonRecordIsKeptAndEnded(t *testing.T) {
	t.Parallel()
	m := meshtest.Start(t)
	w := New(m.Conn, registry.New(m.Conn), Config{Timing: core.DefaultTiming()})
	at := crumbs.At(time.Now())
	// A stopping run that lost its tool set: giving its call up panics.
	s := core.State{Version: core.Version, Decision: 3, Seq: 4, Status: core.Stopping, Run: core.Run{ID: "run_1", Agent: "clerk", StartedAt: at},
		Stop: &core.Stop{Status: core.Cancelled, Error: fault.New(fault.RunCancelled, "stop")}, Timer: core.Timer{V: 1, At: at},
		Calls: []core.Call{{ID: "run_1.1.0", Leaf: "tool_pay", Phase: core.Dispatched, Attempt: 1, SentAt: at, Grace: at}}}
	in := &incoming{kind: core.TimerDue, run: "run_1",
		event: core.Event{Kind: core.TimerDue, At: at, Timer: &crumbs.TimerDue{RunID: "run_1", V: 1, At: at}}}
	next, err := w.decide(t.Context(), &entry{state: s}, in)
	if err != nil || next.Status != core.Failed || next.Seq != 5 || next.Result.Error.Code != fault.InternalError {
		t.Fatalf("got %s with crumb %d, %v", next.Status, next.Seq, err)
	}
	dead, err := m.Conn.Last(t.Context(), crumbs.StreamDead, crumbs.DeadFilter("KV_"+crumbs.BucketRuns, "run_1"))
	if err != nil || dead == nil || !strings.Contains(string(dead.Data), `"tool_pay"`) {
		t.Errorf("the record is not among the dead letters: %v %v", dead, err)
	}
}
