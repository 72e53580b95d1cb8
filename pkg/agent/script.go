package agent

import (
	"cmp"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/crumbmesh/crumbmesh/pkg/crumbs"
	"github.com/crumbmesh/crumbmesh/pkg/fault"
)

// Script is what the provider script answers with: the n-th model call of a
// run, failed attempts included, takes the n-th turn.
//
// The strings of a turn are Go templates (text/template) over
//
//	.input     the last message of the user, as JSON if it is JSON, else as text
//	.results   the outputs of tools: the latest by the tool's name (.results.tool_read),
//	           and all of them in order (.results.all: name, outcome, output)
//	.messages  the transcript: role, text, parts
//	.prompt    what a model of another provider would be shown of it: system, tools,
//	           and messages with the outputs of tools fenced
//	.settings  the agent's model.settings
//	.providerOptions  the agent's model.providerOptions under the key of the kind of
//	           provider, as providers take them (.providerOptions.script.…)
//
// with the built-in functions, `json`, and one rule of our own: a string of args
// or json that is a single action ending in `| json` becomes that JSON value
// instead of a text: an argument that is no text needs it, since
// `cents: "{{ .input.cents }}"` is the text "250" and
// `cents: "{{ .input.cents | json }}"` the number. A call whose arguments do not
// fit the tool's schema is blocked with INVALID_ARGUMENTS; only a run can tell.
//
// A call that was rejected, or failed, has another result than its tool would
// have answered: `{{ .results.tool_read | json }}` shows any. A key that is not there is an error, never "<no value>".
// Templates cannot define templates, and loops and texts are bounded.
type Script struct {
	Name  string `json:"name"`
	Turns []Turn `json:"turns"`
}

// Turn is one answer of a scripted model.
type Turn struct {
	Text         string          `json:"text,omitempty"`
	Chunks       []string        `json:"chunks,omitempty"`  // the text in pieces, each a delta; instead of Text
	DelayMs      int64           `json:"delayMs,omitempty"` // before each piece
	Reasoning    string          `json:"reasoning,omitempty"`
	JSON         json.RawMessage `json:"json,omitempty"`  // the text is this document; instead of Text
	Files        []ScriptFile    `json:"files,omitempty"` // that the model makes
	ToolCalls    []ScriptCall    `json:"toolCalls,omitempty"`
	FinishReason string          `json:"finishReason,omitempty"` // tool-calls or stop, as fits, when absent
	Usage        *crumbs.Usage   `json:"usage,omitempty"`
	Error        *TurnError      `json:"error,omitempty"` // the attempt fails, after what text it has
}

// ScriptCall is a tool call that a turn asks for. The name is not checked
// against the agent's tools: models make names up too.
type ScriptCall struct {
	Name string          `json:"name"`           // as a model says it, tool_read_document
	Args json.RawMessage `json:"args,omitempty"` // any JSON; {} when absent
}

// ScriptFile is a file that a turn makes: a text, or what stands in base64.
type ScriptFile struct {
	Name     string `json:"name"`
	MimeType string `json:"mimeType,omitempty"`
	Text     string `json:"text,omitempty"`   // a template
	Base64   string `json:"base64,omitempty"` // standard encoding; no template
}

// RenderedFile is a file without templates.
type RenderedFile struct {
	Name     string
	MimeType string
	Data     []byte
}

// TurnError is a provider's failure.
type TurnError struct {
	Status       int   `json:"status"` // HTTP status, 400 to 599
	RetryAfterMs int64 `json:"retryAfterMs,omitempty"`
}

// Reasons why a model stops.
const (
	FinishStop          = "stop"
	FinishToolCalls     = "tool-calls"
	FinishLength        = "length"
	FinishContentFilter = "content-filter"
	FinishOther         = "other"
)

// RenderedTurn is a turn without templates. Text is the whole text; Chunks are
// its pieces where the script says some.
type RenderedTurn struct {
	Text         string
	Chunks       []string
	DelayMs      int64
	Reasoning    string
	Files        []RenderedFile
	ToolCalls    []ScriptCall // every one with args
	FinishReason string
	Usage        *crumbs.Usage
	Error        *TurnError
}

// Render returns turn n, from 1, with its templates filled in. It returns
// MODEL_ERROR, naming script and turn, when the script has no such turn or a
// template fails on the data of this run.
func (s Script) Render(n int, data TemplateData) (RenderedTurn, error) {
	if n < 1 || n > len(s.Turns) {
		return RenderedTurn{}, s.failed(n, fault.New(fault.ModelError, "it has %d turns and the run asked for turn %d; add turns to scripts/%s%s", len(s.Turns), n, s.Name, yamlExt))
	}
	r := &renderer{data: data}
	out := r.turn(s.Turns[n-1])
	if r.err != nil {
		return RenderedTurn{}, s.failed(n, r.err)
	}
	return out, nil
}

func (s Script) failed(n int, err *fault.Error) error {
	return fault.Wrap(fault.ModelError, err, "script %q, turn %d: %s", s.Name, n, err.Message).
		With("script", s.Name).With("turn", n)
}

// renderer fills templates in until one fails.
type renderer struct {
	data TemplateData
	dot  map[string]any // data as templates see it, made when one needs it
	err  *fault.Error
}

func (r *renderer) turn(t Turn) RenderedTurn {
	out := RenderedTurn{
		Text: r.text("text", t.Text), Reasoning: r.text("reasoning", t.Reasoning),
		DelayMs: t.DelayMs, FinishReason: t.FinishReason, Usage: t.Usage, Error: t.Error,
	}
	for i, c := range t.Chunks {
		out.Chunks = append(out.Chunks, r.text(fmt.Sprintf("chunks[%d]", i), c))
	}
	if len(t.Chunks) > 0 {
		out.Text = strings.Join(out.Chunks, "")
	}
	if len(t.JSON) > 0 {
		out.Text = string(r.document(place{"json"}, t.JSON))
	}
	for i, f := range t.Files {
		out.Files = append(out.Files, RenderedFile{Name: f.Name, MimeType: f.MimeType, Data: r.content(place{"files"}.index(i), f)})
	}
	for i, call := range t.ToolCalls {
		args := json.RawMessage("{}")
		if len(call.Args) > 0 {
			args = r.document(place{"toolCalls"}.index(i).key("args"), call.Args)
		}
		out.ToolCalls = append(out.ToolCalls, ScriptCall{Name: call.Name, Args: args})
	}
	reason := FinishStop
	if len(out.ToolCalls) > 0 {
		reason = FinishToolCalls
	}
	out.FinishReason = cmp.Or(out.FinishReason, reason)
	return out
}

// content is what stands in a file.
func (r *renderer) content(at place, f ScriptFile) []byte {
	if f.Base64 == "" {
		return []byte(r.text(at.key("text").String(), f.Text))
	}
	data, err := base64.StdEncoding.DecodeString(f.Base64)
	if err != nil && r.err == nil { // the checker refuses it: it was stored by another hand
		r.err = fault.Wrap(fault.ModelError, err, "%s: no base64", at.key("base64"))
	}
	return data
}

// text is a template's text, "" once anything failed.
func (r *renderer) text(where, text string) string {
	if r.err != nil || !isTemplate(text) {
		return text
	}
	if r.dot == nil {
		r.dot = r.data.dot()
	}
	if r.data.Prompt != nil && strings.Contains(text, promptKey) {
		r.dot[promptKey] = value(r.data.Prompt())
		r.data.Prompt = nil
	}
	out, err := render(text, r.dot)
	if err != nil {
		r.err = fault.Wrap(fault.ModelError, err, "%s: %s", where, templateFault(err))
		return ""
	}
	return out
}

// document is raw with the templates in its strings filled in.
func (r *renderer) document(at place, raw json.RawMessage) json.RawMessage {
	if !isTemplate(string(raw)) {
		return raw
	}
	out, err := rewrite(raw, at, func(at place, s string) json.RawMessage {
		text := r.text(at.String(), s)
		if r.err == nil && wholeJSONRE.MatchString(s) {
			return json.RawMessage(strings.TrimSpace(text))
		}
		return jsonString(text)
	})
	if err != nil && r.err == nil {
		r.err = fault.Wrap(fault.ModelError, err, "%s: no JSON", at)
	}
	return out
}
