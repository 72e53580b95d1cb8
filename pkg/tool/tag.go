package tool

import (
	"encoding/json"
	"math"
	"net"
	"net/url"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/crumbmesh/crumbmesh/pkg/fault"
)

// The reflector reads a `jsonschema` tag leniently: a misspelt word, a word
// that its type does not know, a number that does not parse all vanish. An
// argument would then be checked less than its author believes, so they are
// refused here.

// maxDepth bounds the walk through nested types.
const maxDepth = 32

// wordKind is what a tag word takes.
type wordKind int

const (
	bare       wordKind = iota // no value
	text                       // any value
	numeric                    // a number
	count                      // a non-negative integer
	boolean                    // true or false
	yes                        // true only: the reflector reads every value as true
	expression                 // a regular expression
	value                      // a value of the field's own type
)

// words returns what a field of a JSON type may say.
func words(jsonType string) map[string]wordKind {
	w := map[string]wordKind{"required": bare, "nullable": bare, "title": text, "description": text, "type": text, "anchor": text,
		"oneof_required": text, "anyof_required": text, "oneof_ref": text, "oneof_type": text, "anyof_ref": text, "anyof_type": text}
	add := func(kind wordKind, names ...string) {
		for _, n := range names {
			w[n] = kind
		}
	}
	switch jsonType {
	case "string":
		add(count, "minLength", "maxLength")
		add(expression, "pattern")
		add(text, "format")
		add(boolean, "readOnly", "writeOnly")
		add(value, "default", "example", "enum")
	case "number", "integer":
		add(numeric, "multipleOf", "minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum")
		add(value, "default", "example", "enum")
	case "boolean":
		add(boolean, "default")
	case "array":
		add(count, "minItems", "maxItems")
		add(yes, "uniqueItems")
	}
	return w
}

// checkTags walks the fields of t as the reflector does.
func checkTags(t reflect.Type) *fault.Error {
	return tagWalk{seen: map[reflect.Type]bool{}}.check(t, 0)
}

type tagWalk struct{ seen map[reflect.Type]bool }

func (w tagWalk) check(t reflect.Type, depth int) *fault.Error {
	for t.Kind() == reflect.Pointer || t.Kind() == reflect.Slice || t.Kind() == reflect.Array || t.Kind() == reflect.Map {
		t = t.Elem()
	}
	if t.Kind() != reflect.Struct || w.seen[t] || custom(t) || scalarStruct(t) {
		return nil
	}
	if depth > maxDepth {
		return fault.New(fault.InvalidConfig, "arguments are nested deeper than %d", maxDepth)
	}
	w.seen[t] = true
	for i := range t.NumField() {
		f := t.Field(i)
		if !f.IsExported() && !f.Anonymous {
			continue
		}
		if err := checkField(f); err != nil {
			return err
		}
		if err := w.check(f.Type, depth+1); err != nil {
			return err
		}
	}
	return nil
}

func checkField(f reflect.StructField) *fault.Error {
	tag := f.Tag.Get("jsonschema")
	if tag == "" || tag == "-" || f.Tag.Get("json") == "-" {
		return nil
	}
	if jsonName, _, _ := strings.Cut(f.Tag.Get("json"), ","); f.Anonymous && jsonName == "" {
		return fieldFault(f, "an embedded struct takes no words; tag its fields")
	}
	jsonType, items := jsonTypeOf(f)
	list := splitTag(tag)
	for _, word := range list {
		if name, val, _ := strings.Cut(word, "="); name == "type" {
			jsonType = val
		}
	}
	for _, word := range list {
		name, val, hasValue := strings.Cut(word, "=")
		kind, known := words(jsonType)[name]
		elem := jsonType
		if !known && jsonType == "array" {
			elem = items
			kind, known = words(items)[name]
		}
		if strings.Contains(val, "=") && jsonType == "array" {
			return fieldFault(f, "%s: a list's words take no value with =; give the element a type of its own", name)
		}
		if !known {
			return fieldFault(f, "%q is no word that %s knows; it knows %s", name, describe(jsonType, items), wordList(jsonType, items))
		}
		if err := checkWord(f, elem, name, kind, val, hasValue); err != nil {
			return err
		}
	}
	return nil
}

func checkWord(f reflect.StructField, jsonType, name string, kind wordKind, val string, hasValue bool) *fault.Error {
	if hasValue == (kind == bare) {
		if kind == bare {
			return fieldFault(f, "%s takes no value, got %q", name, val)
		}
		return fieldFault(f, "%s needs a value: write %s=…", name, name)
	}
	ok := true
	want := ""
	switch kind {
	case numeric:
		ok, want = isNumber(val), "a number"
	case count:
		_, err := strconv.ParseUint(val, 10, 32)
		ok, want = err == nil, "a non-negative integer"
	case boolean:
		ok, want = val == "true" || val == "false", "true or false"
	case yes:
		ok, want = val == "true", "true"
	case expression:
		_, err := regexp.Compile(val)
		ok, want = err == nil, "a regular expression"
	case value:
		ok, want = isValue(jsonType, val), "a value of type "+jsonType
	}
	if !ok {
		return fieldFault(f, "%s=%s: expected %s", name, val, want)
	}
	return nil
}

func isNumber(s string) bool {
	x, err := json.Number(s).Float64()
	return err == nil && !math.IsInf(x, 0) && json.Valid([]byte(s))
}

func isValue(jsonType, s string) bool {
	switch jsonType {
	case "integer":
		_, err := strconv.ParseInt(s, 10, 64)
		return err == nil
	case "number":
		return isNumber(s)
	}
	return true
}

// jsonTypeOf is the JSON type whose words the reflector reads for a field: ""
// when it reads only the general ones (a struct, a map, a named slice, any).
func jsonTypeOf(f reflect.StructField) (jsonType, items string) {
	t := f.Type
	for t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	jsonType = scalarType(t)
	if slices.Contains(strings.Split(f.Tag.Get("json"), ",")[1:], "string") && jsonType != "" {
		return "string", ""
	}
	isList := (t.Kind() == reflect.Slice || t.Kind() == reflect.Array) && t.Name() == ""
	if jsonType == "" && isList && !custom(t) {
		elem := t.Elem()
		for elem.Kind() == reflect.Pointer {
			elem = elem.Elem()
		}
		return "array", scalarType(elem)
	}
	return jsonType, ""
}

func scalarType(t reflect.Type) string {
	if custom(t) {
		return ""
	}
	if scalarStruct(t) || t == reflect.TypeFor[net.IP]() || t == reflect.TypeFor[[]byte]() {
		return "string"
	}
	switch t.Kind() {
	case reflect.String:
		return "string"
	case reflect.Bool:
		return "boolean"
	case reflect.Float32, reflect.Float64:
		return "number"
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64,
		reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64:
		return "integer"
	}
	return ""
}

func scalarStruct(t reflect.Type) bool {
	return t == reflect.TypeFor[time.Time]() || t == reflect.TypeFor[url.URL]()
}

// custom reports whether a type makes its own schema.
func custom(t reflect.Type) bool {
	_, has := t.MethodByName("JSONSchema")
	if !has {
		_, has = reflect.PointerTo(t).MethodByName("JSONSchema")
	}
	return has
}

func describe(jsonType, items string) string {
	switch {
	case jsonType == "array" && items != "":
		return "a list of " + items + "s"
	case jsonType == "array":
		return "a list"
	case jsonType == "":
		return "a field of this type"
	}
	return "a field of type " + jsonType
}

func wordList(jsonType, items string) string {
	all := words(jsonType)
	if jsonType == "array" {
		for name, kind := range words(items) {
			all[name] = kind
		}
	}
	names := make([]string, 0, len(all))
	for name := range all {
		names = append(names, name)
	}
	slices.Sort(names)
	return strings.Join(names, ", ")
}

// splitTag splits at commas that no backslash escapes, as the reflector does.
func splitTag(tag string) []string {
	var out []string
	var word strings.Builder
	for i := 0; i < len(tag); i++ {
		switch {
		case tag[i] == '\\' && i+1 < len(tag) && tag[i+1] == ',':
			word.WriteByte(',')
			i++
		case tag[i] == ',':
			out = append(out, word.String())
			word.Reset()
		default:
			word.WriteByte(tag[i])
		}
	}
	return append(out, word.String())
}
