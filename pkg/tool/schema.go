package tool

import (
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/invopop/jsonschema"

	"github.com/crumbmesh/crumbmesh/pkg/argument"
	"github.com/crumbmesh/crumbmesh/pkg/fault"
)

var notIdentRE = regexp.MustCompile(`[^A-Za-z0-9_]+`)

// infer makes the JSON Schema of the arguments from the type they are decoded
// into. It returns INVALID_CONFIG for a type without a JSON form and for a tag
// that would be ignored.
func infer(t reflect.Type) (raw json.RawMessage, err *fault.Error) {
	for t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	if k := t.Kind(); k != reflect.Struct && k != reflect.Map {
		return nil, fault.New(fault.InvalidConfig, "arguments of type %v: expected a struct or a map, since arguments are a JSON object", t)
	}
	if err := checkTags(t); err != nil {
		return nil, err
	}
	defer func() {
		// The reflector panics on a type that has no JSON form, a channel say.
		if r := recover(); r != nil {
			raw, err = nil, fault.New(fault.InvalidConfig, "arguments of type %v: %v", t, r)
		}
	}()
	s := reflector().ReflectFromType(t)
	s.Version = "" // every model call repeats the schema; 2020-12 is what argument reads anyway
	closeRecursion(s, "#/$defs/"+typeName(t))
	liftDefaults(s)
	if err := checkDefaults(s); err != nil {
		return nil, err
	}
	optionalDefaults(s)
	b, merr := json.Marshal(s)
	if merr != nil {
		return nil, fault.New(fault.InvalidConfig, "arguments of type %v: %v", t, merr)
	}
	return b, nil
}

// inferAnswer makes the JSON Schema of what a person answers; nil is any value. It
// returns INVALID_CONFIG for a type that infer refuses and is not a plain one.
func inferAnswer(t reflect.Type) (json.RawMessage, *fault.Error) {
	if t.Kind() == reflect.Interface {
		return nil, nil
	}
	switch kind := scalarType(t); {
	case kind != "":
		return json.RawMessage(`{"type":"` + kind + `"}`), nil
	case t.Kind() != reflect.Struct && t.Kind() != reflect.Map && t.Kind() != reflect.Pointer:
		return nil, fault.New(fault.InvalidConfig, "answers of type %v: expected a struct, a map, a string, a number, a boolean or any", t)
	}
	return infer(t)
}

// reflector names definitions such that two types of one name do not share one
// and that a generic type's brackets do not break the reference.
func reflector() *jsonschema.Reflector {
	names := map[string]reflect.Type{}
	return &jsonschema.Reflector{
		ExpandedStruct: true, Anonymous: true,
		Namer: func(t reflect.Type) string {
			base := typeName(t)
			if base == "" {
				return ""
			}
			for n := 1; ; n++ {
				name := base
				if n > 1 {
					name += "_" + strconv.Itoa(n)
				}
				if known, ok := names[name]; !ok || known == t {
					names[name] = t
					return name
				}
			}
		},
	}
}

func typeName(t reflect.Type) string {
	return strings.Trim(notIdentRE.ReplaceAllString(t.Name(), "_"), "_")
}

// schemas calls f for s and every schema below it.
func schemas(s *jsonschema.Schema, f func(*jsonschema.Schema)) {
	if s == nil {
		return
	}
	f(s)
	if s.Properties != nil {
		for p := s.Properties.Oldest(); p != nil; p = p.Next() {
			schemas(p.Value, f)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(s.Definitions)) {
		schemas(s.Definitions[name], f)
	}
	for _, name := range slices.Sorted(maps.Keys(s.PatternProperties)) {
		schemas(s.PatternProperties[name], f)
	}
	for _, d := range s.OneOf {
		schemas(d, f)
	}
	for _, d := range s.AnyOf {
		schemas(d, f)
	}
	schemas(s.Items, f)
	schemas(s.AdditionalProperties, f)
}

// closeRecursion points references to the root type at the root: with
// ExpandedStruct the reflector drops the definition they name.
func closeRecursion(root *jsonschema.Schema, ref string) {
	schemas(root, func(s *jsonschema.Schema) {
		if s.Ref == ref {
			s.Ref = "#"
		}
	})
}

// liftDefaults moves the default of a nullable field from the branch of its
// oneOf, where nobody looks for it, to the field.
func liftDefaults(root *jsonschema.Schema) {
	schemas(root, func(s *jsonschema.Schema) {
		if len(s.OneOf) == 2 && s.OneOf[1].Type == "null" && s.OneOf[0].Default != nil {
			s.Default, s.OneOf[0].Default = s.OneOf[0].Default, nil
		}
	})
}

// optionalDefaults takes fields with a default off `required`: a caller may
// leave them out, the default is filled in.
func optionalDefaults(root *jsonschema.Schema) {
	schemas(root, func(s *jsonschema.Schema) {
		if s.Properties == nil {
			return
		}
		var required []string
		for _, name := range s.Required {
			if p, ok := s.Properties.Get(name); !ok || p.Default == nil {
				required = append(required, name)
			}
		}
		s.Required = required
	})
}

// checkDefaults refuses a default that its own field would not accept.
func checkDefaults(root *jsonschema.Schema) *fault.Error {
	var first *fault.Error
	schemas(root, func(s *jsonschema.Schema) {
		if s.Properties == nil {
			return
		}
		for p := s.Properties.Oldest(); p != nil && first == nil; p = p.Next() {
			if err := checkDefault(p.Key, p.Value); err != nil {
				first = fault.New(fault.InvalidConfig, "field %s: its default does not fit: %s", p.Key, fault.From(err).Message)
			}
		}
	})
	return first
}

// checkDefault checks an object that has only the default against a schema that
// has only the field.
func checkDefault(name string, p *jsonschema.Schema) error {
	if p.Default == nil {
		return nil
	}
	schema, err := json.Marshal(map[string]any{"type": "object", "properties": map[string]any{name: p}})
	if err != nil {
		return err
	}
	compiled, err := argument.Compile(schema)
	if err != nil {
		return err
	}
	doc, err := json.Marshal(map[string]any{name: p.Default})
	if err != nil {
		return err
	}
	return compiled.Check(fault.InvalidConfig, doc)
}

func fieldFault(f reflect.StructField, format string, args ...any) *fault.Error {
	return fault.New(fault.InvalidConfig, "field %s: jsonschema tag: %s", f.Name, fmt.Sprintf(format, args...))
}
