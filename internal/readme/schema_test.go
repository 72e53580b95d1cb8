package readme_test

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"
)

// opaque are definitions whose inside is no field of ours, or has a section of its own.
var opaque = []string{"JSONSchema", "HookChain"}

// schema is what of a JSON Schema says which fields there are.
type schema struct {
	Ref        string             `json:"$ref"`
	Properties map[string]schema  `json:"properties"`
	Items      *schema            `json:"items"`
	OneOf      []schema           `json:"oneOf"`
	Additional json.RawMessage    `json:"additionalProperties"`
	Defs       map[string]*schema `json:"$defs"`
}

// fieldsOf are the fields a schema describes, each once: a.b, list[].c, map.<name>.d.
func fieldsOf(t *testing.T, name string) []string {
	t.Helper()
	r := schemaReader{t: t, files: map[string]schema{}}
	fields := r.fields(name, r.file(name), "")
	slices.Sort(fields)
	return slices.Compact(fields)
}

type schemaReader struct {
	t     *testing.T
	files map[string]schema
}

func (r schemaReader) file(name string) schema {
	if s, ok := r.files[name]; ok {
		return s
	}
	var s schema
	if err := json.Unmarshal([]byte(document(r.t, "schemas/"+name)), &s); err != nil {
		r.t.Fatalf("%s: %v", name, err)
	}
	r.files[name] = s
	return s
}

func (r schemaReader) fields(file string, s schema, at string) []string {
	var out []string
	if s.Ref != "" {
		name, def, _ := strings.Cut(s.Ref, "#/$defs/")
		if name == "" {
			name = file
		}
		target := r.file(name).Defs[def]
		if target == nil {
			r.t.Fatalf("%s: no definition %s", file, s.Ref)
		}
		if !slices.Contains(opaque, def) {
			out = append(out, r.fields(name, *target, at)...)
		}
	}
	for key, p := range s.Properties {
		field := strings.TrimPrefix(at+"."+key, ".")
		out = append(append(out, field), r.fields(file, p, field)...)
	}
	for _, one := range s.OneOf {
		out = append(out, r.fields(file, one, at)...)
	}
	if s.Items != nil {
		out = append(out, r.fields(file, *s.Items, at+"[]")...)
	}
	var each schema
	if json.Unmarshal(s.Additional, &each) == nil && (each.Properties != nil || each.Ref != "") {
		out = append(append(out, at+".<name>"), r.fields(file, each, at+".<name>")...)
	}
	return out
}
