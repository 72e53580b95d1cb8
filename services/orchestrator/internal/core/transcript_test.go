package core_test

import (
	"bufio"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/crumbmesh/crumbmesh/pkg/crumbs"
	"github.com/crumbmesh/crumbmesh/pkg/fault"
	"github.com/crumbmesh/crumbmesh/services/orchestrator/internal/core"
)

var update = flag.Bool("update", false, "rewrite testdata/*.txt from what Decide says")

// A transcript is a text of events and what Decide made of them:
//
//	# a comment
//	· +1s tool.result run_1.1.0 ok {"title":"x"}     an event, 1 s after the one before
//	+ 5 tool:result run_1.1.0 {"title":"x"}          a crumb
//	> tool.call run_1.1.0 group=demo                 a command
//	= nothing                                        the event changed nothing
//
// Only event and comment lines are input; the rest is compared.
func TestTranscripts(t *testing.T) {
	t.Parallel()
	files, err := filepath.Glob("testdata/*.txt")
	if err != nil || len(files) == 0 {
		t.Fatalf("no transcripts: %v", err)
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".txt"), func(t *testing.T) {
			t.Parallel()
			want, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			got := replay(t, string(want))
			if *update {
				if err := os.WriteFile(file, []byte(got), 0o644); err != nil {
					t.Fatal(err)
				}
				return
			}
			if got != string(want) {
				t.Errorf("%s differs; read it and rewrite with -update\n--- want\n%s\n--- got\n%s", file, want, got)
			}
		})
	}
}

// machine is a run in a test: its state, the clock of its events, its pinned set.
type machine struct {
	p     core.Pinned
	s     core.State
	at    time.Time
	blobs map[string][]byte
}

func newMachine() *machine {
	return &machine{p: publisher(), at: time.Date(2026, 11, 30, 9, 0, 0, 0, time.UTC), blobs: map[string][]byte{}}
}

func replay(t *testing.T, script string) string {
	t.Helper()
	m, out := newMachine(), &strings.Builder{}
	lines := bufio.NewScanner(strings.NewReader(script))
	lines.Buffer(nil, 1<<20)
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
		case line == "", strings.HasPrefix(line, "#"):
			fmt.Fprintln(out, line)
		}
	}
	return out.String()
}

// step applies an event as the worker does: claims and blobs are brought.
func (m *machine) step(e core.Event) (changed bool, err error) {
	e.Blobs = map[string][]byte{}
	for _, name := range core.Needs(m.s, e) {
		e.Blobs[name] = m.blobs[name]
	}
	next, err := core.Decide(m.p, m.s, e)
	if err != nil {
		return false, err
	}
	changed = next.Decision != m.s.Decision
	for _, b := range next.Blobs {
		m.blobs[b.Name] = b.Data
	}
	next.Blobs = nil
	body, err := next.Encode()
	if err != nil {
		return false, err
	}
	m.s, err = core.Decode(body) // what is not in the record is not there
	return changed, err
}

func (m *machine) apply(t *testing.T, e core.Event, out *strings.Builder) {
	t.Helper()
	changed, err := m.step(e)
	if err != nil {
		fmt.Fprintf(out, "! %s\n", fault.CodeOf(err))
		return
	}
	if !changed {
		fmt.Fprintln(out, "= nothing")
		return
	}
	for _, c := range m.s.Outbox.Crumbs {
		body := c.Body.Inline
		if c.Body.Ref != "" {
			body = m.blobs[c.Body.Ref]
		}
		fmt.Fprintln(out, "+", summary(t, body))
	}
	for _, i := range m.s.Outbox.Intents {
		cmd, ok, err := core.Render(m.p, m.s, i, func(name string) ([]byte, error) { return m.blobs[name], nil })
		if err != nil || !ok {
			t.Fatalf("render %+v: %v %v", i, ok, err)
		}
		fmt.Fprintln(out, ">", command(t, cmd))
	}
}

// summary is a crumb on one line: what a reader of the transcript needs.
func summary(t *testing.T, body []byte) string {
	t.Helper()
	var c struct {
		crumbs.Base
		ToolCallID   string          `json:"toolCallId"`
		ToolName     string          `json:"toolName"`
		Kind         string          `json:"kind"`
		Outcome      string          `json:"outcome"`
		Reason       string          `json:"reason"`
		FinishReason string          `json:"finishReason"`
		Text         string          `json:"text"`
		Attempt      int             `json:"attempt"`
		Effect       string          `json:"effect"`
		Tools        []string        `json:"tools"`
		ToolCallIDs  []string        `json:"toolCallIds"`
		Input        json.RawMessage `json:"input"`
		Args         json.RawMessage `json:"args"`
		Result       json.RawMessage `json:"result"`
		Output       json.RawMessage `json:"output"`
		Response     json.RawMessage `json:"response"`
		Error        *fault.Error    `json:"error"`
		Steps        int             `json:"steps"`
		RetryAt      *crumbs.Time    `json:"retryAt"`
		ExpiresAt    *crumbs.Time    `json:"expiresAt"`
	}
	if err := json.Unmarshal(body, &c); err != nil {
		t.Fatal(err)
	}
	var b strings.Builder
	fmt.Fprintf(&b, "%d %s", c.Seq, c.Type)
	add := func(format string, v any, show bool) {
		if show {
			fmt.Fprintf(&b, " "+format, v)
		}
	}
	add("%s", c.ToolCallID, c.ToolCallID != "")
	add("%s", c.ToolName, c.ToolName != "")
	add("step=%d", c.Step, c.Type == crumbs.TypeStepEnd)
	add("attempt=%d", c.Attempt, c.Attempt > 1)
	add("kind=%s", c.Kind, c.Kind != "")
	add("outcome=%s", c.Outcome, c.Outcome != "")
	add("reason=%q", c.Reason, c.Reason != "")
	add("effect=%s", c.Effect, c.Effect != "")
	add("tools=%v", c.Tools, c.Tools != nil)
	add("text=%q", c.Text, c.Text != "")
	add("calls=%v", c.ToolCallIDs, c.ToolCallIDs != nil)
	add("input=%s", short(c.Input), c.Input != nil)
	add("args=%s", short(c.Args), c.Args != nil)
	add("result=%s", short(c.Result), c.Result != nil)
	add("response=%s", short(c.Response), c.Response != nil)
	add("output=%s", short(c.Output), c.Output != nil)
	if c.Error != nil {
		add("error=%s", c.Error.Code, true)
		add("%q", c.Error.Message, true)
	}
	add("finish=%s", c.FinishReason, c.FinishReason != "")
	add("steps=%d", c.Steps, c.Steps > 0)
	if c.RetryAt != nil {
		add("retryAt=%s", c.RetryAt.Format("15:04:05.000"), true)
	}
	add("suspended=%v", c.Suspended, c.Suspended)
	return b.String()
}

func short(b json.RawMessage) string {
	const most = 120
	if len(b) > most {
		return string(b[:most]) + "…"
	}
	return string(b)
}

func command(t *testing.T, c core.Command) string {
	t.Helper()
	var body struct {
		CallID     string             `json:"callId"`
		Attempt    int                `json:"attempt"`
		N          int                `json:"n"`
		Group      string             `json:"group"`
		Messages   []json.RawMessage  `json:"messages"`
		Segments   []string           `json:"segments"`
		CallIDs    []string           `json:"callIds"`
		AfterSeq   uint64             `json:"afterSeq"`
		Permission *crumbs.Permission `json:"permission"`
	}
	if err := json.Unmarshal(c.Body, &body); err != nil {
		t.Fatal(err)
	}
	switch c.Type {
	case crumbs.TypeModelCall:
		s := fmt.Sprintf("%s %s n=%d after=%d messages=%d", c.Type, body.CallID, body.N, body.AfterSeq, len(body.Messages))
		if len(body.Segments) > 0 {
			s += fmt.Sprintf(" segments=%d", len(body.Segments))
		}
		return s
	case crumbs.TypeToolCall:
		s := fmt.Sprintf("%s %s group=%s after=%d %s", c.Type, body.CallID, body.Group, body.AfterSeq, body.Permission.Verdict)
		if body.Permission.Decision != nil {
			s += " decision=signed"
		}
		return s
	case crumbs.TypeTimerDue:
		return "timer.set " + strings.TrimPrefix(c.Subject, "timer.set.") + " at=" + c.FireAt.Format("15:04:05.000")
	}
	return strings.TrimSpace(fmt.Sprintf("%s %s", c.Type, strings.Join(body.CallIDs, " ")))
}

// parse reads an event line; see testdata for the forms.
func (m *machine) parse(line string) (core.Event, error) {
	words := split(line)
	if len(words) > 0 && strings.HasPrefix(words[0], "+") {
		d, err := time.ParseDuration(words[0][1:])
		if err != nil {
			return core.Event{}, err
		}
		m.at, words = m.at.Add(d), words[1:]
	}
	if len(words) < 1 {
		return core.Event{}, errors.New("no event")
	}
	args := map[string]string{}
	var plain []string
	for _, w := range words[1:] {
		if k, v, ok := strings.Cut(w, "="); ok && !strings.ContainsAny(k, `{"[`) {
			args[k] = v
		} else {
			plain = append(plain, w)
		}
	}
	return m.event(words[0], plain, args)
}

func (m *machine) event(kind string, plain []string, args map[string]string) (core.Event, error) {
	e := core.Event{At: crumbs.At(m.at), Claims: map[string]bool{}}
	for _, key := range strings.Split(args["started"], ",") {
		if key != "" {
			e.Claims[key] = true
		}
	}
	first := ""
	if len(plain) > 0 {
		first = plain[0]
	}
	switch kind {
	case "requested":
		e.Kind = core.Requested
		run := core.Run{ID: crumbs.RunID(first), Agent: "publisher", Session: "ses_1", Revision: "rev_1", ToolSet: "set_1", MaxSteps: 20, Deltas: true, RequestHash: args["hash"]}
		if n := args["maxSteps"]; n != "" {
			run.MaxSteps, _ = strconv.Atoi(n)
		}
		if d := args["deadline"]; d != "" {
			v, err := time.ParseDuration(d)
			if err != nil {
				return e, err
			}
			run.DeadlineAt = e.At.Add(v)
		}
		e.Request = &core.Request{Run: run, Input: json.RawMessage(args["input"])}
		if code := args["refused"]; code != "" {
			e.Request.Refused = fault.New(fault.Code(code), "refused")
		}
	case "model.result":
		e.Kind, e.Model = core.ModelResult, modelResult(first, args)
	case "tool.result":
		e.Kind, e.Result = core.CallResult, toolResult(plain, args)
	case "decision":
		e.Kind = core.Decided
		e.Decision = &crumbs.Decision{Type: crumbs.TypeDecision, CheckpointID: crumbs.CallID(first), ToolCallID: crumbs.CallID(first), RunID: crumbs.CallID(first).Run(),
			Outcome: plain[1], By: crumbs.Principal{Issuer: "local", Subject: args["by"]}, Via: "cli", At: e.At, Reason: args["reason"],
			Args: raw(args["args"]), Response: raw(args["value"]), ArgsHash: args["hash"]}
		if args["hash"] == "" {
			e.Decision.ArgsHash = m.hashOf(crumbs.CallID(first))
		}
	case "timer":
		e.Kind = core.TimerDue
		v, err := strconv.ParseUint(args["v"], 10, 64)
		if err != nil {
			return e, err
		}
		e.Timer = &crumbs.TimerDue{Type: crumbs.TypeTimerDue, RunID: m.s.Run.ID, V: v, At: e.At}
	case "cancel":
		e.Kind = core.Control
		e.Control = &crumbs.RunControl{Type: crumbs.TypeRunControl, RunID: crumbs.RunID(first), Action: crumbs.ActionCancel, Reason: args["reason"]}
	case "failed":
		e.Kind, e.Broken = core.Broken, fault.New(fault.InternalError, "deciding failed")
	default:
		return e, fmt.Errorf("event %q", kind)
	}
	return e, nil
}

func (m *machine) hashOf(id crumbs.CallID) string {
	for _, c := range m.s.Calls {
		if c.ID == id {
			return c.ArgsHash
		}
	}
	return ""
}

func raw(s string) json.RawMessage {
	if s == "" {
		return nil
	}
	return json.RawMessage(s)
}

// modelResult: text="…" calls=name{json};name{json} usage=in/out finish=… error=CODE[:retryAfterMs].
func modelResult(id string, args map[string]string) *crumbs.ModelResult {
	call := crumbs.CallID(id)
	attempt := 1
	if a := args["attempt"]; a != "" {
		attempt, _ = strconv.Atoi(a)
	}
	r := &crumbs.ModelResult{Type: crumbs.TypeModelResult, RunID: call.Run(), CallID: call, Attempt: attempt, Status: crumbs.StatusOK,
		Message: &crumbs.Message{Role: crumbs.RoleAssistant}, FinishReason: args["finish"], Model: crumbs.Model{Provider: "script", Model: "publisher"}}
	if code, after, _ := strings.Cut(args["error"], ":"); code != "" {
		r.Status, r.Message, r.Error, r.Retryable = crumbs.StatusError, nil, fault.New(fault.Code(code), "provider said no"), true
		r.Error.RetryAfterMs, _ = strconv.ParseInt(after, 10, 64)
		return r
	}
	if s := args["text"]; s != "" {
		text, err := strconv.Unquote(s)
		if err != nil {
			text = s
		}
		r.Message.Parts = append(r.Message.Parts, crumbs.Part{Type: crumbs.PartText, Text: text})
	}
	if n := args["repeat"]; n != "" { // that many calls of one tool
		count, _ := strconv.Atoi(n)
		for i := range count {
			r.Message.Parts = append(r.Message.Parts, crumbs.Part{Type: crumbs.PartToolCall, ToolName: "tool_word_count", Args: json.RawMessage(fmt.Sprintf(`{"path":"%d"}`, i))})
		}
	}
	for _, c := range strings.Split(args["calls"], ";") {
		name, rest, ok := strings.Cut(c, "{")
		if c == "" {
			continue
		}
		part := crumbs.Part{Type: crumbs.PartToolCall, ToolName: name}
		if ok {
			part.Args = json.RawMessage("{" + rest)
		}
		r.Message.Parts = append(r.Message.Parts, part)
	}
	if in, out, ok := strings.Cut(args["usage"], "/"); ok {
		u := &crumbs.Usage{}
		u.InputTokens, _ = strconv.ParseInt(in, 10, 64)
		u.OutputTokens, _ = strconv.ParseInt(out, 10, 64)
		r.Usage = u
	}
	return r
}

// toolResult: <call> ok|error|unknown|cancelled [json] group=… attempt=… size=bytes.
func toolResult(plain []string, args map[string]string) *crumbs.ToolResult {
	call := crumbs.CallID(plain[0])
	r := &crumbs.ToolResult{Type: crumbs.TypeToolResult, RunID: call.Run(), CallID: call, Attempt: 1, Group: args["group"], Worker: "w1", Delivery: 1, Status: plain[1], DurationMs: 5}
	if a := args["attempt"]; a != "" {
		r.Attempt, _ = strconv.Atoi(a)
	}
	if len(plain) > 2 {
		r.Result = json.RawMessage(strings.Join(plain[2:], " "))
	}
	if n, err := strconv.Atoi(args["size"]); err == nil {
		r.Result = json.RawMessage(strconv.Quote(strings.Repeat("x", n)))
	}
	if code := args["error"]; code != "" {
		r.Error = fault.New(fault.Code(code), "the tool said no")
	}
	return r
}

// split cuts a line at spaces outside of quotes, braces and brackets.
func split(s string) []string {
	var out []string
	var word strings.Builder
	depth, quoted := 0, false
	for i := 0; i < len(s); i++ {
		c := s[i]
		switch {
		case c == '"' && (i == 0 || s[i-1] != '\\'):
			quoted = !quoted
		case !quoted && (c == '{' || c == '['):
			depth++
		case !quoted && (c == '}' || c == ']'):
			depth--
		case c == ' ' && depth == 0 && !quoted:
			if word.Len() > 0 {
				out = append(out, word.String())
				word.Reset()
			}
			continue
		}
		word.WriteByte(c)
	}
	if word.Len() > 0 {
		out = append(out, word.String())
	}
	return out
}
