package core_test

import (
	"fmt"
	"testing"

	"github.com/crumbmesh/crumbmesh/services/orchestrator/internal/core"
)

// cost is what a run wrote and read.
type cost struct {
	records, aside  int // bytes written
	read            int // bytes read back
	largest         int // record
	asleep, sleepy  int // first record of the suspended run, and the largest
	pieces, objects int // segments and texts named by the last record; objects written
}

// meter plays events and adds up.
type meter struct {
	*machine
	t *testing.T
	cost
}

func newMeter(t *testing.T, steps int) *meter {
	t.Helper()
	m := &meter{machine: newMachine(), t: t}
	m.deliver(fmt.Sprintf(`requested run_1 input="go" maxSteps=%d`, steps+1))
	return m
}

func (m *meter) deliver(line string) {
	m.t.Helper()
	e, err := m.parse(line)
	if err != nil {
		m.t.Fatal(err)
	}
	known := len(m.blobs)
	before := m.stored
	m.wanted = 0
	if changed, err := m.step(e); err != nil || !changed {
		m.t.Fatalf("%s: changed %v, %v", line, changed, err)
	}
	body, err := m.s.Encode()
	if err != nil {
		m.t.Fatal(err)
	}
	m.records += len(body)
	m.aside += m.stored - before
	m.objects += len(m.blobs) - known
	m.read += m.wanted
	m.largest = max(m.largest, len(body))
	if m.s.Status == core.Suspended {
		if m.asleep == 0 {
			m.asleep = len(body)
		}
		m.sleepy = max(m.sleepy, len(body))
	}
	m.pieces = len(m.s.Transcript.Segments) + len(m.s.Text)
}

// A run of 500 steps costs about twice what one of 250 costs, whatever its steps
// are like: small calls, large results, questions between which the run sleeps.
func TestGrowth_IsLinear(t *testing.T) {
	t.Parallel()
	const steps, textSize = 500, 300
	for name, step := range map[string]func(m *meter, n int){
		"calls": func(m *meter, n int) {
			m.deliver(fmt.Sprintf(`model.result run_1.%d.m textsize=%d calls=tool_ping`, n, textSize))
			m.deliver(fmt.Sprintf(`tool.result run_1.%d.0 ok size=%d group=demo`, n, 300+n%7*600))
		},
		"large results": func(m *meter, n int) {
			m.deliver(fmt.Sprintf(`model.result run_1.%d.m textsize=%d calls=tool_ping`, n, textSize))
			m.deliver(fmt.Sprintf(`tool.result run_1.%d.0 ok size=20000 group=demo`, n))
		},
		"questions": func(m *meter, n int) {
			m.deliver(fmt.Sprintf(`model.result run_1.%d.m textsize=%d calls=human_headline{"draft":"d%d"}`, n, textSize, n))
			m.deliver(fmt.Sprintf(`decision run_1.%d.0 answer value="%s"`, n, "an answer that is a headline"))
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			m := newMeter(t, steps)
			var half cost
			for n := 1; n <= steps; n++ {
				if step(m, n); n == steps/2 {
					half = m.cost
				}
			}
			t.Logf("half %+v", half)
			t.Logf("all  %+v", m.cost)
			for what, pair := range map[string][2]int{
				"bytes of records": {half.records, m.records}, "bytes put aside": {half.aside, m.aside},
				"bytes read back": {half.read, m.read}, "objects": {half.objects, m.objects},
			} {
				if pair[1] > pair[0]*5/2 {
					t.Errorf("%s: %d after %d steps, %d after %d", what, pair[0], steps/2, pair[1], steps)
				}
			}
			if m.largest > core.RecordMax/8 || m.sleepy > m.asleep+core.SuspendedMax+core.SuspendedTextMax+1<<10 {
				t.Errorf("the largest record has %d bytes; the suspended run began with %d and came to %d", m.largest, m.asleep, m.sleepy)
			}
			m.deliver(fmt.Sprintf(`model.result run_1.%d.m text="Done."`, steps+1))
			if m.s.Status != core.Completed || len(m.body(m.s.Outbox.Crumbs[1])) < steps*textSize {
				t.Errorf("the run ended as %s", m.s.Status)
			}
		})
	}
}

// A turn of the most calls there may be, each with a large result: what is put
// aside is read once, when the turn is complete.
func TestGrowth_OfATurn(t *testing.T) {
	t.Parallel()
	m := newMeter(t, 1)
	m.deliver(fmt.Sprintf(`model.result run_1.1.m repeat=%d argsize=20000`, core.CallsMax))
	for i := range core.CallsMax {
		m.deliver(fmt.Sprintf(`tool.result run_1.1.%d ok size=%d group=scripts`, i, 20_000+i))
	}
	if want := core.CallsMax * 20_100; m.read == 0 || m.read > want {
		t.Errorf("%d bytes were read back, want no more than the results' %d", m.read, want)
	}
}
