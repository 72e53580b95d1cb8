package render_test

import (
	"encoding/json"
	"reflect"
	"strings"
	"testing"
	"unicode"

	"pgregory.net/rapid"

	"github.com/crumbmesh/crumbmesh/cmd/crumb/internal/render"
)

// What people read is not escaped for HTML, and nothing that could fool them or
// their terminal stands as itself.
func TestJSON_ReadableAndHarmless(t *testing.T) {
	t.Parallel()
	for raw, want := range map[string]string{
		`{"q":"a\u0026b \u003cc\u003e"}`:       `{"q":"a&b <c>"}`,
		`{"q":"a&b <c>"}`:                      `{"q":"a&b <c>"}`,
		`"caf\u00e9 \ud83d\ude00"`:             `"café 😀"`,
		`"\u0022\u005c\\u0026\"\n\t\u000a"`:    `"\u0022\u005c\\u0026\"\n\t\u000a"`,
		`"\u202e\u009b\u2028"`:                 `"\u202e\u009b\u2028"`,
		"\"\u202e\u009b\u2066\x7f\U000e0041\"": `"\u202e\u009b\u2066\u007f\udb40\udc41"`,
		"\"\x9b31m\"":                          "\"\ufffd31m\"",
		`"\ud800 \udc00\ud800"`:                `"\ud800 \udc00\ud800"`,
		`"\u00a0\ufffd"`:                       `"\u00a0\ufffd"`,
	} {
		if got := render.JSON(json.RawMessage(raw)); got != want {
			t.Errorf("%s\n got %s\nwant %s", raw, got, want)
		}
	}
	if got := render.Value(json.RawMessage(`{"a": "x \u0026\u0026 y"}`)); got != `{"a":"x && y"}` {
		t.Errorf("Value: %s", got)
	}
	if got := render.Document(json.RawMessage(`{"a":"x \u003e y"}`), "  "); !strings.Contains(got, "\n    \"a\": \"x > y\"\n") {
		t.Errorf("Document: %s", got)
	}
}

// Whatever a document holds, people read the same value, printable throughout.
func TestJSON_IsTheSameValue(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		value := map[string]any{rapid.String().Draw(t, "key"): rapid.String().Draw(t, "text")}
		raw, err := json.Marshal(value)
		if err != nil {
			t.Fatal(err)
		}
		shown := render.JSON(raw)
		for _, r := range shown {
			if !unicode.IsPrint(r) {
				t.Fatalf("%q in %q", r, shown)
			}
		}
		var got map[string]any
		if err := json.Unmarshal([]byte(shown), &got); err != nil || !reflect.DeepEqual(got, value) {
			t.Fatalf("%q of %q: %v", got, value, err)
		}
	})
}
