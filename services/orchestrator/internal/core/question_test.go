package core_test

import (
	"encoding/json"
	"testing"

	"github.com/crumbmesh/crumbmesh/pkg/crumbs"
)

// A question names its run, agent, session, call, tool, arguments and their hash,
// and when it was asked and expires.
func TestQuestion_CF_H10_HoldsWhatAnAnswerNeeds(t *testing.T) {
	t.Parallel()
	m := newMachine()
	for _, line := range []string{`requested run_1 input="go"`, `model.result run_1.1.m calls=tool_publish{"title":"a"}`} {
		e, err := m.parse(line)
		if err != nil {
			t.Fatal(err)
		}
		if changed, err := m.step(e); !changed || err != nil {
			t.Fatal(line, changed, err)
		}
	}
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
