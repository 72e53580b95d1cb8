// Package schematest holds writers to the schemas: it closes them, so that a
// field which no schema has fails a test. Readers use package schemas, which
// ignores such fields.
package schematest

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"

	"github.com/crumbmesh/crumbmesh/schemas"
)

// Check fails t unless body fits the closed schema of the type it states.
func Check(t testing.TB, body []byte) {
	t.Helper()
	var head struct {
		Type string `json:"type"`
	}
	if err := json.Unmarshal(body, &head); err != nil {
		t.Fatalf("body %.200q: %v", body, err)
	}
	CheckName(t, schemas.NameOf(head.Type), body)
}

// CheckName fails t unless doc fits the closed schema name.
func CheckName(t testing.TB, name string, doc []byte) {
	t.Helper()
	if err := Validate(name, doc); err != nil {
		t.Errorf("%s: %v\n%s", name, err, doc)
	}
}

// Validate returns why doc does not fit the closed schema name, or nil.
func Validate(name string, doc []byte) error {
	schema, err := Closed(name)
	if err != nil {
		return err
	}
	value, err := jsonschema.UnmarshalJSON(bytes.NewReader(doc))
	if err != nil {
		return err
	}
	return schema.Validate(value)
}

// Closed returns the schema name with every object that lists its properties
// closed to others.
func Closed(name string) (*jsonschema.Schema, error) {
	all, err := closed()
	if err != nil {
		return nil, err
	}
	if s := all[name]; s != nil {
		return s, nil
	}
	return nil, fmt.Errorf("no schema %q", name)
}

var closed = sync.OnceValues(func() (map[string]*jsonschema.Schema, error) {
	c, err := schemas.NewCompiler(readClosed)
	if err != nil {
		return nil, err
	}
	all := map[string]*jsonschema.Schema{}
	for _, name := range schemas.Names() {
		if all[name], err = c.Compile(schemas.BaseURL + name + ".v1.json"); err != nil {
			return nil, err
		}
	}
	return all, nil
})

func readClosed(name string) ([]byte, error) {
	text, err := schemas.Read(name)
	if err != nil {
		return nil, err
	}
	var doc map[string]any
	if err := json.Unmarshal(text, &doc); err != nil {
		return nil, err
	}
	closeSchema(doc)
	return json.Marshal(doc)
}

// closeSchema closes s, the schemas of its properties and its alternatives
// (oneOf). What s is composed of (allOf, if, then, else) stays open, since it
// sees only a part of the object.
func closeSchema(s map[string]any) {
	if s["properties"] != nil && s["additionalProperties"] == nil {
		s["unevaluatedProperties"] = false
	}
	closeParts(s)
}

func closeParts(s map[string]any) {
	for _, keyword := range []string{"properties", "$defs"} {
		for name, sub := range object(s[keyword]) {
			if keyword == "$defs" && isPartial(name) {
				closeParts(object(sub))
			} else if sub, ok := sub.(map[string]any); ok {
				closeSchema(sub)
			}
		}
	}
	for _, keyword := range []string{"items", "additionalProperties"} {
		if sub := object(s[keyword]); sub != nil {
			closeSchema(sub)
		}
	}
	alternatives, _ := s["oneOf"].([]any)
	for _, sub := range alternatives {
		closeSchema(object(sub))
	}
}

// isPartial reports whether a definition is only ever a part of others.
func isPartial(def string) bool { return strings.HasSuffix(def, "Base") || def == "fields" }

func object(v any) map[string]any {
	m, _ := v.(map[string]any)
	return m
}
