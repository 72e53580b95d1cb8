package argument

import (
	"bytes"
	"encoding/json"

	"github.com/crumbmesh/crumbmesh/pkg/fault"
)

// Normalize makes an object of what a model sent as arguments. Nothing, null
// and an empty string are {}; a JSON string that holds an object is that
// object; an object is itself, byte for byte. Everything else, and text that
// does not parse, is INVALID_ARGUMENTS that calls it invalid JSON: it must not
// be taken for an empty object, whose defaults may do harm.
func Normalize(raw json.RawMessage) (json.RawMessage, error) {
	text := bytes.TrimSpace(raw)
	if len(text) == 0 {
		return json.RawMessage(`{}`), nil
	}
	v, p := document(text, false)
	if p != nil {
		return nil, malformed(p)
	}
	if inner, ok := v.(string); ok {
		text = bytes.TrimSpace([]byte(inner))
		if len(text) == 0 {
			return json.RawMessage(`{}`), nil
		}
		if v, p = document(text, false); p != nil {
			return nil, malformed(p)
		}
		if v == nil {
			return nil, notObject(`a string that holds null`)
		}
	}
	switch v := v.(type) {
	case nil:
		return json.RawMessage(`{}`), nil
	case map[string]any:
		return bytes.Clone(text), nil
	default:
		return nil, notObject(article(typeName(v)))
	}
}

func malformed(p *problem) error {
	return fault.New(fault.InvalidArguments, "the arguments are refused: %s; send one JSON object", p.text).With("path", p.path)
}

func notObject(got string) error {
	return fault.New(fault.InvalidArguments, "invalid JSON arguments: expected one JSON object, got %s", got)
}
