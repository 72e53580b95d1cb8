package core_test

import (
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
