package explain

import (
	"strings"
	"testing"
	"time"

	"github.com/crumbmesh/crumbmesh/pkg/agent"
	"github.com/crumbmesh/crumbmesh/pkg/crumbs"
	"github.com/crumbmesh/crumbmesh/pkg/decision"
	"github.com/crumbmesh/crumbmesh/pkg/fault"
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

// A question that was decided asks nobody to decide it: what becomes of the answer is
// said, and first of all what the run waits for when it is refused.
func TestRun_Decided(t *testing.T) {
	t.Parallel()
	now := time.UnixMilli(1_772_600_767_000)
	at := crumbs.At(now.Add(-time.Minute))
	said := crumbs.RunDecided{Outcome: crumbs.DecideApprove, By: crumbs.Principal{Issuer: "local", Subject: "ada"}, At: at, KeyID: "0011"}
	for name, c := range map[string]struct {
		change  func(*crumbs.RunDecided)
		signer  string
		advice  []string
		command string
	}{
		"on its way":        {func(*crumbs.RunDecided) {}, "0011", []string{"tool_pay was decided (approve, by ada of local, 1m0s ago)", "on its way"}, "crumb doctor"},
		"nobody's key":      {func(d *crumbs.RunDecided) { d.Refused, d.Untrusted = "unknown key", true }, "2233", []string{"a key that nobody here trusts (kid 0011)", "in the log of the approvals service", "crumb runs cancel run_1"}, "crumb dead list --run run_1"},
		"the mesh's key":    {func(d *crumbs.RunDecided) { d.Refused, d.Untrusted = "unknown key", true }, "0011", []string{"a key that nobody here trusts (kid 0011)", "(PUBLIC)"}, "crumb dead list --run run_1"},
		"changed or forged": {func(d *crumbs.RunDecided) { d.Refused = "bad signature" }, "0011", []string{"not what key 0011 signed", "crumb runs cancel run_1"}, "crumb dead list --run run_1"},
	} {
		d := said
		c.change(&d)
		x := Run(Facts{Now: now, Groups: map[string]Queue{}, Signer: decision.Signer{KeyID: c.signer, Public: "PUBLIC"}, Decided: map[crumbs.CheckpointID]crumbs.RunDecided{"run_1.1.0": d},
			State: core.State{Run: core.Run{ID: "run_1"}, Status: core.Suspended, Calls: []core.Call{
				{ID: "run_1.1.0", Leaf: "tool_pay", Phase: core.Asking, Question: &core.Question{Kind: crumbs.KindApproval, AskedAt: at, ExpiresAt: crumbs.At(now.Add(time.Hour))}},
				{ID: "run_1.1.1", Leaf: "tool_put", Phase: core.Asking, Question: &core.Question{Kind: crumbs.KindApproval, AskedAt: at, ExpiresAt: crumbs.At(now.Add(time.Hour))}}}}})
		w := x.WaitsFor[0]
		if len(x.WaitsFor) != 2 || w.Decided == nil || *w.Decided != d || w.Command != c.command {
			t.Errorf("%s: %+v", name, x.WaitsFor)
		}
		for _, want := range c.advice {
			if !strings.Contains(w.Advice, want) {
				t.Errorf("%s: %q does not say %q", name, w.Advice, want)
			}
		}
		want := c.command // what is refused first; else the other question, which needs a person
		if d.Refused == "" {
			want = "crumb approvals approve run_1.1.1"
		}
		if x.Command != want {
			t.Errorf("%s: the run's command is %q, want %q", name, x.Command, want)
		}
	}
}

// What runs ends at its own limit after its start, not with the deadline, which has
// the wait for a worker in it; unless that comes first.
func TestRun_WhenWhatRunsEnds(t *testing.T) {
	t.Parallel()
	sent := time.Date(2026, 3, 4, 5, 0, 0, 0, time.UTC)
	started := sent.Add(30 * time.Second)
	const call, hook, model = crumbs.CallID("run_1.1.0"), crumbs.CallID("run_1.h1"), crumbs.CallID("run_1.m1")
	before, deadline := crumbs.At(sent.Add(10*time.Minute)), crumbs.At(sent.Add(10*time.Minute+3*time.Second))
	program := agent.Program{Group: "desk", Handler: "desk/guard", TimeoutMs: 3000}
	runs := func(attempt int) core.State {
		return core.State{Status: core.Running, Calls: []core.Call{{ID: call, Leaf: "tool_slow", Phase: core.Dispatched, Attempt: attempt, SentAt: crumbs.At(sent), StartBefore: before, Deadline: crumbs.At(sent.Add(time.Hour))}}}
	}
	errand := core.Errand{ID: hook, Attempt: 1, SentAt: crumbs.At(sent), StartBefore: before, Deadline: deadline}
	for name, c := range map[string]struct {
		state   core.State
		limitMs int64 // of the tool
		id      string
		at      time.Time // of the claim
		starts  int
		ends    time.Time
		says    string
	}{
		"a tool":                   {runs(1), 90_000, call.Attempt(1), started, 1, started.Add(90 * time.Second), "call run_1.1.0 (tool_slow) runs on w1 for 30s; it ends by itself at 2026-03-04T05:02:00Z"},
		"a tool without a limit":   {runs(1), 0, call.Attempt(1), started, 1, started.Add(5 * time.Minute), "ends by itself at 2026-03-04T05:05:30Z"},
		"its second attempt":       {runs(2), 90_000, call.Attempt(2), started, 1, started.Add(90 * time.Second), "attempt 2 of call run_1.1.0 (tool_slow) runs on w1 for 30s; it"},
		"its second start":         {runs(1), 90_000, call.Attempt(1), started, 2, started.Add(90 * time.Second), "call run_1.1.0 (tool_slow) runs on w1 for 30s (start 2); it"},
		"the deadline comes first": {runs(1), 7_200_000, call.Attempt(1), started, 1, sent.Add(time.Hour), "ends by itself at 2026-03-04T06:00:00Z"},
		"a hook":                   {core.State{Status: core.Running, Chain: &core.Chain{Point: "beforeRun", Errand: errand}}, 0, hook.Attempt(1), started, 1, started.Add(3 * time.Second), "call run_1.h1 (guard (beforeRun)) runs on w1 for 30s; it ends by itself at 2026-03-04T05:00:33Z"},
		"a parser":                 {core.State{Status: core.Running, Parse: &errand}, 0, hook.Attempt(1), started, 1, started.Add(3 * time.Second), "call run_1.h1 (list) runs on w1"},
		"a model, to its deadline": {core.State{Status: core.Running, Model: &core.ModelCall{ID: model, Attempt: 1, SentAt: crumbs.At(sent), StartBefore: before, Deadline: deadline}}, 0, model.Attempt(1), started, 1, deadline.Time, "ends by itself at 2026-03-04T05:10:03Z"},
	} {
		x := Run(Facts{Now: started.Add(30 * time.Second), State: c.state, Timing: core.DefaultTiming(), Groups: map[string]Queue{"desk": {Workers: 1}},
			Tools: &agent.ToolSet{Entries: []agent.Entry{{PermID: "tool:slow", Leaf: "tool_slow", Group: "desk", Handler: "desk/slow", TimeoutMs: c.limitMs}},
				Hooks: &agent.Chains{BeforeRun: []agent.HookEntry{{Name: "guard", Program: program}}}, Parser: &agent.Parser{Name: "list", Program: program}},
			Attempts: map[string]Attempt{c.id: {Started: true, Alive: true, At: crumbs.At(c.at), Starts: c.starts, Worker: "w1"}}})
		if len(x.WaitsFor) != 1 || x.WaitsFor[0].Place != crumbs.PlaceRunning || !x.WaitsFor[0].Until.Equal(c.ends) || !strings.Contains(x.Advice, c.says) {
			t.Errorf("%s: %q does not say %q, or does not end at %s: %+v", name, x.Advice, c.says, c.ends, x.WaitsFor)
		}
	}
}

// A call whose next attempt is due later says which, when, and why the last one failed.
func TestRun_WhyACallIsRepeated(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 3, 4, 5, 0, 0, 0, time.UTC)
	x := Run(Facts{Now: now, State: core.State{Status: core.Running, Calls: []core.Call{{ID: "run_1.1.4", Leaf: "tool_slow", Phase: core.Waiting, Attempt: 1, RetryAt: crumbs.At(now.Add(2 * time.Second)),
		Failed: &core.Lapse{Error: fault.New(fault.ToolError, "the bank answered 529")}}}}})
	want := "attempt 2 of call run_1.1.4 (tool_slow) is due in 2s, as errorHandling.retry of the tool says; the last one failed with TOOL_ERROR: the bank answered 529"
	if x.Advice != want || len(x.WaitsFor) != 1 || x.WaitsFor[0].Kind != crumbs.WaitRetry || x.WaitsFor[0].Attempt != 2 {
		t.Errorf("%q, want %q; %+v", x.Advice, want, x.WaitsFor)
	}
}
