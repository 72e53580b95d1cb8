package core_test

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/crumbmesh/crumbmesh/pkg/crumbs"
	"github.com/crumbmesh/crumbmesh/pkg/fault"
	"github.com/crumbmesh/crumbmesh/services/orchestrator/internal/core"
)

// goOn is what the records of each version were made to be met by, by file: what
// happens next, and where the run is then. The files of a version were written by
// the release that wrote it and are never written again.
func goOn() map[string][]string {
	return map[string][]string{
		"model":     {`model.result run_1.1.m text="Done."`, "completed"},
		"calls":     {`tool.result run_1.1.0 ok 1 group=demo`, `tool.result run_1.1.1 ok 2 group=scripts`, `model.result run_1.2.m text="Done."`, "completed"},
		"result":    {`order run_1.1.0 lost error=TOOL_LOST`, `model.result run_1.2.m text="Done."`, "completed"},
		"suspended": {`decision run_1.2.1 reject by=ada`, `decision run_1.2.0 answer value="x" by=ada`, `model.result run_1.3.m text="Done."`, "completed"},
		"approved":  {`tool.result run_1.2.1 ok 1 group=demo`, `decision run_1.2.0 answer value="x" by=ada`, `model.result run_1.3.m text="Done."`, "completed"},
		"retry":     {`timer`, `model.result run_1.1.m attempt=2 text="Done."`, "completed"},
		"stopping":  {`timer`, "cancelled"},
		"grace":     {`timer`, `model.result run_1.2.m text="Done."`, "completed"},
		"tombstone": {`requested run_1 input="go"`, "cancelled"},
		"completed": {"completed"},
		"redriven":  {`tool.result run_1.1.0 ok 1 attempt=2 group=pay`, `model.result run_1.2.m text="Done."`, "completed"},
		"opening":   {`% hooks run beforeRun=guard`, `tool.result run_1.0.h1 ok null group=hooks`, `model.result run_1.1.m text="Done."`, "completed"},
		"hooking":   {`% hooks tool_charge beforeRun=guard`, `tool.result run_1.1.0h1 ok null group=hooks`, `tool.result run_1.1.0 ok 1 group=pay`, `tool.result run_1.1.1 ok 2 group=demo`, `model.result run_1.2.m text="Done."`, "completed"},
		"waiting":   {`% tool tool_charge retry 3 500 2`, `timer`, `tool.result run_1.1.0 ok 1 attempt=2 group=pay`, `model.result run_1.2.m text="Done."`, "completed"},
		"parse":     {`% output custom {"type":"array"}`, `tool.result run_1.1.p1 ok ["one"] group=scripts`, "completed"},
		"closing": {`% hooks run onError=rescue afterRun=tag onSuspend=tell`, `tool.result run_1.2.h2 ok {"action":"recover","output":1} group=hooks`, `tool.result run_1.2.h3 ok null group=hooks`,
			`tool.result run_1.1.h1 ok null group=hooks`, "completed"},
		"answered": {`tool.result run_1.1.1 ok 1 group=demo`, `model.result run_1.2.m text="Done."`, "completed"},
	}
}

// Records of every version that a release ever wrote decode and go on.
func TestUpcast_RecordsOfEveryVersionGoOn(t *testing.T) {
	t.Parallel()
	next := goOn()
	for version := 1; version <= core.Version; version++ {
		files, err := filepath.Glob(filepath.Join("testdata", "records", fmt.Sprintf("v%d", version), "*.json"))
		if err != nil || len(files) == 0 {
			t.Fatalf("no records of version %d: %v", version, err)
		}
		for _, file := range files {
			name := strings.TrimSuffix(filepath.Base(file), ".json")
			t.Run(fmt.Sprintf("v%d/%s", version, name), func(t *testing.T) {
				t.Parallel()
				record, err := os.ReadFile(file)
				if err != nil {
					t.Fatal(err)
				}
				continues(t, record, version, next[name])
			})
		}
	}
}

func continues(t *testing.T, record []byte, version int, events []string) {
	t.Helper()
	if len(events) == 0 {
		t.Fatal("nothing says how this record goes on")
	}
	var head struct {
		Version int `json:"version"`
	}
	if err := json.Unmarshal(record, &head); err != nil || head.Version != version {
		t.Fatalf("the record says version %d, %v", head.Version, err)
	}
	m := newMachine()
	var err error
	if m.s, err = core.Decode(record); err != nil {
		t.Fatal(err)
	}
	last := len(events) - 1
	for _, line := range events[:last] {
		if setting, ok := strings.CutPrefix(line, "%"); ok {
			m.set(t, strings.Fields(setting))
			continue
		}
		e, err := m.parse(line)
		if err != nil {
			t.Fatal(err)
		}
		if changed, err := m.step(e); err != nil || !changed {
			t.Fatalf("%s: changed %v, %v", line, changed, err)
		}
	}
	if string(m.s.Status) != events[last] {
		t.Errorf("the run is %s, want %s", m.s.Status, events[last])
	}
}

// A record says a version only where something of it is in it: what the
// release before can read, it may go on reading.
func TestVersion_IsTheLowestThatHolds(t *testing.T) {
	t.Parallel()
	m := newMachine()
	m.set(t, strings.Fields("tool tool_word_count retry 2 500 2"))
	for _, step := range []struct {
		event   string
		version int
	}{
		{`requested run_1 input="go"`, 1},
		{`model.result run_1.1.m calls=tool_charge{"title":"a"}`, 1},
		{`order run_1.1.0 lost error=TOOL_LOST`, 1},
		{`model.result run_1.2.m calls=tool_charge{"title":"a"}`, 1},
		{`order run_1.2.0 redrive by=ada started=run_1.2.0.1`, 2},
		{`tool.result run_1.2.0 ok 1 attempt=2 group=pay`, 2},
		{`model.result run_1.3.m calls=tool_word_count{"path":"a"}`, 2},
		{`tool.result run_1.3.0 error group=scripts error=TOOL_ERROR`, 3},
		{`timer`, 2},
		{`tool.result run_1.3.0 attempt=2 ok 1 group=scripts`, 2},
		{`model.result run_1.4.m text="Done."`, 2},
	} {
		e, err := m.parse(step.event)
		if err != nil {
			t.Fatal(err)
		}
		if changed, err := m.step(e); err != nil || !changed || m.s.Version != step.version {
			t.Fatalf("%s: version %d, want %d (%v %v)", step.event, m.s.Version, step.version, changed, err)
		}
	}
}

// Orders are remembered, the last of them.
func TestOrder_RulingsAreBounded(t *testing.T) {
	t.Parallel()
	m := newMachine()
	lines := []string{`requested run_1 input="go"`, `model.result run_1.1.m calls=tool_charge{"title":"a"}`}
	const orders = core.RulingsMax + 3
	for n := range orders {
		lines = append(lines, fmt.Sprintf(`order run_1.1.0 redrive by=ada attempt=%d`, n+1))
	}
	for _, line := range lines {
		e, err := m.parse(line)
		if err != nil {
			t.Fatal(err)
		}
		if changed, err := m.step(e); err != nil || !changed {
			t.Fatalf("%s: %v %v", line, changed, err)
		}
	}
	if got := m.s.Rulings; len(got) != core.RulingsMax+1 || got[len(got)-1].Attempt != orders || got[0].Action != crumbs.OrderRedrive {
		t.Errorf("%d orders are remembered: %+v", len(got), got)
	}
}

// That a call in flight was redriven is known however many orders followed; of what
// is over the last are.
func TestOrder_RedrivesOfWhatIsInFlightAreRemembered(t *testing.T) {
	t.Parallel()
	const calls = 2*core.RulingsMax + 1
	m := newMachine()
	lines := []string{`requested run_1 input="go"`, `model.result run_1.1.m calls=` + strings.TrimSuffix(strings.Repeat(`tool_charge{"title":"a"};`, calls), ";")}
	for i := range calls {
		lines = append(lines, fmt.Sprintf(`order run_1.1.%d redrive by=ada`, i))
	}
	lines = append(lines, `order run_1.1.0 answer by=ada attempt=2`)
	for _, line := range lines {
		e, err := m.parse(line)
		if err != nil {
			t.Fatal(err)
		}
		if changed, err := m.step(e); err != nil || !changed {
			t.Fatalf("%s: %v %v", line, changed, err)
		}
	}
	got := m.s.Rulings
	if len(got) != calls+1 || got[0].Call != "run_1.1.0" || got[calls].Action != crumbs.OrderAnswer {
		t.Fatalf("%d orders are remembered: %+v", len(got), got)
	}
}

func TestDecode_VersionsThatAreNone(t *testing.T) {
	t.Parallel()
	for record, code := range map[string]fault.Code{
		`{"version":4,"decision":1}`:               fault.StateTooNew,
		`{"decision":1,"version":4}`:               fault.StateTooNew,
		`{"version":99999999999999999999,"run":1}`: fault.InternalError,
		`{"version":"2"}`:                          fault.InternalError,
		`{"version":1,`:                            fault.InternalError,
		`{"version":2,"seq":"x"}`:                  fault.InternalError,
		``:                                         fault.InternalError,
	} {
		if _, err := core.Decode([]byte(record)); fault.CodeOf(err) != code {
			t.Errorf("%s: %v, want %s", record, err, code)
		}
	}
}
