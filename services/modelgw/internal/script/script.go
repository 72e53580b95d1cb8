// Package script is the adapter of the provider `script`: it answers from the
// scripts of an agent revision, so that tests and demos need no LLM.
package script

import (
	"context"
	"encoding/json"
	"fmt"
	"iter"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/crumbmesh/crumbmesh/pkg/agent"
	"github.com/crumbmesh/crumbmesh/pkg/crumbs"
	"github.com/crumbmesh/crumbmesh/pkg/fault"
	"github.com/crumbmesh/crumbmesh/services/modelgw/internal/prompt"
	"github.com/crumbmesh/crumbmesh/services/modelgw/internal/revision"
	"github.com/crumbmesh/crumbmesh/services/modelgw/internal/turn"
)

// kind is this kind of provider: the key of its options.
const kind = agent.ScriptProvider

// Adapter answers model calls from scripts.
type Adapter struct {
	revisions *revision.Reader
}

// New returns an Adapter of the scripts of agent revisions.
func New(r *revision.Reader) *Adapter { return &Adapter{revisions: r} }

// Generate plays turn call.N of script call.Model.Model of the agent revision:
// reasoning, text in its chunks with delayMs between them, tool calls, and then
// the whole or the scripted error. It fails with AGENT_NOT_FOUND when the
// revision is not stored and MODEL_ERROR when the script, the turn or what a
// template names is not there.
func (a *Adapter) Generate(ctx context.Context, r turn.Request) iter.Seq2[turn.Event, error] {
	return func(yield func(turn.Event, error) bool) {
		call := r.Call
		t, err := a.render(ctx, r)
		if err != nil {
			yield(turn.Event{}, err)
			return
		}
		texts := 0
		for _, e := range events(t) {
			if e.Kind == turn.Text {
				if texts++; texts > 1 && !pause(ctx, t.DelayMs) {
					yield(turn.Event{}, context.Cause(ctx))
					return
				}
			}
			if !yield(e, nil) {
				return
			}
		}
		if e := t.Error; e != nil {
			yield(turn.Event{}, turn.Refused(call.Model.Provider, e.Status, time.Duration(e.RetryAfterMs)*time.Millisecond,
				fmt.Sprintf("script %q says so in turn %d", call.Model.Model, call.N)))
			return
		}
		yield(turn.Event{Kind: turn.Done, Answer: answer(call.N, t)}, nil)
	}
}

// render returns the turn of a call without templates.
func (a *Adapter) render(ctx context.Context, r turn.Request) (agent.RenderedTurn, error) {
	call := r.Call
	d, err := a.revisions.Definition(ctx, call.AgentID, call.AgentRevision)
	if err != nil {
		return agent.RenderedTurn{}, err
	}
	s, ok := d.Scripts[call.Model.Model]
	if !ok {
		return agent.RenderedTurn{}, fault.New(fault.ModelError, "agent %s has no script %q in revision %s; it has [%s]; add scripts/%s.yaml",
			call.AgentID, call.Model.Model, call.AgentRevision, strings.Join(slices.Sorted(maps.Keys(d.Scripts)), ", "), call.Model.Model)
	}
	t, err := s.Render(call.N, agent.TemplateData{
		Input: input(call.Messages), Messages: call.Messages, Prompt: func() json.RawMessage { return encoded(shown(r.Prompt)) },
		Settings: encoded(call.Settings), ProviderOptions: encoded(r.Options(kind)),
	})
	if err == nil && turn.Structured(call) && len(t.ToolCalls) > 0 {
		return t, fault.New(fault.ModelError, "script %q, turn %d: toolCalls, but the agent's output.format is json: a structured answer has no tools; remove the calls, or the format from agent.yaml",
			call.Model.Model, call.N)
	}
	return t, err
}

// shown is the prompt that a provider with a model would be sent: a script may look
// at it, so that a test of an agent sees what its model will see.
func shown(p prompt.Prompt) any {
	tools := p.Tools
	if tools == nil {
		tools = []crumbs.ToolSpec{}
	}
	return map[string]any{"system": p.System, "tools": tools, "messages": p.Messages}
}

// encoded is what came as JSON as JSON again; nil is null.
func encoded(v any) json.RawMessage {
	raw, err := json.Marshal(v)
	if err != nil {
		return json.RawMessage(`null`)
	}
	return raw
}

// input is the text of the run's first message of the user: later ones are what
// people told the run on its way.
func input(messages []crumbs.Message) []byte {
	i := slices.IndexFunc(messages, func(m crumbs.Message) bool { return m.Role == crumbs.RoleUser })
	if i < 0 {
		return nil
	}
	var text []byte
	for _, p := range messages[i].Parts {
		if p.Type == crumbs.PartText {
			text = append(text, p.Text...)
		}
	}
	return text
}

// events are the pieces of a turn in the order in which a model sends them.
func events(t agent.RenderedTurn) []turn.Event {
	var out []turn.Event
	if t.Reasoning != "" {
		out = append(out, turn.Event{Kind: turn.Reasoning, Piece: t.Reasoning})
	}
	chunks := t.Chunks
	if len(chunks) == 0 && t.Text != "" {
		chunks = []string{t.Text}
	}
	for _, c := range chunks {
		out = append(out, turn.Event{Kind: turn.Text, Piece: c})
	}
	for i, c := range t.ToolCalls {
		out = append(out,
			turn.Event{Kind: turn.InputStart, Call: i, Name: c.Name},
			turn.Event{Kind: turn.InputDelta, Call: i, Piece: string(c.Args)},
			turn.Event{Kind: turn.InputEnd, Call: i})
	}
	return out
}

// answer is the whole turn n.
func answer(n int, t agent.RenderedTurn) *turn.Answer {
	var parts []crumbs.Part
	if t.Reasoning != "" {
		parts = append(parts, crumbs.Part{Type: crumbs.PartReasoning, Text: t.Reasoning})
	}
	if t.Text != "" {
		parts = append(parts, crumbs.Part{Type: crumbs.PartText, Text: t.Text})
	}
	for i, c := range t.ToolCalls {
		parts = append(parts, crumbs.Part{Type: crumbs.PartToolCall, ToolName: c.Name, Args: c.Args, ProviderCallID: fmt.Sprintf("script_%d_%d", n, i)})
	}
	files := make([]turn.File, 0, len(t.Files))
	for _, f := range t.Files {
		files = append(files, turn.File{Name: f.Name, MimeType: f.MimeType, Data: f.Data})
	}
	return &turn.Answer{Parts: parts, Files: files, FinishReason: t.FinishReason, Usage: t.Usage}
}

// pause reports whether ctx outlived the delay.
func pause(ctx context.Context, delayMs int64) bool {
	t := time.NewTimer(time.Duration(delayMs) * time.Millisecond)
	defer t.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-t.C:
		return true
	}
}
