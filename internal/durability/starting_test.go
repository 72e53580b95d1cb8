package durability_test

import (
	"context"
	"encoding/json"
	"testing"
	"time"

	"github.com/crumbmesh/crumbmesh/pkg/crumbs"
	"github.com/crumbmesh/crumbmesh/pkg/fault"
)

// A run that needs a tool which nobody has announced waits a moment, then fails; it
// waits for as long as somebody says that he starts the worker.
func TestStarting_RunsWaitForAWorkerThatIsBeingStarted(t *testing.T) {
	bubble(t, func(t *testing.T, s scene) {
		s.Gateway()
		s.apply(clerk("clerk", turn("", call("peek")), turn("Done.")))
		s.Orchestrator()

		s.Start("clerk", "run_nobody")
		if code := failure(t, s, "run_nobody"); code != fault.ToolNotFound {
			t.Errorf("nobody starts a worker: %s", code)
		}

		starting, given := context.WithCancel(t.Context())
		gone, err := s.Mesh.Conn.AnnounceStarting(starting, groupBench)
		if err != nil {
			t.Fatal(err)
		}
		s.Start("clerk", "run_waits")
		<-time.After(30 * time.Second)
		if n := len(s.Crumbs("run_waits")); n != 0 {
			t.Errorf("%d crumbs while its worker starts", n)
		}
		worker := s.Tools(groupBench, s.tool("peek", crumbs.EffectPure))
		s.WaitEnd("run_waits")
		account(t, s.Fleet, "run_waits").completed("Done.")
		worker.Stop()

		// One that never comes is waited for until it is given up.
		s.apply(having(clerk("clerk", turn("", call("late")), turn("Done.")), groupBench, "late", ""))
		s.Start("clerk", "run_never")
		<-time.After(20 * time.Second)
		given()
		<-gone
		if code := failure(t, s, "run_never"); code != fault.ToolNotFound {
			t.Errorf("the worker is given up: %s", code)
		}
	})
}

// failure is the code that a run ended with.
func failure(t *testing.T, s scene, run crumbs.RunID) fault.Code {
	t.Helper()
	all := s.WaitEnd(run)
	var last crumbs.AgentError
	if err := json.Unmarshal(all[len(all)-1].Body, &last); err != nil {
		t.Fatal(err)
	}
	return last.Error.Code
}
