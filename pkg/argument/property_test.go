package argument_test

import (
	"bytes"
	"encoding/json"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/crumbmesh/crumbmesh/pkg/argument"
	"github.com/crumbmesh/crumbmesh/pkg/fault"
)

// anyJSON draws a JSON value whose numbers are all exact.
func anyJSON(depth int) *rapid.Generator[any] {
	scalar := rapid.OneOf(
		rapid.Just[any](nil),
		rapid.Map(rapid.Bool(), func(b bool) any { return b }),
		rapid.Map(rapid.Int64Range(-1<<53+1, 1<<53-1), func(i int64) any { return i }),
		rapid.Map(rapid.Float64Range(-1e6, 1e6), func(f float64) any { return f + 0 }),
		rapid.Map(rapid.String(), func(s string) any { return strings.ToValidUTF8(s, "?") }),
	)
	if depth == 0 {
		return scalar
	}
	below := anyJSON(depth - 1)
	key := rapid.SampledFrom([]string{"a", "b", "n", "o", "l", "", "é", "a b", "\U0001F600", "\uffee"})
	return rapid.OneOf(scalar,
		rapid.Map(rapid.SliceOfN(below, 0, 4), func(l []any) any { return l }),
		rapid.Map(rapid.MapOfN(key, below, 0, 4), func(m map[string]any) any { return m }),
	)
}

// write renders v with keys and white space as the generator rolls them.
func write(t *rapid.T, b *bytes.Buffer, v any) {
	space := func() { b.WriteString(rapid.SampledFrom([]string{"", " ", "\n\t", "\r\n"}).Draw(t, "space")) }
	space()
	defer space()
	switch v := v.(type) {
	case map[string]any:
		keys := slices.Sorted(maps.Keys(v))
		seed := rapid.Uint64().Draw(t, "order")
		rand.New(rand.NewPCG(seed, 1)).Shuffle(len(keys), func(i, j int) { keys[i], keys[j] = keys[j], keys[i] })
		b.WriteByte('{')
		for i, k := range keys {
			if i > 0 {
				b.WriteByte(',')
			}
			write(t, b, k)
			b.WriteByte(':')
			write(t, b, v[k])
		}
		b.WriteByte('}')
	case []any:
		b.WriteByte('[')
		for i := range v {
			if i > 0 {
				b.WriteByte(',')
			}
			write(t, b, v[i])
		}
		b.WriteByte(']')
	default:
		text, err := json.Marshal(v) // escapes < and > as \u003c: another spelling
		if err != nil {
			t.Fatal(err)
		}
		b.Write(text)
	}
}

func TestHash_F076_property(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		v := anyJSON(3).Draw(t, "value")
		var one, two bytes.Buffer
		write(t, &one, v)
		write(t, &two, v)
		if hashOf(t, one.Bytes()) != hashOf(t, two.Bytes()) {
			t.Fatalf("two spellings of one value hash apart:\n%s\n%s", &one, &two)
		}
		w := anyJSON(3).Draw(t, "other")
		var three bytes.Buffer
		write(t, &three, w)
		if same(t, one.Bytes(), three.Bytes()) != (hashOf(t, one.Bytes()) == hashOf(t, three.Bytes())) {
			t.Fatalf("equal values and equal hashes disagree:\n%s\n%s", &one, &three)
		}
	})
}

// same compares two texts by value; the numbers drawn are exact in float64.
func same(t *rapid.T, a, b []byte) bool {
	var x, y any
	if json.Unmarshal(a, &x) != nil || json.Unmarshal(b, &y) != nil {
		t.Fatal("the test wrote no JSON")
	}
	return cmp.Equal(x, y)
}

func hashOf(t *rapid.T, doc []byte) string {
	h, err := argument.Hash(doc)
	if err != nil {
		t.Fatalf("Hash(%s): %v", doc, err)
	}
	return h
}

// A neighbour of a value never shares its hash: change one scalar.
func TestHash_differsWhenAValueDiffers(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.Int64Range(-1<<53+1, 1<<53-2).Draw(t, "n")
		v := map[string]any{"rest": anyJSON(2).Draw(t, "rest"), "n": n}
		one, _ := json.Marshal(v)
		v["n"] = n + 1
		two, _ := json.Marshal(v)
		if hashOf(t, one) == hashOf(t, two) {
			t.Fatalf("%s and %s hash alike", one, two)
		}
	})
}

// Whatever integer text is accepted, its hash is its own.
func TestHash_integersNearTheLimit(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.Int64Range(1<<53-50, 1<<53+50).Draw(t, "n")
		doc, _ := json.Marshal(n)
		_, err := argument.Hash(doc)
		if (err == nil) != (n <= 1<<53-1) {
			t.Fatalf("Hash(%d): %v", n, err)
		}
	})
}

const fillSchema = `{
	"type": "object",
	"properties": {
		"n": {"default": 1.50},
		"o": {"$ref": "#/$defs/o"},
		"l": {"items": {"$ref": "#/$defs/o"}, "default": [{}, {"n": 2}]}
	},
	"additionalProperties": {"allOf": [{"$ref": "#/$defs/o"}, {"properties": {"b": {"default": null}}}]},
	"$defs": {"o": {"properties": {"a": {"default": {"x": "<"}}, "n": {"default": 3}, "o": {"$ref": "#"}}}}
}`

func TestFill_isIdempotentAndKeepsWhatIsThere(t *testing.T) {
	t.Parallel()
	s := compile(t, fillSchema)
	rapid.Check(t, func(t *rapid.T) {
		doc, _ := json.Marshal(anyJSON(3).Draw(t, "doc"))
		once, err := s.Fill(doc)
		if err != nil {
			t.Fatal(err)
		}
		twice, err := s.Fill(once)
		if err != nil || !bytes.Equal(once, twice) {
			t.Fatalf("Fill(%s)\n  = %s\nthen %s, %v", doc, once, twice, err)
		}
		if !within(read(t, doc), read(t, once)) {
			t.Fatalf("Fill(%s) = %s changed a value", doc, once)
		}
	})
}

func read(t *rapid.T, doc []byte) any {
	d := json.NewDecoder(bytes.NewReader(doc))
	d.UseNumber()
	var v any
	if err := d.Decode(&v); err != nil {
		t.Fatal(err)
	}
	return v
}

// within reports whether b is a with properties added.
func within(a, b any) bool {
	switch a := a.(type) {
	case map[string]any:
		b, ok := b.(map[string]any)
		for k := range a {
			if v, there := b[k]; !ok || !there || !within(a[k], v) {
				return false
			}
		}
		return ok
	case []any:
		b, ok := b.([]any)
		return ok && slices.EqualFunc(a, b, within)
	default:
		return a == b
	}
}

func FuzzNormalize(f *testing.F) {
	for _, seed := range []string{
		``, `null`, `""`, `{}`, `"{\"a\":1}"`, `{"path":"/a","recursive":tr`, `{"{"a":1}`, `[1]`, `{"a":1,"a":2}`,
		`{"a":"\ud800"}`, `{"a":1e400}`, `{"a":9007199254740993}`, `{"o":{"o":{}},"l":[{}]}`, "{\"a\":\"\xff\"}", `"\"\""`, ` {"é":[true,false,null]} `,
	} {
		f.Add([]byte(seed))
	}
	s := compile(f, fillSchema)
	f.Fuzz(func(t *testing.T, raw []byte) {
		args, err := argument.Normalize(raw)
		if err != nil {
			refusal(t, err, fault.InvalidArguments)
			return
		}
		again, err := argument.Normalize(args)
		if err != nil || !bytes.Equal(args, again) {
			t.Fatalf("Normalize(%q) = %q, then %q, %v", raw, args, again, err)
		}
		filled, err := s.Fill(args)
		if err != nil {
			refusal(t, err, fault.InvalidArguments)
			return
		}
		if err := s.Check(fault.InvalidArguments, filled); err != nil {
			refusal(t, err, fault.InvalidArguments)
		}
		text, err := argument.Canonical(filled)
		if err != nil {
			refusal(t, err, fault.InvalidArguments)
			return
		}
		if twice, err := argument.Canonical(text); err != nil || !bytes.Equal(text, twice) {
			t.Fatalf("Canonical(%q) = %q, then %q, %v", filled, text, twice, err)
		}
	})
}

func FuzzCompile(f *testing.F) {
	for _, seed := range []string{
		`true`, `false`, `{"type":5}`, fillSchema, `{"$ref":"#"}`, `{"$ref":"x"}`, `{"$id":"x","$anchor":"y"}`, `{"$dynamicRef":"#a"}`,
		`{"properties":{"c":{"$ref":"#","default":{}}}}`, `{"pattern":"["}`, `{"enum":[1e2,{"a":[]}]}`, `{"$schema":"http://json-schema.org/draft-04/schema#"}`,
	} {
		f.Add([]byte(seed), []byte(`{"n":1,"o":{"l":[{}]}}`))
	}
	f.Fuzz(func(t *testing.T, schema, doc []byte) {
		s, err := argument.Compile(schema)
		if err != nil {
			refusal(t, err, fault.InvalidConfig)
			return
		}
		filled, err := s.Fill(doc)
		if err != nil {
			refusal(t, err, fault.InvalidArguments)
			return
		}
		if err := s.Check(fault.InvalidInput, filled); err != nil {
			refusal(t, err, fault.InvalidInput)
		}
	})
}
