package core_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/crumbmesh/crumbmesh/pkg/crumbs"
	"github.com/crumbmesh/crumbmesh/pkg/fault"
	"github.com/crumbmesh/crumbmesh/services/orchestrator/internal/core"
)

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

