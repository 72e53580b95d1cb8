package render

import (
	"encoding/json"
	"slices"
	"strings"
)

// choicesMax is the number of allowed values that a line lists.
const choicesMax = 20

// Answer says in a few words what a question's answerSchema takes, "any value"
// without one: the values of an enum, else the type and its bounds. Of a schema
// that says more it says what it can; the mesh checks the answer.
func Answer(schema json.RawMessage) string {
	var s answerSchema
	if len(schema) == 0 || json.Unmarshal(schema, &s) != nil {
		return anyValue
	}
	return s.words()
}

const anyValue = "any value"

// answerSchema is what of a JSON Schema fits a line.
type answerSchema struct {
	Const       json.RawMessage            `json:"const"`
	Enum        []json.RawMessage          `json:"enum"`
	Type        any                        `json:"type"`
	Required    []string                   `json:"required"`
	Properties  map[string]json.RawMessage `json:"properties"`
	Description string                     `json:"description"`
	Minimum     json.RawMessage            `json:"minimum"`
	Maximum     json.RawMessage            `json:"maximum"`
	MinLength   json.RawMessage            `json:"minLength"`
	MaxLength   json.RawMessage            `json:"maxLength"`
	Pattern     string                     `json:"pattern"`
	OneOf       json.RawMessage            `json:"oneOf"`
	AnyOf       json.RawMessage            `json:"anyOf"`
}

func (s answerSchema) words() string {
	switch {
	case len(s.Const) > 0:
		return Value(s.Const)
	case len(s.Enum) > 0:
		return choices(s.Enum)
	}
	return join(s.typed(), note(s.bounds()...), Clip(s.Description))
}

// choices are the values of an enum, each as it would be typed.
func choices(values []json.RawMessage) string {
	more := ""
	if len(values) > choicesMax {
		values, more = values[:choicesMax], ", …"
	}
	words := make([]string, len(values))
	for i, v := range values {
		words[i] = Value(v)
	}
	if more == "" && len(words) > 1 {
		last := len(words) - 1
		words = append(words[:last-1:last-1], words[last-1]+" or "+words[last])
	}
	return strings.Join(words, ", ") + more
}

// typed is the type as people say it.
func (s answerSchema) typed() string {
	switch t := s.Type.(type) {
	case string:
		return s.kind(t)
	case []any:
		var words []string
		for _, one := range t {
			if name, ok := one.(string); ok {
				words = append(words, s.kind(name))
			}
		}
		return strings.Join(words, " or ")
	}
	switch {
	case len(s.Properties) > 0:
		return s.kind("object")
	case len(s.OneOf) > 0:
		return "one of " + Value(s.OneOf)
	case len(s.AnyOf) > 0:
		return "any of " + Value(s.AnyOf)
	}
	return anyValue
}

func (s answerSchema) kind(name string) string {
	switch name {
	case "string":
		return "text"
	case "boolean":
		return "true or false"
	case "integer":
		return "a whole number"
	case "number":
		return "a number"
	case "array":
		return "a list"
	case "object":
		return s.object()
	}
	return OneLine(name)
}

// object names the properties, those that may be left out in brackets.
func (s answerSchema) object() string {
	if len(s.Properties) == 0 {
		return "an object"
	}
	var names []string
	for name := range s.Properties {
		if !slices.Contains(s.Required, name) {
			names = append(names, "["+OneLine(name)+"]")
		}
	}
	slices.Sort(names)
	required := slices.Clone(s.Required)
	for i := range required {
		required[i] = OneLine(required[i])
	}
	return Clip("an object of " + strings.Join(append(required, names...), ", "))
}

// bounds are the keywords that narrow the type.
func (s answerSchema) bounds() []string {
	var out []string
	for _, b := range []struct {
		word  string
		value json.RawMessage
	}{{"at least", s.Minimum}, {"at most", s.Maximum}, {"length at least", s.MinLength}, {"length at most", s.MaxLength}} {
		if len(b.value) > 0 {
			out = append(out, b.word+" "+Value(b.value))
		}
	}
	if s.Pattern != "" {
		out = append(out, "like "+Clip(s.Pattern))
	}
	return out
}
