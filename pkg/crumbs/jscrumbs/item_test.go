package jscrumbs

import (
	"testing"

	"github.com/crumbmesh/crumbmesh/pkg/crumbs"
)

// A partial result is a delta on its live subject and a crumb on the crumbs'.
func TestReadItem_PartialResultByItsSubject(t *testing.T) {
	t.Parallel()
	body := []byte(`{"type":"tool:result:partial","runId":"run_1","agentId":"writer","sessionId":"ses_1","seq":4,"timestamp":1,"step":1,"attempt":2,"index":3,"toolCallId":"run_1.1.0","toolName":"tool_a","result":1}`)
	live, err := readItem(crumbs.PartialSubject("writer", "run_1", "research"), body)
	if err != nil || !live.Delta || live.kept {
		t.Errorf("live: %+v, %v", live, err)
	}
	kept, err := readItem(crumbs.CrumbSubject("writer", "run_1", crumbs.TypeResultPartial), body)
	if err != nil || kept.Delta || !kept.kept || kept.Attempt != 2 || kept.Index != 3 || kept.piece() != live.piece() {
		t.Errorf("kept: %+v, %v", kept, err)
	}
	if _, err := readItem(crumbs.CrumbSubject("other", "run_1", crumbs.TypeResultPartial), body); err == nil {
		t.Error("a crumb of another agent's subject passes")
	}
}
