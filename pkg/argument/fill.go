package argument

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"slices"

	"github.com/santhosh-tekuri/jsonschema/v6"

	"github.com/crumbmesh/crumbmesh/pkg/fault"
)

// fillsMax bounds the values that defaults add to one document.
const fillsMax = 10_000

// nodeBytes is what one value costs of BytesMax besides its text.
const nodeBytes = 4

// Fill returns doc with the schema's `default`s in place of absent properties:
// of the top object, of nested objects and of objects in arrays, through local
// `$ref` and `allOf`. A default that is an object is filled in turn. Defaults in
// anyOf, oneOf, if, not and dependentSchemas are not used, since which of them
// holds is known only after filling. Nothing that is there is changed, null
// included: numbers keep their text, and a document that lacks nothing comes
// back byte for byte. Fill is idempotent.
//
// It returns INVALID_ARGUMENTS when doc is not one JSON value, and when the
// filled document would pass DepthMax or BytesMax.
func (s *Schema) Fill(doc json.RawMessage) (json.RawMessage, error) {
	v, p := document(doc, false)
	if p != nil {
		return nil, malformed(p)
	}
	f := filler{left: BytesMax - len(doc)}
	if p := f.value([]*jsonschema.Schema{s.root}, v, nil); p != nil {
		return nil, fault.New(fault.InvalidArguments, "the schema's defaults cannot be filled in: %s", p.text).With("path", p.path)
	}
	if f.fills == 0 {
		return doc, nil
	}
	out := encode(v)
	if len(out) > BytesMax {
		return nil, fault.New(fault.InvalidArguments, "with the schema's defaults the document has %d bytes, expected at most %d", len(out), BytesMax)
	}
	return out, nil
}

// filler fills one document in place.
type filler struct {
	left  int // bytes that defaults may still add, roughly: escapes are not counted
	fills int // values added
}

// value fills v, an instance of all the schemas. Properties come first, for
// the whole set, so that what one schema adds another may fill.
func (f *filler) value(schemas []*jsonschema.Schema, v any, path []step) *problem {
	all := inPlace(schemas)
	switch v := v.(type) {
	case map[string]any:
		if p := f.add(all, v, path); p != nil {
			return p
		}
		for _, key := range slices.Sorted(maps.Keys(v)) {
			below := append(path[:len(path):len(path)], step{key: key})
			if p := f.value(ofKey(all, key), v[key], below); p != nil {
				return p
			}
		}
	case []any:
		for i := range v {
			below := append(path[:len(path):len(path)], step{index: i, item: true})
			if p := f.value(ofItem(all, i), v[i], below); p != nil {
				return p
			}
		}
	}
	return nil
}

// add sets the absent properties of obj that have a default.
func (f *filler) add(all []*jsonschema.Schema, obj map[string]any, path []step) *problem {
	for _, s := range all {
		for _, key := range slices.Sorted(maps.Keys(s.Properties)) {
			if _, there := obj[key]; there {
				continue
			}
			def, ok := defaultOf(s.Properties[key])
			if !ok {
				continue
			}
			f.left -= len(key) + nodeBytes
			below := append(path[:len(path):len(path)], step{key: key})
			v, p := f.copy(def, below)
			if p != nil {
				return p
			}
			obj[key] = v
		}
	}
	return nil
}

// copy returns a value of its own, so that filling never writes to the schema.
func (f *filler) copy(v any, path []step) (any, *problem) {
	f.left -= nodeBytes
	f.fills++
	if n, ok := v.(json.Number); ok {
		f.left -= len(n)
	}
	if s, ok := v.(string); ok {
		f.left -= len(s)
	}
	_, obj := v.(map[string]any)
	_, list := v.([]any)
	switch at := render(path); {
	case f.left < 0:
		return nil, &problem{path: at, text: fmt.Sprintf("%s would make the document larger than %d bytes", at, BytesMax)}
	case f.fills > fillsMax:
		return nil, &problem{path: at, text: fmt.Sprintf("%s would be more than the %d values that defaults may add", at, fillsMax)}
	case len(path) >= DepthMax && (obj || list):
		return nil, &problem{path: at, text: fmt.Sprintf("%s would be nested deeper than %d levels", at, DepthMax)}
	}
	switch v := v.(type) {
	case map[string]any:
		out := make(map[string]any, len(v))
		for _, key := range slices.Sorted(maps.Keys(v)) {
			c, p := f.copy(v[key], append(path[:len(path):len(path)], step{key: key}))
			if p != nil {
				return nil, p
			}
			out[key] = c
		}
		return out, nil
	case []any:
		out := make([]any, len(v))
		for i := range v {
			c, p := f.copy(v[i], append(path[:len(path):len(path)], step{index: i, item: true}))
			if p != nil {
				return nil, p
			}
			out[i] = c
		}
		return out, nil
	default:
		return v, nil
	}
}

// encode writes v with sorted keys and number texts as they came.
func encode(v any) json.RawMessage {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(v); err != nil {
		panic("argument: a document that was read does not encode: " + err.Error())
	}
	return bytes.TrimSuffix(b.Bytes(), []byte("\n"))
}
