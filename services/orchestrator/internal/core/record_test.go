package core_test

import (
	"fmt"
	"testing"

	"github.com/crumbmesh/crumbmesh/services/orchestrator/internal/core"
)

// The largest turn there is: as many calls as are answered at all, each with
// arguments and results as large as stand in a record.
func TestRecord_OfTheLargestTurn(t *testing.T) {
	t.Parallel()
	m := newMachine()
	deliver := func(line string) {
		t.Helper()
		e, err := m.parse(line)
		if err != nil {
			t.Fatal(err)
		}
		if changed, err := m.step(e); err != nil || !changed {
			t.Fatalf("%s: changed %v, %v", line, changed, err)
		}
	}
	deliver(`requested run_1 input="go"`)
	deliver(fmt.Sprintf(`model.result run_1.1.m repeat=%d argsize=8000 textsize=8000`, core.AskedMax))
	for i := range core.CallsMax {
		deliver(fmt.Sprintf(`tool.result run_1.1.%d ok size=8000 group=scripts`, i))
	}
	if m.s.Step != 2 {
		t.Errorf("the run is at step %d, want 2", m.s.Step)
	}
}
