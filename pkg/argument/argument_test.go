package argument_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/crumbmesh/crumbmesh/pkg/argument"
	"github.com/crumbmesh/crumbmesh/pkg/fault"
)

func compile(t testing.TB, schema string) *argument.Schema {
	t.Helper()
	s, err := argument.Compile(json.RawMessage(schema))
	if err != nil {
		t.Fatalf("Compile(%s): %v", schema, err)
	}
	return s
}

// refusal returns the message of err, which must be a fault of that code.
func refusal(t testing.TB, err error, code fault.Code) string {
	t.Helper()
	var f *fault.Error
	if !errors.As(err, &f) || f.Code != code {
		t.Fatalf("got error %v, want a fault %s", err, code)
	}
	return f.Message
}

func contains(t testing.TB, got string, parts ...string) {
	t.Helper()
	for _, p := range parts {
		if !strings.Contains(got, p) {
			t.Errorf("%q does not contain %q", got, p)
		}
	}
}

func TestCompile_F049_localReferenceIsOffered(t *testing.T) {
	t.Parallel()
	for name, schema := range map[string]string{
		"plain":   `{"type":"object","properties":{"q":{"type":"string"}},"required":["q"]}`,
		"$ref":    `{"type":"object","properties":{"q":{"$ref":"#/$defs/q"}},"required":["q"],"$defs":{"q":{"type":"string"}}}`,
		"$anchor": `{"type":"object","properties":{"q":{"$ref":"#q"}},"required":["q"],"$defs":{"a":{"$anchor":"q","type":"string"}}}`,
		"$id":     `{"$id":"https://example.org/tool","type":"object","properties":{"q":{"$ref":"q"}},"required":["q"],"$defs":{"a":{"$id":"q","type":"string"}}}`,
		"draft 7": `{"$schema":"http://json-schema.org/draft-07/schema#","type":"object","properties":{"q":{"$ref":"#/definitions/q"}},"required":["q"],"definitions":{"q":{"type":"string"}}}`,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := compile(t, schema)
			if err := s.Check(fault.InvalidArguments, json.RawMessage(`{"q":"x"}`)); err != nil {
				t.Errorf("fitting arguments: %v", err)
			}
			contains(t, refusal(t, s.Check(fault.InvalidArguments, json.RawMessage(`{"q":1}`)), fault.InvalidArguments), "q must be a string, got a number")
			if string(s.Raw()) != schema {
				t.Errorf("Raw() = %s", s.Raw())
			}
		})
	}
}

func TestCompile_F049_unusableIsRefusedWithPlaceAndReason(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		schema string
		want   []string
	}{
		"type 5":            {`{"properties":{"q":{"type":5}}}`, []string{"properties.q.type must be"}},
		"unknown type":      {`{"type":"strnig"}`, []string{`type must be one of "array"`, `got "strnig"`}},
		"no JSON":           {`{"type":`, []string{"invalid JSON", "ends before"}},
		"no schema":         {`[1]`, []string{"must be a boolean or an object, got an array"}},
		"remote reference":  {`{"$ref":"https://example.org/x.json"}`, []string{"refers to https://example.org/x.json", "inside the schema"}},
		"file reference":    {`{"$ref":"file:///etc/passwd"}`, []string{"refers to file:///etc/passwd"}},
		"relative file":     {`{"$ref":"other.json"}`, []string{"other.json", "inside the schema"}},
		"missing reference": {`{"$ref":"#/$defs/none"}`, []string{"/$defs/none"}},
		"unknown dialect":   {`{"$schema":"https://example.org/dialect"}`, []string{"refers to https://example.org/dialect"}},
		"lookahead":         {`{"properties":{"q":{"pattern":"(?!x)"}}}`, []string{"properties.q.pattern", "RE2"}},
		"duplicate key":     {`{"type":"object","type":"string"}`, []string{"type is given twice"}},
		"misfit default":    {`{"properties":{"n":{"type":"integer","default":"ten"}}}`, []string{"the default at #/properties/n", "must be an integer, got a string"}},
		"endless default":   {`{"properties":{"child":{"$ref":"#","default":{}}}}`, []string{"the default at #/properties/child never ends"}},
		"bushy default":     {`{"properties":{"l":{"$ref":"#","default":{}},"r":{"$ref":"#","default":{}}}}`, []string{"never ends"}},
		"too large":         {`{"description":"` + strings.Repeat("x", argument.SchemaBytesMax) + `"}`, []string{"too large", "at most 262144"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, err := argument.Compile(json.RawMessage(tc.schema))
			msg := refusal(t, err, fault.InvalidConfig)
			contains(t, msg, tc.want...)
			if strings.Contains(msg, "crumbmesh:") {
				t.Errorf("the message tells a private address: %s", msg)
			}
		})
	}
}

func TestCompile_absentAcceptsAnyObject(t *testing.T) {
	t.Parallel()
	for _, raw := range []string{"", " ", "null"} {
		s := compile(t, raw)
		if got := string(s.Raw()); got != `{"type":"object"}` {
			t.Errorf("Raw() of %q = %s", raw, got)
		}
		if err := s.Check(fault.InvalidArguments, json.RawMessage(`{"any":[1]}`)); err != nil {
			t.Error(err)
		}
		contains(t, refusal(t, s.Check(fault.InvalidArguments, json.RawMessage(`[]`)), fault.InvalidArguments), "the arguments must be an object, got an array")
	}
}

func TestNormalize_F050_nothingIsAnEmptyObject(t *testing.T) {
	t.Parallel()
	free := compile(t, "")
	strict := compile(t, `{"type":"object","required":["path"],"properties":{"path":{"type":"string"}}}`)
	for _, raw := range []json.RawMessage{nil, {}, json.RawMessage(" \n"), json.RawMessage("null"), json.RawMessage(`""`), json.RawMessage(`"  "`)} {
		args, err := argument.Normalize(raw)
		if err != nil || string(args) != "{}" {
			t.Fatalf("Normalize(%q) = %s, %v; want {}", raw, args, err)
		}
		if err := free.Check(fault.InvalidArguments, args); err != nil {
			t.Error(err)
		}
		contains(t, refusal(t, strict.Check(fault.InvalidArguments, args), fault.InvalidArguments), "missing field path")
	}
}

func TestNormalize_F050_objectInAString(t *testing.T) {
	t.Parallel()
	for raw, want := range map[string]string{
		`"{\"a\":1.50}"`:          `{"a":1.50}`,
		` {"b":2, "a":"\u00e9"} `: `{"b":2, "a":"\u00e9"}`,
	} {
		got, err := argument.Normalize(json.RawMessage(raw))
		if err != nil || string(got) != want {
			t.Errorf("Normalize(%s) = %s, %v; want %s", raw, got, err, want)
		}
	}
}

func TestNormalize_F051_unparseableIsNotAnEmptyObject(t *testing.T) {
	t.Parallel()
	for raw, want := range map[string]string{
		`{"path":"/a","recursive":tr`: "invalid JSON: it ends before its value does",
		`{"{"a":1}`:                   "invalid JSON: unexpected 'a' at byte 5",
		`{"a":1}}`:                    "invalid JSON: unexpected '}' at byte 8",
		`{"a":tru}`:                   "invalid JSON: unexpected '}' at byte 9",
		`{"a":1,}`:                    "invalid JSON: unexpected '}' at byte 8",
		`{"a":é}`:                     "invalid JSON: unexpected 'é' at byte 6",
		`{`:                           "invalid JSON: it ends before",
		`"{\"a\":"`:                   "invalid JSON: it ends before",
		`"null"`:                      "invalid JSON arguments: expected one JSON object, got a string that holds null",
		`"\"{}\""`:                    "invalid JSON arguments: expected one JSON object, got a string",
		`"[]"`:                        "invalid JSON arguments: expected one JSON object, got an array",
		`[]`:                          "invalid JSON arguments: expected one JSON object, got an array",
		`7`:                           "invalid JSON arguments: expected one JSON object, got a number",
		`true`:                        "invalid JSON arguments: expected one JSON object, got a boolean",
		`{"a":1,"a":2}`:               "a is given twice",
		`{"a":{"b":1,"\u0062":2}}`:    "a.b is given twice",
		`{"a":"\ud800"}`:              "a holds half of a surrogate pair",
		`{"a":"\ud800\u0041"}`:        "a holds half of a surrogate pair",
		`{"a":"\udc00"}`:              "a holds half of a surrogate pair",
		`{"a":1e999999999}`:           "a is outside what a number can hold",
		`{"a":1e-999999999}`:          "a is outside what a number can hold",
		"{\"a\":\"\xff\"}":            "expected UTF-8",
	} {
		_, err := argument.Normalize(json.RawMessage(raw))
		msg := refusal(t, err, fault.InvalidArguments)
		contains(t, msg, want)
		if strings.Contains(msg, "missing field") || strings.Contains(msg, "literal") {
			t.Errorf("Normalize(%s): %s", raw, msg)
		}
	}
	if _, err := argument.Normalize(json.RawMessage(`{"a":"\ud83d\ude00\\ud800"}`)); err != nil {
		t.Errorf("a whole pair, and an escaped backslash: %v", err)
	}
}

func TestNormalize_bounds(t *testing.T) {
	t.Parallel()
	nested := func(n int) json.RawMessage {
		return json.RawMessage(strings.Repeat(`{"a":`, n) + "1" + strings.Repeat("}", n))
	}
	if _, err := argument.Normalize(nested(argument.DepthMax)); err != nil {
		t.Error(err)
	}
	_, err := argument.Normalize(nested(argument.DepthMax + 1))
	contains(t, refusal(t, err, fault.InvalidArguments), "at most 128 levels")
	large := json.RawMessage(`{"a":"` + strings.Repeat("x", argument.BytesMax) + `"}`)
	_, err = argument.Normalize(large)
	contains(t, refusal(t, err, fault.InvalidArguments), "too large", "8388608")
}

func TestCheck_F052_sentencesNameArgumentAndType(t *testing.T) {
	t.Parallel()
	s := compile(t, `{"type":"object","additionalProperties":false,"required":["path"],
		"properties":{"path":{"type":"string"},"limit":{"type":"integer"}}}`)
	for doc, want := range map[string]string{
		`{"path":"/a","limit":"ten"}`:       "the arguments do not fit the schema: limit must be an integer, got a string",
		`{"path":"/a","limit":1.5}`:         "the arguments do not fit the schema: limit must be an integer, got a number",
		`{"path":"/a","x":1}`:               "the arguments do not fit the schema: unknown field x",
		`{}`:                                "the arguments do not fit the schema: missing field path",
		`[]`:                                "the arguments do not fit the schema: the arguments must be an object, got an array",
		`{"path":5,"limit":[],"z":1,"y"`:    "the arguments cannot be read: invalid JSON: it ends before its value does",
		`{"path":5,"limit":{},"z":1,"y":2}`: "the arguments do not fit the schema: limit must be an integer, got an object; path must be a string, got a number; unknown field y; unknown field z",
	} {
		msg := refusal(t, s.Check(fault.InvalidArguments, json.RawMessage(doc)), fault.InvalidArguments)
		if msg != want {
			t.Errorf("Check(%s)\n got %s\nwant %s", doc, msg, want)
		}
	}
}

func TestCheck_sentences(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct{ schema, doc, want string }{
		{`{"type":["string","null"]}`, `{"v":1}`, "v must be null or a string, got a number"},
		{`{"enum":["c","f"]}`, `{"v":"k"}`, `v must be one of "c", "f", got "k"`},
		{`{"const":true}`, `{"v":[1]}`, "v must be true, got an array"},
		{`{"minimum":0.5}`, `{"v":1e-1}`, "v must be at least 0.5, got 0.1"},
		{`{"maximum":10}`, `{"v":11}`, "v must be at most 10, got 11"},
		{`{"exclusiveMinimum":1}`, `{"v":1}`, "v must be more than 1, got 1"},
		{`{"exclusiveMaximum":1}`, `{"v":1}`, "v must be less than 1, got 1"},
		{`{"multipleOf":2}`, `{"v":3}`, "v must be a multiple of 2, got 3"},
		{`{"minLength":2}`, `{"v":"é"}`, "v must have at least 2 characters, got 1"},
		{`{"maxLength":1}`, `{"v":"ab"}`, "v must have at most 1 character, got 2"},
		{`{"pattern":"^a$"}`, `{"v":"b"}`, `v must match the pattern ^a$, got "b"`},
		{`{"minItems":1}`, `{"v":[]}`, "v must have at least 1 item, got 0"},
		{`{"maxItems":1}`, `{"v":[1,2]}`, "v must have at most 1 item, got 2"},
		{`{"uniqueItems":true}`, `{"v":[1,2,1.0]}`, "v must not repeat an item: [0] and [2] are equal"},
		{`{"contains":{"const":1}}`, `{"v":[2]}`, "v holds no item of the form it must contain"},
		{`{"contains":{"const":1},"minContains":2}`, `{"v":[1]}`, "v must contain at least 2 items of a given form, got 1"},
		{`{"contains":{"const":1},"maxContains":1}`, `{"v":[1,1]}`, "v must contain at most 1 item of a given form, got 2"},
		{`{"minProperties":1}`, `{"v":{}}`, "v must have at least 1 field, got 0"},
		{`{"maxProperties":1}`, `{"v":{"a":1,"b":2}}`, "v must have at most 1 field, got 2"},
		{`{"propertyNames":{"pattern":"^a"}}`, `{"v":{"b":1}}`, `v has a field "b" whose name is not allowed`},
		{`{"dependentRequired":{"a":["b"]}}`, `{"v":{"a":1}}`, "missing field v.b, which is needed with a"},
		{`{"not":{"const":1}}`, `{"v":1}`, "v has a form that is excluded"},
		{`false`, `{"v":1}`, "v is not allowed here"},
		{`{"unevaluatedProperties":false}`, `{"v":{"a b":1}}`, `v["a b"] is not allowed here`},
		{`{"prefixItems":[{"type":"string"}],"items":false}`, `{"v":["a",{"x":1}]}`, "v[1] is not allowed here"},
		{`{"items":{"required":["id"],"properties":{"id":{"type":"string"}}}}`, `{"v":[{"id":"a"},{},{"id":null}]}`, "missing field v[1].id; v[2].id must be a string, got null"},
		{`{"properties":{"0":{"type":"null"}}}`, `{"v":{"0":1}}`, `v["0"] must be null, got a number`},
		{`{"anyOf":[{"type":"integer"},{"type":"null"}]}`, `{"v":"a"}`, "v must be an integer or null, got a string"},
		{`{"anyOf":[{"type":"object","required":["id"]},{"type":"null"}]}`, `{"v":{}}`, "missing field v.id"},
		{`{"oneOf":[{"properties":{"kind":{"const":"a"}},"required":["kind","x","y"]},{"properties":{"kind":{"const":"b"}},"required":["kind","z"]}]}`,
			`{"v":{"kind":"a"}}`, "v fits none of its forms; nearest: missing field v.x; missing field v.y"},
		{`{"oneOf":[{"type":"integer"},{"minimum":1}]}`, `{"v":2}`, "v fits more than one of its forms, expected exactly one"},
		{`{"allOf":[{"minLength":3},{"pattern":"^b"}]}`, `{"v":"a"}`, `v must have at least 3 characters, got 1; v must match the pattern ^b, got "a"`},
		{`{"if":{"type":"string"},"then":{"minLength":2}}`, `{"v":"a"}`, "v must have at least 2 characters, got 1"},
		{`{"$ref":"#/properties/v"}`, `{"v":1}`, "v cannot be checked: the schema refers to itself without end"},
	} {
		s := compile(t, `{"type":"object","properties":{"v":`+tc.schema+`}}`)
		err := s.Check(fault.InvalidInput, json.RawMessage(tc.doc))
		if got, want := refusal(t, err, fault.InvalidInput), "the input does not fit the schema: "+tc.want; got != want {
			t.Errorf("%s with %s\n got %s\nwant %s", tc.schema, tc.doc, got, want)
		}
	}
}

func TestCheck_codeAndSubject(t *testing.T) {
	t.Parallel()
	s := compile(t, `{"type":"boolean"}`)
	for code, want := range map[fault.Code]string{
		fault.InvalidArguments:  "the arguments do not fit the schema: the arguments must be a boolean, got null",
		fault.InvalidInput:      "the input does not fit the schema: the input must be a boolean, got null",
		fault.ToolResultInvalid: "the result does not fit the schema: the result must be a boolean, got null",
		fault.ToolOutputInvalid: "the result does not fit the schema: the result must be a boolean, got null",
		fault.OutputInvalid:     "the output does not fit the schema: the output must be a boolean, got null",
		fault.DecisionInvalid:   "the answer does not fit the schema: the answer must be a boolean, got null",
		fault.InvalidMessage:    "the document does not fit the schema: the document must be a boolean, got null",
	} {
		if got := refusal(t, s.Check(code, json.RawMessage("null")), code); got != want {
			t.Errorf("%s: %s", code, got)
		}
	}
	refusal(t, s.Check(fault.ToolResultInvalid, json.RawMessage("tru")), fault.ToolResultInvalid)
}

func TestCheck_problemsAreBoundedAndInOrder(t *testing.T) {
	t.Parallel()
	s := compile(t, `{"type":"object","additionalProperties":{"type":"string"}}`)
	var b strings.Builder
	for i := range 40 {
		fmt.Fprintf(&b, `"k%02d":%d,`, i, i)
	}
	doc := json.RawMessage("{" + strings.TrimSuffix(b.String(), ",") + "}")
	err := s.Check(fault.InvalidArguments, doc)
	msg := refusal(t, err, fault.InvalidArguments)
	contains(t, msg, "k00 must be a string", "k15 must be a string", "; and 24 more")
	if strings.Contains(msg, "k16") {
		t.Errorf("more than the bound: %s", msg)
	}
	listed, _ := fault.From(err).Context["problems"].([]string)
	if len(listed) != 16 || !slices.IsSorted(listed) {
		t.Errorf("context problems: %q", listed)
	}
}

// A self-referring schema doubles the validator's work at each level; a check
// of 100 levels must answer at once.
func TestCheck_workIsBounded(t *testing.T) {
	t.Parallel()
	nested := func(n int) json.RawMessage {
		return json.RawMessage(strings.Repeat(`{"op":"or","args":[`, n) + strings.Repeat("]}", n))
	}
	tree := `{"$defs":{"e":{"oneOf":[
		{"properties":{"op":{"const":"and"},"args":{"items":{"$ref":"#/$defs/e"}}}},
		{"properties":{"op":{"const":"or"},"args":{"items":{"$ref":"#/$defs/e"}}}}]}},"$ref":"#/$defs/e"}`
	s := compile(t, tree)
	if err := s.Check(fault.InvalidArguments, nested(5)); err != nil {
		t.Error(err)
	}
	contains(t, refusal(t, s.Check(fault.InvalidArguments, nested(60)), fault.InvalidArguments), "cannot be checked", "send it flatter")

	one := compile(t, `{"properties":{"op":{"const":"or"},"args":{"items":{"$ref":"#"}}}}`)
	if err := one.Check(fault.InvalidArguments, nested(60)); err != nil {
		t.Errorf("one form only: %v", err)
	}
	typed := compile(t, `{"anyOf":[{"type":"string"},{"type":"array","items":{"$ref":"#"}},{"type":"object","additionalProperties":{"$ref":"#"}}]}`)
	if err := typed.Check(fault.InvalidArguments, nested(60)); err != nil {
		t.Errorf("forms of different types: %v", err)
	}

	var defs []string
	for i := range 40 {
		defs = append(defs, fmt.Sprintf(`"d%d":{"allOf":[{"$ref":"#/$defs/d%d"},{"$ref":"#/$defs/d%d"}]}`, i, i+1, i+1))
	}
	bomb := compile(t, `{"$ref":"#/$defs/d0","$defs":{`+strings.Join(defs, ",")+`,"d40":true}}`)
	_, err := argument.Compile(json.RawMessage(`{"default":1,"$ref":"#/$defs/d0","$defs":{` + strings.Join(defs, ",") + `,"d40":true}}`))
	contains(t, refusal(t, err, fault.InvalidConfig), "the default at # cannot be checked")
	contains(t, refusal(t, bomb.Check(fault.InvalidArguments, json.RawMessage("1")), fault.InvalidArguments), "cannot be checked")
}

func TestFill(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct{ schema, doc, want string }{
		"top level":           {`{"properties":{"n":{"default":10},"q":{"default":"a<b"}}}`, `{}`, `{"n":10,"q":"a<b"}`},
		"present stays":       {`{"properties":{"n":{"default":10}}}`, `{ "n" : 1.0 }`, `{ "n" : 1.0 }`},
		"null stays":          {`{"properties":{"n":{"default":10}}}`, `{"n":null}`, `{"n":null}`},
		"default null":        {`{"properties":{"n":{"default":null}}}`, `{}`, `{"n":null}`},
		"default false":       {`{"properties":{"n":{"default":false}}}`, `{}`, `{"n":false}`},
		"number text":         {`{"properties":{"n":{"default":1.50}}}`, `{"z":12345678901234567890,"y":1E2,"x":-0.0}`, `{"n":1.50,"x":-0.0,"y":1E2,"z":12345678901234567890}`},
		"nested":              {`{"properties":{"o":{"properties":{"n":{"default":1}}}}}`, `{"o":{}}`, `{"o":{"n":1}}`},
		"absent parent stays": {`{"properties":{"o":{"properties":{"n":{"default":1}}}}}`, `{}`, `{}`},
		"default is filled":   {`{"properties":{"o":{"default":{"a":1},"properties":{"n":{"default":1}}}}}`, `{}`, `{"o":{"a":1,"n":1}}`},
		"items":               {`{"properties":{"l":{"items":{"properties":{"n":{"default":1}}}}}}`, `{"l":[{},{"n":2},3]}`, `{"l":[{"n":1},{"n":2},3]}`},
		"prefix items":        {`{"properties":{"l":{"prefixItems":[true,{"properties":{"n":{"default":1}}}],"items":{"properties":{"m":{"default":2}}}}}}`, `{"l":[{},{},{}]}`, `{"l":[{},{"n":1},{"m":2}]}`},
		"reference":           {`{"properties":{"o":{"$ref":"#/$defs/o"}},"$defs":{"o":{"default":{},"properties":{"n":{"$ref":"#/$defs/n"}}},"n":{"default":7}}}`, `{}`, `{"o":{"n":7}}`},
		"own before referred": {`{"properties":{"n":{"$ref":"#/$defs/n","default":1}},"$defs":{"n":{"default":7}}}`, `{}`, `{"n":1}`},
		"allOf":               {`{"allOf":[{"properties":{"n":{"default":1}}},{"properties":{"n":{"default":2},"m":{"default":3}}}]}`, `{}`, `{"m":3,"n":1}`},
		"allOf fills allOf":   {`{"allOf":[{"properties":{"o":{"default":{}}}},{"properties":{"o":{"properties":{"n":{"default":1}}}}}]}`, `{}`, `{"o":{"n":1}}`},
		"recursive":           {`{"properties":{"child":{"$ref":"#"},"n":{"default":1}}}`, `{"child":{"child":{}}}`, `{"child":{"child":{"n":1},"n":1},"n":1}`},
		"additional":          {`{"additionalProperties":{"properties":{"n":{"default":1}}}}`, `{"a":{}}`, `{"a":{"n":1}}`},
		"pattern":             {`{"patternProperties":{"^a":{"properties":{"n":{"default":1}}}},"additionalProperties":{"properties":{"m":{"default":1}}}}`, `{"a":{},"b":{}}`, `{"a":{"n":1},"b":{"m":1}}`},
		"anyOf is not used":   {`{"anyOf":[{"properties":{"n":{"default":1}}},{"properties":{"n":{"default":2}}}]}`, `{}`, `{}`},
		"draft 7 items":       {`{"$schema":"http://json-schema.org/draft-07/schema#","properties":{"l":{"items":[{"properties":{"n":{"default":1}}}],"additionalItems":{"properties":{"m":{"default":2}}}}}}`, `{"l":[{},{}]}`, `{"l":[{"n":1},{"m":2}]}`},
		"reference cycle":     {`{"properties":{"v":{"$ref":"#/properties/v"},"n":{"default":1}}}`, `{"v":{}}`, `{"n":1,"v":{}}`},
		"array at the top":    {`{"type":"array","items":{"properties":{"n":{"default":1}}}}`, `[{}]`, `[{"n":1}]`},
		"scalar":              {`{"type":"string","default":"x"}`, `"y"`, `"y"`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := compile(t, tc.schema)
			for range 3 { // the schema's own values are not written to
				got, err := s.Fill(json.RawMessage(tc.doc))
				if err != nil {
					t.Fatal(err)
				}
				if diff := cmp.Diff(tc.want, string(got)); diff != "" {
					t.Fatal(diff)
				}
			}
		})
	}
}

func TestFill_refusals(t *testing.T) {
	t.Parallel()
	s := compile(t, `{"properties":{"l":{"items":{"properties":{"s":{"default":"`+strings.Repeat("x", 1000)+`"}}}}}}`)
	_, err := s.Fill(json.RawMessage(`{"l":[` + strings.Repeat("{},", 8999) + `{}]}`))
	contains(t, refusal(t, err, fault.InvalidArguments), "larger than 8388608 bytes")
	_, err = s.Fill(json.RawMessage(`{"l":[`))
	contains(t, refusal(t, err, fault.InvalidArguments), "invalid JSON")
	_, err = s.Fill(nil)
	contains(t, refusal(t, err, fault.InvalidArguments), "expected a JSON value, got nothing")

	many := compile(t, `{"properties":{"l":{"items":{"properties":{"s":{"default":1}}}}}}`)
	_, err = many.Fill(json.RawMessage(`{"l":[` + strings.Repeat("{},", 10_000) + `{}]}`))
	contains(t, refusal(t, err, fault.InvalidArguments), "l[10000].s", "10000 values")
}
