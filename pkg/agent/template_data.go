package agent

import (
	"bytes"
	"encoding/json"
	"strconv"
	"strings"

	"github.com/crumbmesh/crumbmesh/pkg/crumbs"
)

// TemplateData is what the templates of a turn see.
type TemplateData struct {
	Input    json.RawMessage  // absent: the last message of the user
	Messages []crumbs.Message // the transcript so far, oldest first

	Settings        json.RawMessage // of the model, an object or null
	ProviderOptions json.RawMessage // as the provider got them, an object or null

	// Prompt is what a model would be shown of them, as JSON: asked for once, and
	// only by a turn that uses it.
	Prompt func() json.RawMessage
}

// allResults is the key of .results under which every result stands in order. A
// tool's name always has a scope in front, so it is no tool's.
const allResults = "all"

// promptKey is what templates call the prompt.
const promptKey = "prompt"

// dot is the data as templates see it, but for the prompt.
func (d TemplateData) dot() map[string]any {
	input := d.Input
	results := map[string]any{}
	all := []any{}
	messages := []any{}
	for _, m := range d.Messages {
		text := textOf(m)
		messages = append(messages, map[string]any{"role": string(m.Role), "text": text, "parts": partsOf(m)})
		if m.Role == crumbs.RoleUser && len(d.Input) == 0 {
			input = json.RawMessage(text)
		}
		for _, p := range m.Parts {
			if p.Type == crumbs.PartToolResult {
				output := value(p.Output)
				results[p.ToolName] = output
				all = append(all, map[string]any{"name": p.ToolName, "outcome": string(p.Outcome), "output": output})
			}
		}
	}
	results[allResults] = all
	return map[string]any{"input": value(input), "results": results, "messages": messages,
		"settings": optionsOf(d.Settings), "providerOptions": optionsOf(d.ProviderOptions)}
}

// optionsOf is an object as templates see it: a key of one that was not said is missing
// like any other key.
func optionsOf(raw json.RawMessage) any {
	if o, ok := value(raw).(map[string]any); ok {
		return o
	}
	return map[string]any{}
}

func textOf(m crumbs.Message) string {
	var b strings.Builder
	for _, p := range m.Parts {
		if p.Type == crumbs.PartText {
			b.WriteString(p.Text)
		}
	}
	return b.String()
}

func partsOf(m crumbs.Message) []any {
	parts := make([]any, 0, len(m.Parts))
	for _, p := range m.Parts {
		raw, err := json.Marshal(p)
		if err == nil {
			parts = append(parts, value(raw))
		}
	}
	return parts
}

// value decodes a JSON document for templates; what is no JSON is a text.
func value(raw json.RawMessage) any {
	var v any
	dec := json.NewDecoder(bytes.NewReader(raw))
	dec.UseNumber()
	if dec.Decode(&v) != nil || dec.More() {
		return string(raw)
	}
	return numbers(v)
}

// numbers makes numbers comparable in templates: int64 where exact, else
// float64, else (beyond both) their text.
func numbers(v any) any {
	switch v := v.(type) {
	case map[string]any:
		for k, item := range v {
			v[k] = numbers(item)
		}
	case []any:
		for i, item := range v {
			v[i] = numbers(item)
		}
	case json.Number:
		if i, err := v.Int64(); err == nil {
			return i
		}
		if !strings.ContainsAny(v.String(), ".eE") {
			return v
		}
		if f, err := strconv.ParseFloat(v.String(), 64); err == nil {
			return f
		}
	}
	return v
}
