package durability_test

import (
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/crumbmesh/crumbmesh/internal/fleet"
	"github.com/crumbmesh/crumbmesh/pkg/crumbs"
	"github.com/crumbmesh/crumbmesh/pkg/fault"
)

func itoa(n int) string { return strconv.Itoa(n) }

// history is a run as its crumbs tell it, after they were accounted for.
type history struct {
	t        *testing.T
	run      crumbs.RunID
	types    []string
	outcomes map[crumbs.CallID]string // ok, error, unknown, cancelled, expired, blocked; human calls: the answer's outcome
	errors   map[crumbs.CallID]crumbs.ToolErrored
	results  map[crumbs.CallID]crumbs.ToolResulted
	output   string     // of a run that completed
	code     fault.Code // of one that did not
	stored   []fleet.Stored
}

// account reads a run raw from the stream and checks what holds for every run
// that ended: crumbs 1…n in stream order, one terminal crumb, the last; each call
// that was sent has exactly one outcome, each question exactly one end.
func account(t *testing.T, f *fleet.Fleet, run crumbs.RunID) *history {
	t.Helper()
	h := &history{t: t, run: run, outcomes: map[crumbs.CallID]string{}, errors: map[crumbs.CallID]crumbs.ToolErrored{},
		results: map[crumbs.CallID]crumbs.ToolResulted{}, stored: f.Crumbs(run)}
	open := map[string]int{}
	for i, c := range h.stored {
		if want := fmt.Sprintf("%010d", i+1); c.Base.Seq != uint64(i+1) || c.CESequence != want {
			t.Errorf("%s: crumb %d on the stream has seq %d, ce-sequence %s", run, i+1, c.Base.Seq, c.CESequence)
		}
		h.types = append(h.types, c.Base.Type)
		h.read(c, open)
	}
	for id, n := range open {
		if n != 0 {
			t.Errorf("%s: %s has %+d ends", run, id, -n)
		}
	}
	if n := len(h.types); n == 0 || !crumbs.Terminal(h.types[n-1]) || slices.ContainsFunc(h.types[:n-1], crumbs.Terminal) {
		t.Errorf("%s: expected one terminal crumb, the last: %v", run, h.types)
	}
	return h
}

// read takes one crumb; open counts calls and questions that have no end yet.
func (h *history) read(c fleet.Stored, open map[string]int) {
	h.t.Helper()
	decode := func(v any) {
		if err := json.Unmarshal(c.Body, v); err != nil {
			h.t.Fatalf("%s: %v", c.Base.Type, err)
		}
	}
	settle := func(id crumbs.CallID, outcome string) {
		if before, twice := h.outcomes[id]; twice {
			h.t.Errorf("%s: call %s ended as %s and as %s", h.run, id, before, outcome)
		}
		h.outcomes[id] = outcome
	}
	switch c.Base.Type {
	case crumbs.TypeToolCalled:
		var b crumbs.ToolCalled
		decode(&b)
		open["call "+string(b.ToolCallID)]++
	case crumbs.TypeToolResulted:
		var b crumbs.ToolResulted
		decode(&b)
		open["call "+string(b.ToolCallID)]--
		settle(b.ToolCallID, "ok")
		h.results[b.ToolCallID] = b
	case crumbs.TypeToolErrored:
		var b crumbs.ToolErrored
		decode(&b)
		open["call "+string(b.ToolCallID)]--
		settle(b.ToolCallID, string(b.Outcome))
		h.errors[b.ToolCallID] = b
	case crumbs.TypeToolBlocked:
		var b crumbs.ToolBlocked
		decode(&b)
		settle(b.ToolCallID, "blocked")
	case crumbs.TypeHumanRequired:
		var b crumbs.HumanRequired
		decode(&b)
		open["question "+string(b.CheckpointID)]++
	case crumbs.TypeHumanResumed:
		var b crumbs.HumanResumed
		decode(&b)
		open["question "+string(b.CheckpointID)]--
		if b.Outcome != crumbs.ResumedApproved && b.Outcome != crumbs.ResumedEdited {
			settle(b.ToolCallID, b.Outcome)
		}
	case crumbs.TypeRunEnded:
		var b crumbs.RunEnded
		decode(&b)
		if err := json.Unmarshal(b.Output, &h.output); err != nil {
			h.t.Errorf("%s: output %s: %v", h.run, b.Output, err)
		}
	case crumbs.TypeAgentError:
		var b crumbs.AgentError
		decode(&b)
		h.code = b.Error.Code
	}
}

// completed checks that the run ended with this text.
func (h *history) completed(output string) *history {
	h.t.Helper()
	if h.code != "" || h.output != output {
		h.t.Errorf("%s: ended as %q %q, want %q: %v", h.run, h.code, h.output, output, h.types)
	}
	return h
}

// failed checks that the run ended with this code.
func (h *history) failed(code fault.Code) *history {
	h.t.Helper()
	if h.code != code {
		h.t.Errorf("%s: ended as %q %q, want %s: %v", h.run, h.code, h.output, code, h.types)
	}
	return h
}

// ended checks the outcomes of all calls: `1.0:ok 1.2:unknown`.
func (h *history) ended(want string) *history {
	h.t.Helper()
	var got []string
	for id, o := range h.outcomes {
		got = append(got, strings.TrimPrefix(string(id), string(h.run)+".")+":"+o)
	}
	slices.Sort(got)
	if g := strings.Join(got, " "); g != want {
		h.t.Errorf("%s: outcomes %q, want %q %v", h.run, g, want, h.errors)
	}
	return h
}

// told checks the types of all crumbs.
func (h *history) told(want ...string) *history {
	h.t.Helper()
	if !slices.Equal(h.types, want) {
		h.t.Errorf("%s: crumbs\n got %v\nwant %v", h.run, h.types, want)
	}
	return h
}
