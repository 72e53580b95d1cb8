package explain

import (
	"testing"
	"time"

	"github.com/crumbmesh/crumbmesh/pkg/agent"
	"github.com/crumbmesh/crumbmesh/pkg/crumbs"
	"github.com/crumbmesh/crumbmesh/services/orchestrator/internal/core"
)

// Who serves a call that waits follows from whose tool it is.
func TestRun_WhoServesACall(t *testing.T) {
	t.Parallel()
	for handler, want := range map[string]string{
		"clerk/charge": "crumb toolexec --group billing --dir DIR",
		"charge":       "start your worker of group billing",
	} {
		at := crumbs.At(time.Now())
		x := Run(Facts{Now: time.Now(), Groups: map[string]Queue{"billing": {Pending: 1}},
			State:    core.State{Status: core.Running, Calls: []core.Call{{ID: "run_1.1.0", Leaf: "tool_charge", Phase: core.Dispatched, Attempt: 1, SentAt: at, Deadline: at, StartBefore: at}}},
			Tools:    &agent.ToolSet{Entries: []agent.Entry{{PermID: "tool:charge", Leaf: "tool_charge", Group: "billing", Handler: handler}}},
			Attempts: map[string]Attempt{crumbs.CallID("run_1.1.0").Attempt(1): {Message: true}}})
		if x.Command != want || len(x.WaitsFor) != 1 || x.WaitsFor[0].Place != crumbs.PlaceQueue {
			t.Errorf("%s: %q, expected %q; %+v", handler, x.Command, want, x.WaitsFor)
		}
	}
}
