package durability_test

import (
	"encoding/json"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/crumbmesh/crumbmesh/pkg/crumbs"
	"github.com/crumbmesh/crumbmesh/pkg/tool"
)

// sink counts the executions of tools by call.
type sink struct {
	mu    sync.Mutex
	count map[crumbs.CallID]int
}

func newSink() *sink { return &sink{count: map[crumbs.CallID]int{}} }

func (s *sink) add(call crumbs.CallID) (nth int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.count[call]++
	return s.count[call]
}

func (s *sink) of(call crumbs.CallID) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.count[call]
}

// total is how often all calls of a run were executed.
func (s *sink) total(run crumbs.RunID) (n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for call, c := range s.count {
		if call.Run() == run {
			n += c
		}
	}
	return n
}

// want checks the executions of every call of a run at once: `0:1 2:3` means that
// call 0 of step 1 ran once, call 2 three times, and no other.
func (s *sink) want(t *testing.T, run crumbs.RunID, want string) {
	t.Helper()
	s.mu.Lock()
	defer s.mu.Unlock()
	var got []string
	for call, n := range s.count {
		if call.Run() == run {
			got = append(got, strings.TrimPrefix(string(call), string(run)+".")+":"+itoa(n))
		}
	}
	slices.Sort(got)
	if g := strings.Join(got, " "); g != want {
		t.Errorf("%s: executed %q, want %q", run, g, want)
	}
}

// tool is a tool of that effect which only counts.
func (s *sink) tool(name string, effect crumbs.Effect) tool.Tool {
	return s.doing(name, effect, func(tool.Context, int) error { return nil })
}

// doing is a tool that counts and then does something; it is told which
// execution of its call this is.
func (s *sink) doing(name string, effect crumbs.Effect, do func(c tool.Context, nth int) error, opts ...tool.Option) tool.Tool {
	return tool.New(name, "Count.", func(c tool.Context, args json.RawMessage, _ tool.Yield) (json.RawMessage, error) {
		if err := do(c, s.add(c.CallID)); err != nil {
			return nil, err
		}
		return json.Marshal(name + " done")
	}, append(opts, tool.Effect(effect))...)
}
