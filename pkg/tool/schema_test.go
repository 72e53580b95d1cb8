package tool

import (
	"encoding/json"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/crumbmesh/crumbmesh/pkg/argument"
	"github.com/crumbmesh/crumbmesh/pkg/fault"
)

type node struct {
	Name string `json:"name"`
	Next *node  `json:"next,omitempty"`
}

type page[T any] struct {
	Items []T `json:"items"`
}

func TestInfer_Schema(t *testing.T) {
	t.Parallel()
	type embedded struct {
		Inner string `json:"inner"`
	}
	for name, tc := range map[string]struct {
		in   any
		want string
	}{
		"empty": {struct{}{}, `{"properties":{},"additionalProperties":false,"type":"object"}`},
		"default is optional": {struct {
			A int     `json:"a" jsonschema:"default=5,minimum=1"`
			B float64 `json:"b"`
		}{}, `{"properties":{"a":{"type":"integer","minimum":1,"default":5},"b":{"type":"number"}},"additionalProperties":false,"type":"object","required":["b"]}`},
		"nullable default": {struct {
			A string `json:"a" jsonschema:"nullable,default=x"`
		}{}, `{"properties":{"a":{"oneOf":[{"type":"string"},{"type":"null"}],"default":"x"}},"additionalProperties":false,"type":"object"}`},
		"lists": {struct {
			A []string `json:"a" jsonschema:"minItems=1,uniqueItems=true,enum=x,enum=y,default=x"`
		}{}, `{"properties":{"a":{"items":{"type":"string","enum":["x","y"]},"type":"array","minItems":1,"uniqueItems":true,"default":["x"]}},"additionalProperties":false,"type":"object"}`},
		"special types": {struct {
			T time.Time       `json:"t"`
			R json.RawMessage `json:"r" jsonschema:"description=anything"`
			S int             `json:"s,string" jsonschema:"pattern=^[0-9]+$"`
		}{}, `{"properties":{"t":{"type":"string","format":"date-time"},"r":{"description":"anything"},"s":{"type":"string","pattern":"^[0-9]+$"}},"additionalProperties":false,"type":"object","required":["t","r","s"]}`},
		"embedded": {struct {
			embedded
			X bool `json:"x" jsonschema:"default=true"`
		}{}, `{"properties":{"inner":{"type":"string"},"x":{"type":"boolean","default":true}},"additionalProperties":false,"type":"object","required":["inner"]}`},
		"recursion": {node{}, `{"properties":{"name":{"type":"string"},"next":{"$ref":"#"}},"additionalProperties":false,"type":"object","required":["name"]}`},
		"map":       {map[string]int{}, `{"additionalProperties":{"type":"integer"},"type":"object"}`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got, err := infer(reflect.TypeOf(tc.in))
			if err != nil {
				t.Fatal(err)
			}
			if !sameJSON(t, got, tc.want) {
				t.Errorf("got  %s\nwant %s", got, tc.want)
			}
			if _, err := argument.Compile(got); err != nil {
				t.Errorf("the schema does not compile: %v", err)
			}
		})
	}
}

// References are what a generic type, recursion and two types of one name share.
func TestInfer_F049_ReferencesResolve(t *testing.T) {
	t.Parallel()
	type item struct {
		N int `json:"n"`
	}
	other := func() reflect.Type {
		type item struct {
			S string `json:"s"`
		}
		return reflect.TypeFor[item]()
	}()
	in := reflect.StructOf([]reflect.StructField{
		{Name: "A", Type: reflect.TypeFor[page[node]](), Tag: `json:"a"`},
		{Name: "B", Type: reflect.TypeFor[item](), Tag: `json:"b"`},
		{Name: "C", Type: other, Tag: `json:"c"`},
	})
	raw, ferr := infer(in)
	if ferr != nil {
		t.Fatal(ferr)
	}
	s, err := argument.Compile(raw)
	if err != nil {
		t.Fatalf("%v in %s", err, raw)
	}
	good := `{"a":{"items":[{"name":"x","next":{"name":"y"}}]},"b":{"n":1},"c":{"s":"t"}}`
	if err := s.Check(fault.InvalidArguments, json.RawMessage(good)); err != nil {
		t.Error(err)
	}
	for _, bad := range []string{
		`{"a":{"items":[{"name":"x","next":{"name":1}}]},"b":{"n":1},"c":{"s":"t"}}`,
		`{"a":{"items":[]},"b":{"s":"t"},"c":{"s":"t"}}`,
		`{"a":{"items":[]},"b":{"n":1},"c":{"n":1}}`,
	} {
		if err := s.Check(fault.InvalidArguments, json.RawMessage(bad)); err == nil {
			t.Errorf("%s was accepted", bad)
		}
	}
}

func TestInfer_RefusesTagsWithoutEffect(t *testing.T) {
	t.Parallel()
	type named []string
	for name, tc := range map[string]struct {
		in  any
		say string
	}{
		"misspelt": {struct {
			A int `jsonschema:"minimun=1"`
		}{}, "minimun"},
		"other type's word": {struct {
			A int `jsonschema:"minLength=1"`
		}{}, "minLength"},
		"bare value word": {struct {
			A int `jsonschema:"minimum"`
		}{}, "needs a value"},
		"value for a bare word": {struct {
			A int `jsonschema:"required=true"`
		}{}, "takes no value"},
		"no number": {struct {
			A int `jsonschema:"maximum=ten"`
		}{}, "expected a number"},
		"default": {struct {
			A int `jsonschema:"default=five"`
		}{}, "default=five"},
		"fraction": {struct {
			A int `jsonschema:"default=1.5"`
		}{}, "integer"},
		"default outside": {struct {
			A int `json:"a" jsonschema:"maximum=10,default=50"`
		}{}, "field a"},
		"default no enum": {struct {
			A string `json:"a" jsonschema:"enum=x,enum=y,default=z"`
		}{}, "field a"},
		"default of a list": {struct {
			A []int `json:"a" jsonschema:"default=1"`
		}{}, "field a"},
		"boolean": {struct {
			A bool `jsonschema:"default=yes"`
		}{}, "true or false"},
		"pattern": {struct {
			A string `jsonschema:"pattern=(["`
		}{}, "regular expression"},
		"unique": {struct {
			A []string `jsonschema:"uniqueItems=false"`
		}{}, "expected true"},
		"cut value": {struct {
			A []string `jsonschema:"pattern=a=b"`
		}{}, "no value with ="},
		"named list": {struct {
			A named `jsonschema:"minItems=1"`
		}{}, "minItems"},
		"struct": {struct {
			A node `jsonschema:"default={}"`
		}{}, "default"},
		"nested": {struct {
			A map[string][]struct {
				B int `jsonschema:"oops=1"`
			}
		}{}, "oops"},
		"embedded": {struct {
			node `jsonschema:"description=x"`
		}{}, "embedded"},
		"channel": {struct{ A chan int }{}, "chan int"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			raw, err := infer(reflect.TypeOf(tc.in))
			if err == nil {
				t.Fatalf("accepted: %s", raw)
			}
			if err.Code != fault.InvalidConfig || !strings.Contains(err.Message, tc.say) {
				t.Errorf("got %v, want it to say %q", err, tc.say)
			}
		})
	}
}

func sameJSON(t *testing.T, got json.RawMessage, want string) bool {
	t.Helper()
	var a, b any
	if err := json.Unmarshal(got, &a); err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal([]byte(want), &b); err != nil {
		t.Fatal(err)
	}
	return reflect.DeepEqual(a, b)
}
