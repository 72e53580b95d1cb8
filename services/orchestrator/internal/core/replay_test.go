package core_test

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/crumbmesh/crumbmesh/pkg/agent"
	"github.com/crumbmesh/crumbmesh/pkg/crumbs"
	"github.com/crumbmesh/crumbmesh/pkg/fault"
	"github.com/crumbmesh/crumbmesh/schemas"
	"github.com/crumbmesh/crumbmesh/schemas/schematest"
	"github.com/crumbmesh/crumbmesh/services/orchestrator/internal/core"
)

const (
	lineMax  = 1 << 20  // bytes of a line of a transcript
	validMax = 64 << 10 // bytes of a body that is held to its schema: longer ones differ in their values only
)

// replay runs the input lines of a transcript and returns it whole:
//
//	# a comment
//	% retry none                                     the agent has no errorHandling; % retry 3 500 2
//	· +1s tool.result run_1.1.0 ok {"title":"x"}     an event, 1 s after the one before
//	+ 5 tool:result run_1.1.0 {"title":"x"}          a crumb
//	> tool.call run_1.1.0 group=demo                 a command
//	    run_1.1.0 ok {"title":"x"}                   what a model call tells of the turn before
//	= nothing                                        the event changed nothing
//	! STATE_TOO_LARGE                                the decision was refused
//	? record < 4096 holds                            a bound that was looked at
//
// Comments, settings, events and questions up to their answer are input; the
// rest is compared. event_test.go has the forms of events.
func replay(t *testing.T, script string) string {
	t.Helper()
	m, out := newMachine(), &strings.Builder{}
	lines := bufio.NewScanner(strings.NewReader(script))
	lines.Buffer(nil, lineMax)
	for lines.Scan() {
		line := lines.Text()
		switch {
		case strings.HasPrefix(line, "·"):
			fmt.Fprintln(out, line)
			e, err := m.parse(strings.TrimSpace(strings.TrimPrefix(line, "·")))
			if err != nil {
				t.Fatalf("%q: %v", line, err)
			}
			m.apply(t, e, out)
		case strings.HasPrefix(line, "%"):
			fmt.Fprintln(out, line)
			m.set(t, strings.Fields(line[1:]))
		case strings.HasPrefix(line, "?"):
			fmt.Fprintln(out, m.answer(t, strings.Fields(line[1:])))
		case line == "", strings.HasPrefix(line, "#"):
			fmt.Fprintln(out, line)
		}
	}
	return out.String()
}

// set changes the pinned agent.
func (m *machine) set(t *testing.T, words []string) {
	t.Helper()
	switch {
	case len(words) == 2 && words[0] == "retry" && words[1] == "none":
		m.p.Agent.ErrorHandling.Retry = nil
	case len(words) == 4 && words[0] == "retry":
		m.p.Agent.ErrorHandling.Retry = &agent.Retry{Attempts: int(number(t, words[1])), BackoffMs: number(t, words[2]), BackoffMultiplier: float64(number(t, words[3]))}
	default:
		m.setMore(t, words)
	}
}

// setMore changes what else a run pins:
//
//	% hooks run beforeRun=guard,audit onError=rescue    or: % hooks tool_charge afterRun=trim
//	% hook guard advisory     or: % hook guard attempts=3
//	% tool tool_charge retry 3 500 2   stream   keep   hooksFirst   result {"type":"string"}
//	% output json {"type":"object"} repair=1    or: % output custom {"type":"array"}
//	% input {"type":"string"}
func (m *machine) setMore(t *testing.T, words []string) {
	t.Helper()
	if len(words) < 2 {
		t.Fatalf("setting %q", words)
	}
	switch words[0] {
	case "hooks":
		m.setHooks(t, words[1], words[2:])
	case "hook":
		m.eachHook(func(h *agent.HookEntry) {
			if h.Name != words[1] {
				return
			}
			if n, ok := strings.CutPrefix(words[2], "attempts="); ok {
				h.Retry = &agent.Retry{Attempts: int(number(t, n)), BackoffMs: 500, BackoffMultiplier: 2}
			} else {
				h.Advisory = true
			}
		})
	case "tool":
		m.setTool(t, words[1], words[2:])
	case "output":
		m.p.Agent.Output.Format, m.p.Agent.OutputSchema = words[1], json.RawMessage(words[2])
		if n, ok := strings.CutPrefix(words[len(words)-1], "repair="); ok {
			m.p.Agent.Output.Repair = int(number(t, n))
		}
		if words[1] == agent.FormatCustom {
			m.p.Tools.Parser = &agent.Parser{Name: "lines", Program: agent.Program{Group: "scripts", Handler: "lines", ToolHash: hexHash, Effect: "idempotent", TimeoutMs: 10_000}}
		}
	case "input":
		m.p.Agent.InputSchema = json.RawMessage(words[1])
	default:
		t.Fatalf("setting %q", words)
	}
}

func (m *machine) setHooks(t *testing.T, of string, points []string) {
	t.Helper()
	chains := &agent.Chains{}
	for _, word := range points {
		point, names, _ := strings.Cut(word, "=")
		var list []agent.HookEntry
		for name := range strings.SplitSeq(names, ",") {
			list = append(list, agent.HookEntry{Name: name, Source: "agent",
				Program: agent.Program{Group: "hooks", Handler: name, ToolHash: hexHash, Effect: "idempotent", TimeoutMs: 10_000}})
		}
		switch point {
		case "beforeRun":
			chains.BeforeRun = list
		case "afterRun":
			chains.AfterRun = list
		case "onError":
			chains.OnError = list
		case "onSuspend":
			chains.OnSuspend = list
		default:
			t.Fatalf("point %q", point)
		}
	}
	if of == "run" {
		m.p.Tools.Hooks = chains
		return
	}
	m.tool(t, of).Hooks = chains
}

func (m *machine) tool(t *testing.T, leaf string) *agent.Entry {
	t.Helper()
	tool, ok := m.p.Tools.Lookup(leaf)
	if !ok {
		t.Fatalf("there is no tool %s", leaf)
	}
	return tool
}

func (m *machine) eachHook(f func(*agent.HookEntry)) {
	all := []*agent.Chains{m.p.Tools.Hooks}
	for i := range m.p.Tools.Entries {
		all = append(all, m.p.Tools.Entries[i].Hooks)
	}
	for _, c := range all {
		for _, point := range crumbs.HookPoints() {
			for i := range c.At(point) {
				f(&c.At(point)[i])
			}
		}
	}
}

func (m *machine) setTool(t *testing.T, leaf string, words []string) {
	t.Helper()
	tool := m.tool(t, leaf)
	switch words[0] {
	case "retry":
		tool.Retry = &agent.Retry{Attempts: int(number(t, words[1])), BackoffMs: number(t, words[2]), BackoffMultiplier: float64(number(t, words[3]))}
	case "stream":
		tool.Stream = true
	case "keep":
		tool.Stream, tool.KeepPartials = true, true
	case "hooksFirst":
		tool.HooksFirst = true
	case "result":
		tool.OutputSchema = json.RawMessage(words[1])
	default:
		t.Fatalf("setting of a tool %q", words)
	}
}

// answer looks at a bound: record, inline (the transcript) or outbox < bytes,
// segments = count.
func (m *machine) answer(t *testing.T, words []string) string {
	t.Helper()
	if len(words) < 3 {
		t.Fatalf("question %q: expected what, < or =, how much", words)
	}
	body, err := m.s.Encode()
	if err != nil {
		t.Fatal(err)
	}
	got, known := map[string]int64{"record": int64(len(body)), "inline": int64(m.s.Transcript.Bytes), "segments": int64(len(m.s.Transcript.Segments)),
		"blobs": int64(m.written)}[words[0]]
	want := number(t, words[2])
	question, verdict := "? "+strings.Join(words[:3], " "), "holds"
	if !known || words[1] != "<" && words[1] != "=" {
		t.Fatalf("question %q", words)
	}
	if words[1] == "<" && got >= want || words[1] == "=" && got != want {
		verdict = fmt.Sprintf("fails: %d", got)
	}
	return question + " " + verdict
}

func number(t *testing.T, s string) int64 {
	t.Helper()
	n, err := strconv.ParseInt(s, 10, 64)
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// machine is a run in a test: its state, the clock of its events, its pinned set.
type machine struct {
	p       core.Pinned
	s       core.State
	at      time.Time
	blobs   map[string][]byte
	written int // blobs of the last decision
	stored  int // bytes of all blobs
	wanted  int // bytes that decisions asked for
}

func newMachine() *machine {
	return &machine{p: publisher(), at: time.Date(2026, 11, 30, 9, 0, 0, 0, time.UTC), blobs: map[string][]byte{}}
}

// step applies an event as the worker does: blobs are brought, and what is not
// in the record is not there for the next event.
func (m *machine) step(e core.Event) (changed bool, err error) {
	e.Blobs = map[string][]byte{}
	next, err := core.Decide(m.p, m.s, e)
	for missing := (*core.Missing)(nil); errors.As(err, &missing); {
		for _, name := range missing.Names {
			e.Blobs[name] = m.blobs[name]
			m.wanted += len(m.blobs[name])
		}
		next, err = core.Decide(m.p, m.s, e)
	}
	if err != nil {
		return false, err
	}
	changed = next.Decision != m.s.Decision
	m.written = len(next.Blobs)
	for _, b := range next.Blobs {
		if _, known := m.blobs[b.Name]; !known {
			m.stored += len(b.Data)
		}
		m.blobs[b.Name] = b.Data
	}
	next.Blobs = nil
	body, err := next.Encode()
	if err != nil {
		return false, fmt.Errorf("what Decide let through does not encode: %w", err)
	}
	if m.s, err = core.Decode(body); err != nil {
		return false, fmt.Errorf("what Decide let through does not decode: %w", err)
	}
	return changed, nil
}

func (m *machine) load(name string) ([]byte, error) { return m.blobs[name], nil }

// body is a crumb of the Outbox, whole.
func (m *machine) body(c core.Crumb) []byte {
	if c.Body.Ref != "" {
		return m.blobs[c.Body.Ref]
	}
	return c.Body.Inline
}

// valid holds a body to its closed schema; the bodies of these tests may be long.
func valid(t interface {
	Helper()
	Errorf(string, ...any)
}, body []byte) {
	t.Helper()
	if len(body) > validMax {
		return
	}
	var head struct {
		Type string `json:"type"`
	}
	if err := json.Unmarshal(body, &head); err != nil {
		t.Errorf("%v: %.300s", err, body)
		return
	}
	if err := schematest.Validate(schemas.NameOf(head.Type), body); err != nil {
		t.Errorf("%.600s\n%.600s", err, body)
	}
}

func (m *machine) apply(t *testing.T, e core.Event, out *strings.Builder) {
	t.Helper()
	changed, err := m.step(e)
	switch {
	case errors.As(err, new(*fault.Error)) && errors.Unwrap(err) == nil:
		fmt.Fprintf(out, "! %s\n", fault.CodeOf(err))
		return
	case err != nil:
		t.Error(err)
		return
	case !changed:
		fmt.Fprintln(out, "= nothing")
		return
	}
	for _, c := range m.s.Outbox.Crumbs {
		body := m.body(c)
		valid(t, body)
		fmt.Fprintln(out, "+", summary(t, body))
	}
	for _, i := range m.s.Outbox.Intents {
		cmd, ok, err := core.Render(m.p, m.s, i, m.load)
		if err != nil || !ok {
			t.Fatalf("render %+v: %v %v", i, ok, err)
		}
		valid(t, cmd.Body)
		fmt.Fprintln(out, ">", command(t, cmd))
	}
}
