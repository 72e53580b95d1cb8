package render

import (
	"encoding/json"
	"fmt"
	"strconv"
	"strings"

	"github.com/crumbmesh/crumbmesh/pkg/crumbs"
	"github.com/crumbmesh/crumbmesh/pkg/fault"
)

// Line is a crumb for people.
type Line struct {
	Run  crumbs.RunID
	Seq  uint64
	Type string
	Text string // what matters, on one line
}

// widths of the columns: five digits, and the longest type of a durable crumb.
const (
	seqWidth  = 5
	typeWidth = 15
)

// String renders `seq type text`, aligned.
func (l Line) String() string {
	return strings.TrimRight(fmt.Sprintf("%*d  %-*s  %s", seqWidth, l.Seq, typeWidth, OneLine(l.Type), l.Text), " ")
}

// Crumb reads the body of a crumb or delta. A body it cannot read is shown as it
// is: watching never fails because one crumb is odd.
func Crumb(body json.RawMessage) Line {
	var base crumbs.Base
	if err := json.Unmarshal(body, &base); err != nil {
		return Line{Type: "?", Text: Value(body)}
	}
	l := Line{Run: base.RunID, Seq: base.Seq, Type: base.Type}
	text, err := describe(base, body)
	if err != nil {
		text = Value(body)
	}
	if base.Suspended {
		text = join(text, "(waits for a person)")
	}
	l.Text = text
	return l
}

// as decodes body and describes it.
func as[T any](body json.RawMessage, say func(T) string) (string, error) {
	var v T
	if err := json.Unmarshal(body, &v); err != nil {
		return "", err
	}
	return say(v), nil
}

func describe(base crumbs.Base, body json.RawMessage) (string, error) {
	if base.DataRef != nil {
		return fmt.Sprintf("(a body of %d bytes, in %s)", base.DataRef.Bytes, OneLine(base.DataRef.Object)), nil
	}
	switch base.Type {
	case crumbs.TypeRunStarted:
		return as(body, runStarted)
	case crumbs.TypeRunEnded:
		return as(body, runEnded)
	case crumbs.TypeAgentError:
		return as(body, agentError)
	case crumbs.TypeStepEnd:
		return as(body, stepEnd)
	case crumbs.TypeToolCalled:
		return as(body, toolCalled)
	case crumbs.TypeToolResulted:
		return as(body, toolResulted)
	case crumbs.TypeToolErrored:
		return as(body, toolErrored)
	case crumbs.TypeToolBlocked:
		return as(body, toolBlocked)
	case crumbs.TypeHumanRequired:
		return as(body, humanRequired)
	case crumbs.TypeHumanResumed:
		return as(body, humanResumed)
	case crumbs.TypeHookErrored:
		return as(body, hookErrored)
	case crumbs.TypeFileGenerated:
		return as(body, func(c crumbs.FileGenerated) string {
			return join(call(c.ToolCallID, c.ToolName), OneLine(c.File.URI), OneLine(c.File.MimeType), OneLine(c.File.Name))
		})
	case crumbs.TypeTextDelta, crumbs.TypeReasoningDelta:
		return as(body, func(d crumbs.TextDelta) string { return Quote(d.Delta) })
	case crumbs.TypeInputStart, crumbs.TypeInputDelta, crumbs.TypeInputEnd:
		return as(body, func(d crumbs.InputDelta) string { return join(call(d.ToolCallID, d.ToolName), Clip(d.Delta)) })
	case crumbs.TypeResultPartial:
		return as(body, func(d crumbs.ResultPartial) string { return join(call(d.ToolCallID, d.ToolName), Value(d.Result)) })
	}
	return Value(body), nil
}

func runStarted(c crumbs.RunStarted) string {
	tools := "no tools"
	if len(c.Tools) > 0 {
		tools = "tools " + Clip(strings.Join(c.Tools, ", "))
	}
	text := join(OneLine(string(c.AgentID)), Value(c.Input), tools)
	text = join(text, note(byHook(c.Hooks...)))
	for _, w := range c.Warnings {
		text = join(text, "warning: "+Clip(w))
	}
	return text
}

func runEnded(c crumbs.RunEnded) string {
	return join(Value(c.Output), note(OneLine(c.FinishReason), byHook(c.Hooks...), count(c.Steps, "step"), Duration(c.DurationMs), tokens(c.Usage)))
}

func agentError(c crumbs.AgentError) string {
	return join(Failure(c.Error), note(Duration(c.DurationMs), tokens(c.Usage)))
}

func stepEnd(c crumbs.StepEnd) string {
	var again string
	if c.RetryAt != nil {
		again = "again at " + c.RetryAt.Local().Format("15:04:05")
	}
	var calls string
	if n := len(c.ToolCallIDs); n > 0 {
		calls = count(n, "call")
	}
	var text string
	if c.Text != "" {
		text = Quote(c.Text)
	}
	return join(text, Failure(c.Error), note(calls, again, Duration(c.DurationMs), tokens(c.Usage)))
}

func toolCalled(c crumbs.ToolCalled) string {
	return join(call(c.ToolCallID, c.ToolName), Value(c.Args), note("group "+OneLine(c.Group), OneLine(string(c.Effect)), byHook(c.Hooks...)))
}

func toolResulted(c crumbs.ToolResulted) string {
	return join(call(c.ToolCallID, c.ToolName), Value(c.Result), note(byHook(c.Hook), attempt(c.Attempt), Duration(c.DurationMs), partials(c.Deltas)))
}

func toolErrored(c crumbs.ToolErrored) string {
	return join(call(c.ToolCallID, c.ToolName), Failure(c.Error), note(OneLine(string(c.Outcome)), byHook(c.Hook), attempt(c.Attempt), Duration(c.DurationMs), partials(c.Deltas)))
}

// byHook says which hooks spoke in a tool's place, or changed what runs or comes out.
func byHook(names ...string) string {
	if len(names) == 0 || names[0] == "" {
		return ""
	}
	return "by hook " + OneLine(strings.Join(names, ", "))
}

func toolBlocked(c crumbs.ToolBlocked) string {
	return join(call(c.ToolCallID, c.ToolName), Failure(c.Error), note("not run: "+OneLine(c.Reason)))
}

func hookErrored(c crumbs.HookErrored) string {
	var went, tries string
	if c.Advisory {
		went = "advisory: it goes on"
	}
	if c.Attempts > 1 {
		tries = fmt.Sprintf("%d attempts", c.Attempts)
	}
	return join(call(c.ToolCallID, c.ToolName), join(OneLine(c.Hook), OneLine(c.Point)), Failure(c.Error), note(tries, went))
}

func humanRequired(c crumbs.HumanRequired) string {
	var until string
	if c.ExpiresAt != nil {
		until = "until " + c.ExpiresAt.Local().Format("2006-01-02 15:04")
	}
	return join(call(c.CheckpointID, c.ToolName), OneLine(c.Kind), Value(c.Args), Clip(c.Prompt), note(until))
}

func humanResumed(c crumbs.HumanResumed) string {
	said := OneLine(c.Outcome)
	if c.Outcome == crumbs.ResumedAnswered {
		said = join(said, Value(c.Response))
	}
	if c.Outcome == crumbs.ResumedEdited {
		said = join(said, Value(c.Args))
	}
	if c.By != nil {
		said = join(said, "by "+Principal(*c.By))
	}
	if c.Reason != "" {
		said = join(said, Quote(c.Reason))
	}
	return join(call(c.CheckpointID, c.ToolName), said, note("waited "+Duration(c.WaitedMs)))
}

// Failure renders `CODE: message`, "" for nil.
func Failure(f *fault.Error) string {
	if f == nil {
		return ""
	}
	return Clip(string(f.Code)) + ": " + OneLine(f.Message)
}

// Principal renders `issuer/subject`.
func Principal(p crumbs.Principal) string { return OneLine(p.Issuer + "/" + p.Subject) }

// call renders a call without its run, which every line of a run shares.
func call(id crumbs.CallID, name string) string {
	short := strings.TrimPrefix(string(id), string(id.Run())+".")
	return join(OneLine(short), OneLine(name))
}

func tokens(u *crumbs.Usage) string {
	if u == nil {
		return ""
	}
	return fmt.Sprintf("%d+%d tokens", u.InputTokens, u.OutputTokens)
}

// attempt tells of one that was not the first.
func attempt(n int) string {
	if n <= 1 {
		return ""
	}
	return "attempt " + strconv.Itoa(n)
}

func partials(n int) string {
	if n == 0 {
		return ""
	}
	return count(n, "partial")
}

func count(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return strconv.Itoa(n) + " " + noun + "s"
}

// note renders side facts as `[a, b]`, "" when there are none.
func note(facts ...string) string {
	if text := joinWith(", ", facts); text != "" {
		return "[" + text + "]"
	}
	return ""
}

func join(parts ...string) string { return joinWith("  ", parts) }

func joinWith(sep string, parts []string) string {
	some := parts[:0:0]
	for _, p := range parts {
		if p != "" {
			some = append(some, p)
		}
	}
	return strings.Join(some, sep)
}
