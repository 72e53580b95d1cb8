package explain

import (
	"strings"
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

// A call that its stream has no room for is told as QUEUE_FULL: what is full, since
// when, and what to do. What was stored or has started is told as ever.
func TestRun_QueueFull(t *testing.T) {
	t.Parallel()
	at := time.Date(2026, 3, 4, 5, 6, 7, 0, time.UTC)
	full := map[string]Full{crumbs.StreamToolCalls: {Bytes: 4095 << 20, Limit: 4096 << 20, Messages: 812, Last: at.Add(-time.Minute)}}
	for name, c := range map[string]struct {
		attempt Attempt
		queue   Queue
		full    map[string]Full
		place   string
		says    []string
		command string
	}{
		"another queue is behind": {full: full, queue: Queue{Workers: 2}, place: crumbs.PlaceFull, command: "crumb doctor",
			says: []string{"QUEUE_FULL: call run_1.1.0 (tool_charge) is not sent since 2026-03-04T05:06:07Z", "TOOLCALLS is full with 4095 MiB of 4096 MiB in 812 messages, the last of 2026-03-04T05:05:07Z", "until 2026-03-04T05:16:07Z", "crumb init --size standard"}},
		"its own has no worker": {full: full, queue: Queue{Pending: 700}, place: crumbs.PlaceFull, command: "crumb toolexec --group billing --dir DIR",
			says: []string{"QUEUE_FULL", "700 messages are for group billing, of which no worker is alive: start one"}},
		"it is stored":       {full: full, attempt: Attempt{Message: true}, queue: Queue{Workers: 1}, place: crumbs.PlaceQueue, command: "crumb toolexec --group billing --dir DIR"},
		"it runs":            {full: full, attempt: Attempt{Started: true, Alive: true}, place: crumbs.PlaceRunning},
		"models are refused": {full: map[string]Full{crumbs.StreamModelCalls: {}}, place: crumbs.PlaceNowhere, command: "crumb dead redrive run_1.1.0"},
		"nothing is refused": {place: crumbs.PlaceNowhere, command: "crumb dead redrive run_1.1.0"},
	} {
		sent := crumbs.At(at)
		x := Run(Facts{Now: at.Add(time.Minute), Full: c.full, Groups: map[string]Queue{"billing": c.queue},
			State: core.State{Status: core.Running, Calls: []core.Call{{ID: "run_1.1.0", Leaf: "tool_charge", Phase: core.Dispatched, Attempt: 1, SentAt: sent,
				Deadline: crumbs.At(at.Add(time.Hour)), StartBefore: crumbs.At(at.Add(10 * time.Minute))}}},
			Tools:    &agent.ToolSet{Entries: []agent.Entry{{PermID: "tool:charge", Leaf: "tool_charge", Group: "billing", Handler: "clerk/charge"}}},
			Attempts: map[string]Attempt{crumbs.CallID("run_1.1.0").Attempt(1): c.attempt}})
		if len(x.WaitsFor) != 1 || x.WaitsFor[0].Place != c.place || x.Command != c.command {
			t.Errorf("%s: %q, %+v", name, x.Command, x.WaitsFor)
		}
		for _, text := range c.says {
			if !strings.Contains(x.Advice, text) {
				t.Errorf("%s: %q does not say %q", name, x.Advice, text)
			}
		}
	}
}
