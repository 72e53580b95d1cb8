package core_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/crumbmesh/crumbmesh/pkg/crumbs"
	"github.com/crumbmesh/crumbmesh/pkg/fault"
	"github.com/crumbmesh/crumbmesh/services/orchestrator/internal/core"
)

// summary is a crumb on one line: what a reader of the transcript needs.
func summary(t *testing.T, body []byte) string {
	t.Helper()
	var c struct {
		crumbs.Base
		ToolCallID   string            `json:"toolCallId"`
		ToolName     string            `json:"toolName"`
		Kind         string            `json:"kind"`
		Outcome      string            `json:"outcome"`
		Reason       string            `json:"reason"`
		FinishReason string            `json:"finishReason"`
		Text         string            `json:"text"`
		Attempt      int               `json:"attempt"`
		Effect       string            `json:"effect"`
		Tools        []string          `json:"tools"`
		ToolCallIDs  []string          `json:"toolCallIds"`
		Input        json.RawMessage   `json:"input"`
		Args         json.RawMessage   `json:"args"`
		Result       json.RawMessage   `json:"result"`
		Output       json.RawMessage   `json:"output"`
		Response     json.RawMessage   `json:"response"`
		Error        *fault.Error      `json:"error"`
		Steps        int               `json:"steps"`
		Limit        *crumbs.LimitHit  `json:"limit"`
		DurationMs   int64             `json:"durationMs"`
		WaitedMs     int64             `json:"waitedMs"`
		Usage        *crumbs.Usage     `json:"usage"`
		Files        []crumbs.File     `json:"files"`
		RetryAt      *crumbs.Time      `json:"retryAt"`
		ExpiresAt    *crumbs.Time      `json:"expiresAt"`
		By           *crumbs.Principal `json:"by"`
		Hook         string            `json:"hook"`
		Hooks        []string          `json:"hooks"`
		Point        string            `json:"point"`
		Attempts     int               `json:"attempts"`
		Advisory     bool              `json:"advisory"`
		File         *crumbs.File      `json:"file"`
		PrefixKept   *bool             `json:"prefixKept"`
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
	add("hook=%s", c.Hook, c.Hook != "")
	add("hooks=%v", c.Hooks, c.Hooks != nil)
	add("point=%s", c.Point, c.Point != "")
	add("attempts=%d", c.Attempts, c.Attempts > 1)
	add("advisory=%v", c.Advisory, c.Advisory)
	if c.File != nil {
		add("file=%s", c.File.URI, true)
	}
	if c.PrefixKept != nil {
		add("prefixKept=%v", *c.PrefixKept, true)
	}
	add("kind=%s", c.Kind, c.Kind != "")
	add("outcome=%s", c.Outcome, c.Outcome != "")
	add("reason=%q", c.Reason, c.Reason != "")
	if c.By != nil && c.Type != crumbs.TypeHumanResumed {
		add("by=%s", c.By.Subject, true)
	}
	add("effect=%s", c.Effect, c.Effect != "")
	add("tools=%v", c.Tools, c.Tools != nil)
	add("text=%q", clipped(c.Text), c.Text != "")
	add("calls=%v", c.ToolCallIDs, c.ToolCallIDs != nil)
	add("input=%s", short(c.Input), c.Input != nil)
	add("args=%s", short(c.Args), c.Args != nil)
	add("result=%s", short(c.Result), c.Result != nil)
	add("response=%s", short(c.Response), c.Response != nil)
	add("output=%s", short(c.Output), c.Output != nil)
	if c.Error != nil {
		add("error=%s", c.Error.Code, true)
		add("%q", clipped(c.Error.Message), true)
	}
	if c.Limit != nil {
		add("limit=%s", fmt.Sprintf("%s/%d/%d", c.Limit.Name, c.Limit.Value, c.Limit.Count), true)
	}
	add("finish=%s", c.FinishReason, c.FinishReason != "")
	add("steps=%d", c.Steps, c.Steps > 0)
	if c.RetryAt != nil {
		add("retryAt=%s", c.RetryAt.Format("15:04:05.000"), true)
	}
	if c.ExpiresAt != nil {
		add("expires=%s", c.ExpiresAt.Format("02T15:04:05"), true)
	}
	add("files=%d", len(c.Files), len(c.Files) > 0)
	if crumbs.Terminal(c.Type) {
		if c.Usage != nil {
			add("usage=%s", fmt.Sprintf("%d/%d", c.Usage.InputTokens, c.Usage.OutputTokens), true)
		}
		add("took=%v", time.Duration(c.DurationMs)*time.Millisecond, true)
	}
	add("took=%v", time.Duration(c.DurationMs)*time.Millisecond, c.Type == crumbs.TypeToolErrored)
	add("waited=%v", time.Duration(c.WaitedMs)*time.Millisecond, c.Type == crumbs.TypeHumanResumed)
	add("suspended=%v", c.Suspended, c.Suspended)
	return b.String()
}

func short(b json.RawMessage) string { return clipped(string(b)) }

func clipped(s string) string {
	const most = 160
	if len(s) > most {
		return fmt.Sprintf("%s… %d bytes", s[:most/4], len(s))
	}
	return s
}

func command(t *testing.T, c core.Command) string {
	t.Helper()
	var body struct {
		CallID     string              `json:"callId"`
		Kind       string              `json:"kind"`
		Hook       *crumbs.HookRef     `json:"hook"`
		Output     *crumbs.ModelOutput `json:"output"`
		Tools      []crumbs.ToolSpec   `json:"tools"`
		ToolName   string              `json:"toolName"`
		N          int                 `json:"n"`
		Group      string              `json:"group"`
		Messages   []crumbs.Message    `json:"messages"`
		Args       json.RawMessage     `json:"args"`
		Attempt    int                 `json:"attempt"`
		Segments   []string            `json:"segments"`
		CallIDs    []string            `json:"callIds"`
		AfterSeq   uint64              `json:"afterSeq"`
		Permission *crumbs.Permission  `json:"permission"`
	}
	if err := json.Unmarshal(c.Body, &body); err != nil {
		t.Fatal(err)
	}
	switch c.Type {
	case crumbs.TypeModelCall:
		s := fmt.Sprintf("%s %s n=%d after=%d messages=%d", c.Type, body.CallID, body.N, body.AfterSeq, len(body.Messages))
		if body.Attempt > 1 {
			s += fmt.Sprintf(" attempt=%d", body.Attempt)
		}
		if len(body.Segments) > 0 {
			s += fmt.Sprintf(" segments=%d", len(body.Segments))
		}
		if body.Output.Format != "text" {
			s += fmt.Sprintf(" format=%s tools=%d", body.Output.Format, len(body.Tools))
		}
		return s + told(body.Messages)
	case crumbs.TypeToolCall:
		if body.Kind != crumbs.KindTool {
			return errandCommand(c, body.CallID, body.ToolName, body.Group, body.Hook, body.Attempt, body.Args)
		}
		s := fmt.Sprintf("%s %s group=%s after=%d %s", c.Type, body.CallID, body.Group, body.AfterSeq, body.Permission.Verdict)
		if body.Attempt > 1 {
			s += fmt.Sprintf(" attempt=%d", body.Attempt)
		}
		if body.Permission.Decision != nil {
			s += " decision=signed args=" + short(body.Args)
		}
		return s
	case crumbs.TypeTimerDue:
		return "timer.set " + strings.TrimPrefix(c.Subject, "timer.set.") + " at=" + c.FireAt.Format("15:04:05.000")
	}
	return strings.TrimSpace(fmt.Sprintf("%s %s", c.Type, strings.Join(body.CallIDs, " ")))
}

func errandCommand(c core.Command, id, name, group string, hook *crumbs.HookRef, attempt int, args json.RawMessage) string {
	s := fmt.Sprintf("%s %s %s group=%s", c.Type, id, name, group)
	if hook != nil {
		s += " point=" + hook.Point
	}
	if attempt > 1 {
		s += fmt.Sprintf(" attempt=%d", attempt)
	}
	return s + "\n    " + string(args)
}

// told is what a model call says of the calls of the turn before, a line each.
func told(messages []crumbs.Message) string {
	first := len(messages)
	for first > 0 && messages[first-1].Role == crumbs.RoleTool {
		first--
	}
	var b strings.Builder
	for _, m := range messages[first:] {
		for _, p := range m.Parts {
			fmt.Fprintf(&b, "\n    %s %s %s", p.ToolCallID, p.Outcome, short(p.Output))
		}
	}
	return b.String()
}
