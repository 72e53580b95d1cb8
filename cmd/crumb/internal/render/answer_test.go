package render_test

import (
	"encoding/json"
	"strings"
	"testing"
	"unicode"

	"github.com/crumbmesh/crumbmesh/cmd/crumb/internal/render"
)

func TestAnswer_SaysWhatIsTaken(t *testing.T) {
	t.Parallel()
	for schema, want := range map[string]string{
		``:                           "any value",
		`true`:                       "any value",
		`{}`:                         "any value",
		`{"enum":["a"]}`:             `"a"`,
		`{"const":"go"}`:             `"go"`,
		`{"type":"boolean"}`:         "true or false",
		`{"type":"string"}`:          "text",
		`{"type":["string","null"]}`: "text or null",
		`{"type":"string","enum":["red","green",3]}`:                                            `"red", "green" or 3`,
		`{"enum":[` + strings.Repeat(`1,`, 20) + `2]}`:                                          strings.Repeat("1, ", 20) + "…",
		`{"type":"integer","minimum":1,"maximum":5}`:                                            "a whole number  [at least 1, at most 5]",
		`{"type":"string","minLength":1,"maxLength":60,"pattern":"^A","description":"A title"}`: "text  [length at least 1, length at most 60, like ^A]  A title",
		`{"type":"object","properties":{"b":{},"a":{},"dish":{}},"required":["dish"]}`:          "an object of dish, [a], [b]",
		`{"properties":{"b":{}}}`:                                                               "an object of [b]",
		`{"oneOf":[{"type":"null"}]}`:                                                           `one of [{"type":"null"}]`,
		`{"anyOf":[true]}`:                                                                      `any of [true]`,
		`{"type":"array"}`:                                                                      "a list",
	} {
		if got := render.Answer(json.RawMessage(schema)); got != want {
			t.Errorf("%s\n got %s\nwant %s", schema, got, want)
		}
	}
}

// A schema is foreign text, too.
func TestAnswer_ForeignTextIsHarmless(t *testing.T) {
	t.Parallel()
	evil := `"a\u001b[31m\u202e\n"`
	for _, schema := range []string{
		`{"const":` + evil + `}`, `{"enum":[` + evil + `]}`, `{"type":` + evil + `,"description":` + evil + `,"pattern":` + evil + `}`,
		`{"properties":{` + evil + `:{},"b":{}},"required":[` + evil + `]}`, `{"oneOf":[` + evil + `]}`,
	} {
		for _, r := range render.Answer(json.RawMessage(schema)) {
			if !unicode.IsPrint(r) {
				t.Errorf("%s: %q", schema, r)
			}
		}
	}
}
