package core_test

import (
	"encoding/json"
	"slices"
	"testing"
	"time"

	"github.com/crumbmesh/crumbmesh/pkg/crumbs"
	"github.com/crumbmesh/crumbmesh/services/orchestrator/internal/core"
)

// A question names its run, agent, session, call, tool, arguments and their hash,
// and when it was asked and expires.
func TestQuestion_CF_H10_HoldsWhatAnAnswerNeeds(t *testing.T) {
	t.Parallel()
	m := newMachine()
	m.play(t, `requested run_1 input="go"`, `model.result run_1.1.m calls=tool_publish{"title":"a"}`)
	last := m.s.Outbox.Crumbs[len(m.s.Outbox.Crumbs)-1]
	body := last.Body.Inline
	if last.Body.Ref != "" {
		body = m.blobs[last.Body.Ref]
	}
	var q crumbs.HumanRequired
	if err := json.Unmarshal(body, &q); err != nil {
		t.Fatal(err)
	}
	switch {
	case q.Type != crumbs.TypeHumanRequired, q.CheckpointID != "run_1.1.0", q.ToolCallID != "run_1.1.0", q.RunID != "run_1",
		q.AgentID != "publisher", q.SessionID == "", q.ToolName != "tool_publish", q.Tool != "tool:publish", q.Kind != crumbs.KindApproval:
		t.Errorf("the question does not say whose it is: %s", body)
	case string(q.Args) != `{"title":"a"}`, q.ArgsHash != m.s.Calls[0].ArgsHash, len(q.ArgsHash) != 64, len(q.Schema) == 0:
		t.Errorf("the question does not hold what was asked: %s", body)
	case q.Timestamp != m.at.UnixMilli(), q.ExpiresAt == nil, q.ExpiresAt != nil && !q.ExpiresAt.After(m.at):
		t.Errorf("the question does not say when it was asked and expires: %s", body)
	}
}

// play applies event lines.
func (m *machine) play(t *testing.T, lines ...string) {
	t.Helper()
	for _, line := range lines {
		e, err := m.parse(line)
		if err != nil {
			t.Fatal(err)
		}
		if changed, err := m.step(e); !changed || err != nil {
			t.Fatal(line, changed, err)
		}
	}
}

// However an answer came and whoever else was named with it, it is the same
// answer: the approved call is sent once and nothing is asked again.
func TestQuestion_F020_TheWayOfAnAnswerDoesNotMatter(t *testing.T) {
	t.Parallel()
	for _, via := range []string{"cli", "api", "page", "link"} {
		m := newMachine()
		m.play(t, `requested run_1 input="go"`, `model.result run_1.1.m calls=tool_publish{"title":"a"}`)
		e, err := m.parse(`decision run_1.1.0 approve by=ada`)
		if err != nil {
			t.Fatal(err)
		}
		e.Decision.Via, e.Decision.By.Tenant, e.Decision.Reason = via, "t-"+via, "seen by "+via
		if changed, err := m.step(e); !changed || err != nil {
			t.Fatal(via, changed, err)
		}
		var sent []string
		for _, i := range m.s.Outbox.Intents {
			sent = append(sent, string(i.Kind)+" "+string(i.Call))
		}
		var types []string
		for _, c := range m.s.Outbox.Crumbs {
			types = append(types, c.Type)
		}
		if !slices.Equal(types, []string{crumbs.TypeHumanResumed, crumbs.TypeToolCalled}) || !slices.Contains(sent, "tool run_1.1.0") {
			t.Errorf("via %s: crumbs %v, commands %v", via, types, sent)
		}
		if changed, err := m.step(e); changed || err != nil {
			t.Errorf("via %s: the answer applied twice: %v %v", via, changed, err)
		}
	}
}

// A run goes on with what its request fixed, whatever the process that resumes it
// would give new runs.
func TestRun_F149_SettingsComeFromTheRecord(t *testing.T) {
	t.Parallel()
	m := newMachine()
	m.play(t, `requested run_1 input="go" maxSteps=2`, `model.result run_1.1.m calls=human_headline{"draft":"d"}`)
	other := *m.p.Agent
	other.Steps.Max = 50
	m.p.Agent, m.p.Timing.Question = &other, time.Hour
	m.s.Run.Deltas = false
	m.play(t, `decision run_1.1.0 answer value="x"`)
	cmd, ok, err := core.Render(m.p, m.s, m.s.Outbox.Intents[0], func(string) ([]byte, error) { return nil, nil })
	var call crumbs.ModelCall
	if err != nil || !ok || json.Unmarshal(cmd.Body, &call) != nil || call.Deltas {
		t.Fatalf("the second model call: %v %v, deltas %v", ok, err, call.Deltas)
	}
	m.play(t, `model.result run_1.2.m calls=human_headline{"draft":"d"}`, `decision run_1.2.0 answer value="y"`)
	if m.s.Status != core.Completed || m.s.Result.FinishReason != "steps" {
		t.Errorf("the run is %s after its two steps", m.s.Status)
	}
}
