package core_test

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/crumbmesh/crumbmesh/pkg/crumbs"
	"github.com/crumbmesh/crumbmesh/pkg/fault"
	"github.com/crumbmesh/crumbmesh/services/orchestrator/internal/core"
)

// parse reads an event line: `[+wait] kind words… key=value…`. With any event
// `started=<call>.<attempt>,…` names claims that had been taken when they were
// revoked, and `late=<wait>` says how long it waited to be decided. Values with spaces stand in quotes, braces or brackets.
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
	w := wording{values: map[string]string{}}
	for _, word := range words[1:] {
		if k, v, ok := strings.Cut(word, "="); ok && !strings.ContainsAny(k, `{"[`) {
			w.values[k] = v
		} else {
			w.plain = append(w.plain, word)
		}
	}
	e, err := m.event(words[0], &w)
	return e, errors.Join(err, w.err)
}

// wording is an event line, taken apart.
type wording struct {
	plain  []string
	values map[string]string
	err    error
}

func (w *wording) word(i int) string {
	if i < len(w.plain) {
		return w.plain[i]
	}
	return ""
}

func (w *wording) number(key string, otherwise int64) int64 {
	s, ok := w.values[key]
	if !ok {
		return otherwise
	}
	n, err := strconv.ParseInt(s, 10, 64)
	w.err = errors.Join(w.err, err)
	return n
}

// text is a value without its quotes.
func (w *wording) text(key string) string {
	if s, err := strconv.Unquote(w.values[key]); err == nil {
		return s
	}
	return w.values[key]
}

func (w *wording) raw(key string) json.RawMessage {
	if s := w.values[key]; s != "" {
		return json.RawMessage(s)
	}
	return nil
}

// sized is a JSON string of that many bytes.
func sized(n int64) json.RawMessage {
	return json.RawMessage(strconv.Quote(strings.Repeat("x", int(n)-2)))
}

func (m *machine) event(kind string, w *wording) (core.Event, error) {
	e := core.Event{At: crumbs.At(m.at), Claims: map[string]bool{}}
	for _, key := range strings.Split(w.values["started"], ",") {
		if key != "" {
			e.Claims[key] = true
		}
	}
	if s := w.values["late"]; s != "" {
		d, err := time.ParseDuration(s)
		w.err = errors.Join(w.err, err)
		e.Now = e.At.Add(d)
	}
	switch kind {
	case "requested":
		return m.requested(e, w)
	case "model.result":
		e.Kind, e.Model = core.ModelResult, modelResult(w)
	case "tool.result":
		e.Kind, e.Result = core.CallResult, toolResult(w)
	case "decision":
		e.Kind, e.Decision = core.Decided, m.decision(e.At, w)
	case "timer":
		m.timer(&e, w)
	case "cancel":
		e.Kind = core.Control
		e.Control = &crumbs.RunControl{Type: crumbs.TypeRunControl, RunID: crumbs.RunID(w.word(0)), ControlID: "ctl_1", Action: crumbs.ActionCancel, Reason: w.text("reason")}
		if n := w.number("size", 0); n > 0 {
			e.Control.Reason = strings.Repeat("x", int(n))
		}
	case "order":
		e.Kind, e.Order = core.Ordered, order(w)
	case "failed":
		e.Kind, e.Broken = core.Broken, fault.New(fault.Code(cmp.Or(w.values["error"], string(fault.InternalError))), "deciding failed")
	default:
		return e, fmt.Errorf("event %q", kind)
	}
	return e, nil
}

// order <call> redrive|answer|lost [json] attempt= by= reason= error=CODE.
func order(w *wording) *crumbs.RunOrder {
	call := crumbs.CallID(w.word(0))
	o := &crumbs.RunOrder{Type: crumbs.TypeRunOrder, RunID: call.Run(), OrderID: "ord_1", CallID: call, Attempt: int(w.number("attempt", 1)), Action: w.word(1), Reason: w.text("reason")}
	if len(w.plain) > 2 {
		o.Result = json.RawMessage(strings.Join(w.plain[2:], " "))
	}
	if by := w.values["by"]; by != "" {
		o.By = &crumbs.Principal{Issuer: "local", Subject: by}
	}
	if code := w.values["error"]; code != "" {
		o.Error = fault.New(fault.Code(code), "said so")
	}
	return o
}

// requested <run> input= size= maxSteps= deadline= refused=CODE.
func (m *machine) requested(e core.Event, w *wording) (core.Event, error) {
	e.Kind = core.Requested
	e.Request = &core.Request{Run: pinnedRun(crumbs.RunID(w.word(0))), Input: w.raw("input")}
	e.Request.Run.MaxSteps = int(w.number("maxSteps", 20))
	if n := w.number("size", 0); n > 0 {
		e.Request.Input = sized(n)
	}
	if s := w.values["deadline"]; s != "" {
		d, err := time.ParseDuration(s)
		if err != nil {
			return e, err
		}
		e.Request.Run.DeadlineAt = e.At.Add(d)
	}
	if code := w.values["refused"]; code != "" {
		e.Request.Refused = fault.New(fault.Code(code), "refused")
	}
	if code := w.values["unserved"]; code != "" {
		e.Request.Unserved = fault.New(fault.Code(code), "no such provider")
	}
	return e, nil
}

// hexHash stands for the hashes of pinned things.
const hexHash = "0123456789abcdef0123456789abcdef"

// pinnedRun is an admitted run of the publisher.
func pinnedRun(id crumbs.RunID) core.Run {
	return core.Run{ID: id, Agent: "publisher", Session: "ses_1", Revision: "rev_1", ToolSet: hexHash, MaxSteps: 20, Deltas: true, RequestHash: "hash_1"}
}

// timer v=<n> is timer n, due now; timer alone the armed one at its time.
func (m *machine) timer(e *core.Event, w *wording) {
	v := uint64(w.number("v", int64(m.s.Timer.V)))
	if w.values["v"] == "" {
		e.At = m.s.Timer.At
		if m.at.Before(e.At.Time) {
			m.at = e.At.Time
		}
	}
	e.Kind, e.Timer = core.TimerDue, &crumbs.TimerDue{Type: crumbs.TypeTimerDue, RunID: m.s.Run.ID, V: v, At: e.At}
}

// decision <call> approve|reject|answer by= reason= args= value= hash=.
func (m *machine) decision(at crumbs.Time, w *wording) *crumbs.Decision {
	id := crumbs.CallID(w.word(0))
	return &crumbs.Decision{Type: crumbs.TypeDecision, CheckpointID: id, ToolCallID: id, RunID: id.Run(), Outcome: w.word(1),
		By: crumbs.Principal{Issuer: "local", Subject: cmp.Or(w.values["by"], "ada")}, Via: "cli", At: at, Reason: w.text("reason"),
		Args: w.raw("args"), Response: w.raw("value"), ArgsHash: cmp.Or(w.values["hash"], m.hashOf(id)), KeyID: "key_1", Signature: strings.Repeat("c2ln", 21) + "bg"}
}

func (m *machine) hashOf(id crumbs.CallID) string {
	for _, c := range m.s.Calls {
		if c.ID == id {
			return c.ArgsHash
		}
	}
	return ""
}

// modelResult: <call> attempt= text= textsize= calls=name{args};name~text
// repeat=<calls> argsize= usage=in/out finish= error=CODE[:retryAfterMs], then
// perhaps `permanent` or `nomessage`.
func modelResult(w *wording) *crumbs.ModelResult {
	call := crumbs.CallID(w.word(0))
	r := &crumbs.ModelResult{Type: crumbs.TypeModelResult, RunID: call.Run(), CallID: call, Attempt: int(w.number("attempt", 1)), Status: crumbs.StatusOK,
		Message: &crumbs.Message{Role: crumbs.RoleAssistant}, FinishReason: w.values["finish"], Model: crumbs.Model{Provider: "script", Model: "publisher"}}
	if in, out, ok := strings.Cut(w.values["usage"], "/"); ok {
		r.Usage = &crumbs.Usage{InputTokens: count(w, in), OutputTokens: count(w, out)}
	}
	if code, after, _ := strings.Cut(w.values["error"], ":"); code != "" {
		r.Status, r.Message, r.Error = crumbs.StatusError, nil, fault.New(fault.Code(code), "provider said no")
		r.Retryable = w.word(1) != "permanent"
		if after != "" {
			r.Error.RetryAfterMs = count(w, after)
		}
		if n := w.number("errorsize", 0); n > 0 {
			r.Error.Message = strings.Repeat("x", int(n))
		}
		return r
	}
	if w.word(1) == "nomessage" {
		r.Message = nil
		return r
	}
	r.Message.Parts = append(textParts(w), callParts(w)...)
	if name := w.values["file"]; name != "" {
		r.Message.Parts = append(r.Message.Parts, crumbs.Part{Type: crumbs.PartFile, File: &crumbs.File{Kind: "file", URI: "files:" + name}})
	}
	if n := w.number("prompt", 0); n > 0 {
		r.Prompt = &crumbs.Prefix{Messages: int(n), Hash: hexHash}
	}
	if kept := w.values["kept"]; kept != "" {
		is := kept == "true"
		r.PrefixKept = &is
	}
	return r
}

func count(w *wording, s string) int64 {
	n, err := strconv.ParseInt(s, 10, 64)
	w.err = errors.Join(w.err, err)
	return n
}

func textParts(w *wording) []crumbs.Part {
	text := w.text("text")
	if n := w.number("textsize", 0); n > 0 {
		text = strings.Repeat("x", int(n))
	}
	if text == "" {
		return nil
	}
	return []crumbs.Part{{Type: crumbs.PartText, Text: text}}
}

func callParts(w *wording) (parts []crumbs.Part) {
	for i := range w.number("repeat", 0) {
		args := fmt.Sprintf(`{"path":"%0*d"}`, max(1, int(w.number("argsize", 0))-len(`{"path":""}`)), i)
		parts = append(parts, crumbs.Part{Type: crumbs.PartToolCall, ToolName: "tool_word_count", Args: json.RawMessage(args)})
	}
	for _, c := range strings.Split(w.values["calls"], ";") {
		if c == "" {
			continue
		}
		part := crumbs.Part{Type: crumbs.PartToolCall}
		if i := strings.IndexAny(c, "{~"); i < 0 {
			part.ToolName = c
		} else {
			part.ToolName, part.Args = c[:i], wireArgs(strings.TrimPrefix(c[i:], "~"))
		}
		parts = append(parts, part)
	}
	return parts
}

// wireArgs is how a model gateway sends on what a model said: text that is no
// JSON is a JSON string.
func wireArgs(text string) json.RawMessage {
	if json.Valid([]byte(text)) {
		return json.RawMessage(text)
	}
	return json.RawMessage(strconv.Quote(text))
}

// toolResult: <call> ok|error|unknown|cancelled [json] group= attempt= size=
// error=CODE errorsize= file= files=.
func toolResult(w *wording) *crumbs.ToolResult {
	call := crumbs.CallID(w.word(0))
	r := &crumbs.ToolResult{Type: crumbs.TypeToolResult, RunID: call.Run(), CallID: call, Attempt: int(w.number("attempt", 1)), Group: w.values["group"],
		Worker: "w1", Delivery: 1, Status: w.word(1), DurationMs: 5}
	if len(w.plain) > 2 {
		r.Result = json.RawMessage(strings.Join(w.plain[2:], " "))
	}
	if n := w.number("size", 0); n > 0 {
		r.Result = sized(n)
	}
	if list := w.raw("partials"); list != nil {
		w.err = errors.Join(w.err, json.Unmarshal(list, &r.Partials))
		r.Deltas = len(r.Partials)
	}
	if code := w.values["error"]; code != "" {
		r.Error = fault.New(fault.Code(code), "the tool said no")
	}
	if n := w.number("errorsize", 0); n > 0 {
		r.Error.Message = strings.Repeat("x", int(n))
	}
	if name := w.values["file"]; name != "" {
		for i := range w.number("files", 1) {
			r.Files = append(r.Files, crumbs.File{Kind: "file", URI: fmt.Sprintf("files:%s-%d", name, i), Name: strings.Repeat("n", 200)})
		}
		if len(r.Files) == 1 {
			r.Files = []crumbs.File{{Kind: "file", URI: "files:" + name, Name: name}}
		}
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
