package argument_test

import (
	"encoding/json"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/crumbmesh/crumbmesh/pkg/argument"
)

func TestDepth(t *testing.T) {
	t.Parallel()
	for doc, want := range map[string]int{
		``:                            0,
		`7`:                           0,
		`"[[{\"[\\"`:                  0,
		`{}`:                          1,
		`[1,[2],{"a":[]},[]]`:         3,
		`{"[":"]","a\"{":{"b":"\\"}}`: 2,
		`[[1],[2],[3]]`:               2,
		`[[[`:                         3,
		`"\`:                          0,
		strings.Repeat("[", 1<<20):    1 << 20,
		strings.Repeat(`{"a":`, 20_000) + "1" + strings.Repeat("}", 20_000): 20_000,
	} {
		if got := argument.Depth(json.RawMessage(doc)); got != want {
			t.Errorf("Depth(%.40s) = %d, want %d", doc, got, want)
		}
	}
}

// Depth counts what the decoder counts, whatever the strings hold.
func TestDepth_AgreesWithTheDecoder(t *testing.T) {
	t.Parallel()
	var deep func(v any) int
	deep = func(v any) int {
		deepest := 0
		switch v := v.(type) {
		case map[string]any:
			for _, e := range v {
				deepest = max(deepest, deep(e))
			}
			return deepest + 1
		case []any:
			for _, e := range v {
				deepest = max(deepest, deep(e))
			}
			return deepest + 1
		}
		return 0
	}
	text := rapid.StringOf(rapid.SampledFrom([]rune(`ab"\{}[],:é`)))
	var value *rapid.Generator[any]
	value = rapid.Deferred(func() *rapid.Generator[any] {
		return rapid.OneOf(text.AsAny(), rapid.Int().AsAny(),
			rapid.SliceOfN(value, 0, 3).AsAny(), rapid.MapOfN(text, value, 0, 3).AsAny())
	})
	rapid.Check(t, func(t *rapid.T) {
		doc, err := json.MarshalIndent(value.Draw(t, "value"), " ", "\t")
		if err != nil {
			t.Fatal(err)
		}
		var v any
		if err := json.Unmarshal(doc, &v); err != nil {
			t.Fatal(err)
		}
		if got, want := argument.Depth(doc), deep(v); got != want {
			t.Errorf("Depth(%s) = %d, want %d", doc, got, want)
		}
	})
}
