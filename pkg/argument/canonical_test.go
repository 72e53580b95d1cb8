package argument_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/crumbmesh/crumbmesh/pkg/argument"
	"github.com/crumbmesh/crumbmesh/pkg/fault"
)

func hash(t testing.TB, doc string) string {
	t.Helper()
	h, err := argument.Hash(json.RawMessage(doc))
	if err != nil {
		t.Fatalf("Hash(%s): %v", doc, err)
	}
	return h
}

func TestHash_F076_keyOrderAndSpaceDoNotMatter(t *testing.T) {
	t.Parallel()
	first := hash(t, `{"path":"/a","opts":{"x":1,"y":[1,2]}}`)
	for _, same := range []string{
		`{"opts":{"y":[1,2],"x":1},"path":"/a"}`,
		" {\n\t\"path\" : \"\\/\\u0061\", \"opts\":{ \"x\":1.0,\"y\":[1e0, 2] } }\r\n",
	} {
		if got := hash(t, same); got != first {
			t.Errorf("Hash(%s) differs", same)
		}
	}
	for _, other := range []string{
		`{"path":"/a","opts":{"x":1,"y":[2,1]}}`,
		`{"path":"/a","opts":{"x":"1","y":[1,2]}}`,
		`{"path":"/a","opts":{"x":1,"y":[1,2]},"z":null}`,
	} {
		if hash(t, other) == first {
			t.Errorf("Hash(%s) is the same", other)
		}
	}
}

func TestHash_isHexSHA256OfTheCanonicalForm(t *testing.T) {
	t.Parallel()
	// The SHA-256 of the two bytes {}.
	if got := hash(t, " { } "); got != "44136fa355b3678a1146ad16f7e8649e94fb4fc21fe77e8310c060f61caaff8a" {
		t.Error(got)
	}
}

func TestCanonical(t *testing.T) {
	t.Parallel()
	for doc, want := range map[string]string{
		`{"b":1,"a":"<é\u20ac"}`: `{"a":"<é€","b":1}`,
		`[1.0,1E2,-0,0.10]`:      `[1,100,0,0.1]`,
		`"\ud83d\ude00"`:         `"😀"`,
		` null `:                 `null`,
		`9007199254740991`:       `9007199254740991`,
		`-9007199254740991.0`:    `-9007199254740991`,
		`0.1234567890123456`:     `0.1234567890123456`,
		`1e-7`:                   `1e-7`,
		`0e500`:                  `0`,
		`5e-324`:                 `5e-324`,
	} {
		got, err := argument.Canonical(json.RawMessage(doc))
		if err != nil || string(got) != want {
			t.Errorf("Canonical(%s) = %s, %v; want %s", doc, got, err, want)
		}
	}
}

// decisions: 9007199254740993 has the canonical text of …992, so an approval of
// one would hold for the other.
func TestCanonical_refusesNumbersThatWouldHashAlike(t *testing.T) {
	t.Parallel()
	for _, number := range []string{
		"9007199254740992", "9007199254740993", "-9007199254740993", "9007199254740993.0", "9.007199254740993e15",
		"1e16", "100000000000000000000", "12345678901234567890",
		"0.1234567890123456789", "0.10000000000000000001", "1.00000000000000000001", "9007199254740991.5",
		"1e400", "-1e400", "1e-400", "1e999999999999999999999", "0e2000",
		"0." + strings.Repeat("1", 600),
	} {
		doc := `{"to":[{"account":` + number + `}]}`
		for name, err := range map[string]error{
			"Canonical": second(argument.Canonical(json.RawMessage(doc))),
			"Hash":      second(argument.Hash(json.RawMessage(doc))),
		} {
			f := fault.From(err)
			if f == nil || f.Code != fault.InvalidArguments {
				t.Errorf("%s(%s): %v", name, doc, err)
				continue
			}
			contains(t, f.Message, "to[0].account", "send it as a string")
			if f.Context["path"] != "to[0].account" {
				t.Errorf("%s(%s): context %v", name, doc, f.Context)
			}
		}
	}
}

func second[T any](_ T, err error) error { return err }

func TestCanonical_refusesWhatIsNoSingleDocument(t *testing.T) {
	t.Parallel()
	for doc, want := range map[string]string{
		``:                   "got nothing",
		`{"a":1,"a":1}`:      "a is given twice",
		`{"a":1} {}`:         "unexpected '{'",
		`{"a":"\udfff"}`:     "surrogate",
		"[\"\xc3\x28\"]":     "UTF-8",
		`{"a":{"` + "\u2028": "invalid JSON",
	} {
		_, err := argument.Canonical(json.RawMessage(doc))
		contains(t, refusal(t, err, fault.InvalidArguments), want)
	}
}

func Example() {
	schema, _ := argument.Compile(json.RawMessage(`{
		"type": "object", "additionalProperties": false, "required": ["account"],
		"properties": {
			"account": {"type": "string"},
			"amount":  {"type": "integer", "minimum": 1, "default": 100}
		}}`))

	// What a model may send: here an object inside a string.
	args, _ := argument.Normalize(json.RawMessage(`"{\"account\": \"a-7\"}"`))
	args, _ = schema.Fill(args)
	fmt.Println(string(args), schema.Check(fault.InvalidArguments, args))

	approved, _ := argument.Hash(args)
	running, _ := argument.Hash(json.RawMessage(`{ "amount": 100.0, "account": "a-7" }`))
	fmt.Println(approved == running)

	fmt.Println(schema.Check(fault.InvalidArguments, json.RawMessage(`{"amount": "ten", "to": 1}`)))
	_, err := argument.Hash(json.RawMessage(`{"account": 9007199254740993}`))
	fmt.Println(err)
	// Output:
	// {"account":"a-7","amount":100} <nil>
	// true
	// INVALID_ARGUMENTS: the arguments do not fit the schema: missing field account; amount must be an integer, got a string; unknown field to
	// INVALID_ARGUMENTS: account cannot be kept exactly (9007199254740993; integers go to 9007199254740991, decimals to about 15 digits): send it as a string
}

func BenchmarkFillCheckHash(b *testing.B) {
	s := compile(b, `{"type":"object","required":["path"],"properties":{"path":{"type":"string"},"limit":{"type":"integer","default":10},"tags":{"type":"array","items":{"type":"string"}}}}`)
	doc := json.RawMessage(`{"path":"/srv/data/report.pdf","tags":["` + string(bytes.Repeat([]byte("x"), 200)) + `","b"]}`)
	b.ReportAllocs()
	for b.Loop() {
		args, err := s.Fill(doc)
		if err != nil {
			b.Fatal(err)
		}
		if err := s.Check(fault.InvalidArguments, args); err != nil {
			b.Fatal(err)
		}
		if _, err := argument.Hash(args); err != nil {
			b.Fatal(err)
		}
	}
}
