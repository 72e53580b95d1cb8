package agent_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/crumbmesh/crumbmesh/pkg/agent"
	"github.com/crumbmesh/crumbmesh/pkg/crumbs"
	"github.com/crumbmesh/crumbmesh/pkg/fault"
)

// transcript is a run's messages after two tool calls.
func transcript() agent.TemplateData {
	result := func(leaf string, outcome crumbs.Outcome, output string) crumbs.Part {
		return crumbs.Part{Type: crumbs.PartToolResult, ToolName: leaf, Outcome: outcome, Output: json.RawMessage(output)}
	}
	return agent.TemplateData{Messages: []crumbs.Message{
		{Role: crumbs.RoleSystem, Parts: []crumbs.Part{{Type: crumbs.PartText, Text: "You publish."}}},
		{Role: crumbs.RoleUser, Parts: []crumbs.Part{{Type: crumbs.PartText, Text: `{"path":"README.md","n":5,"big":9007199254740993,"half":0.5,"deep":{"a":[1,"<b>"]}}`}}},
		{Role: crumbs.RoleAssistant, Parts: []crumbs.Part{{Type: crumbs.PartToolCall, ToolName: "tool_read", Args: json.RawMessage(`{}`)}}},
		{Role: crumbs.RoleTool, Parts: []crumbs.Part{
			result("tool_read", crumbs.OutcomeOK, `{"title":"crumbmesh"}`),
			result("tool_publish", crumbs.OutcomeDenied, `{"denied":true}`),
			result("tool_read", crumbs.OutcomeOK, `{"title":"the second"}`),
		}},
	}}
}

func scripted(turns ...agent.Turn) agent.Script { return agent.Script{Name: "demo", Turns: turns} }

func TestScript_templates(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"plain":                               "plain",
		"":                                    "",
		"{{ .input.path }}":                   "README.md",
		"{{ .input.n }} {{ .input.half }}":    "5 0.5",
		"{{ .input.big }}":                    "9007199254740993",
		"{{ if eq .input.n 5 }}five{{ end }}": "five",
		"{{ json .input.deep }}":              `{"a":[1,"<b>"]}`,
		"{{ .results.tool_read.title }}":      "the second",
		"{{ (index .results.all 0).output.title }}":                    "crumbmesh",
		"{{ range .results.all }}{{ .name }}:{{ .outcome }} {{ end }}": "tool_read:ok tool_publish:denied tool_read:ok ",
		"{{ len .messages }} {{ (index .messages 0).text }}":           "4 You publish.",
		"{{ (index (index .messages 2).parts 0).toolName }}":           "tool_read",
		`{{ printf "%03d|%-5s" .input.n "x" }}`:                        "005|x    ",
		`{{ html "<" }}{{ js "'" }}{{ urlquery "a b" }}{{ println }}`:  "&lt;\\'a+b\n",
	} {
		got, err := scripted(agent.Turn{Text: text}).Render(1, transcript())
		if err != nil || got.Text != want {
			t.Errorf("%s\n got %q, %v\nwant %q", text, got.Text, err, want)
		}
	}
}

func TestScript_inputIsTextUnlessItIsJSON(t *testing.T) {
	t.Parallel()
	user := func(texts ...string) agent.TemplateData {
		d := agent.TemplateData{}
		for _, s := range texts {
			d.Messages = append(d.Messages, crumbs.Message{Role: crumbs.RoleUser, Parts: []crumbs.Part{{Type: crumbs.PartText, Text: s}}})
		}
		return d
	}
	said := user("first")
	said.Input = json.RawMessage(`"given"`)
	for name, c := range map[string]struct {
		data agent.TemplateData
		want string
	}{
		"text": {user("Hello, you."), "Hello, you."}, "the last counts": {user("a", "b"), "b"},
		"JSON text": {user(`"quoted"`), "quoted"}, "two documents": {user("1 2"), "1 2"},
		"none": {agent.TemplateData{}, ""}, "given": {said, "given"},
	} {
		got, err := scripted(agent.Turn{Text: "{{ .input }}"}).Render(1, c.data)
		if err != nil || got.Text != c.want {
			t.Errorf("%s: got %q, %v, want %q", name, got.Text, err, c.want)
		}
	}
}

func TestScript_turn(t *testing.T) {
	t.Parallel()
	usage := &crumbs.Usage{InputTokens: 100}
	for name, c := range map[string]struct {
		turn agent.Turn
		want agent.RenderedTurn
	}{
		"text":   {agent.Turn{Text: "a", Reasoning: "{{ .input.n }}", Usage: usage}, agent.RenderedTurn{Text: "a", Reasoning: "5", Usage: usage, FinishReason: "stop"}},
		"chunks": {agent.Turn{Chunks: []string{"{{ .input.n }}", "ne."}, DelayMs: 20}, agent.RenderedTurn{Text: "5ne.", Chunks: []string{"5", "ne."}, DelayMs: 20, FinishReason: "stop"}},
		"json":   {agent.Turn{JSON: json.RawMessage(`{"z":1.50,"a":"{{ .input.n }}","b":"{{ .input.n | json }}"}`)}, agent.RenderedTurn{Text: `{"z":1.50,"a":"5","b":5}`, FinishReason: "stop"}},
		"null":   {agent.Turn{JSON: json.RawMessage(`null`)}, agent.RenderedTurn{Text: "null", FinishReason: "stop"}},
		"calls": {agent.Turn{ToolCalls: []agent.ScriptCall{{Name: "tool_a"}, {Name: "tool_b", Args: json.RawMessage(`{"p":["{{ .input.path }}",9007199254740993,null,true],"d":"{{ .input.deep | json }}"}`)}}},
			agent.RenderedTurn{FinishReason: "tool-calls", ToolCalls: []agent.ScriptCall{{Name: "tool_a", Args: json.RawMessage(`{}`)}, {Name: "tool_b", Args: json.RawMessage(`{"p":["README.md",9007199254740993,null,true],"d":{"a":[1,"<b>"]}}`)}}}},
		"CF-O10 error after text": {agent.Turn{Text: "partial ", Error: &agent.TurnError{Status: 529, RetryAfterMs: 200}}, agent.RenderedTurn{Text: "partial ", Error: &agent.TurnError{Status: 529, RetryAfterMs: 200}, FinishReason: "stop"}},
		"finish reason":           {agent.Turn{Text: "a", FinishReason: "length"}, agent.RenderedTurn{Text: "a", FinishReason: "length"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got, err := scripted(c.turn).Render(1, transcript())
			if err != nil {
				t.Fatal(err)
			}
			if d := cmp.Diff(c.want, got); d != "" {
				t.Error(d)
			}
		})
	}
}

func TestScript_exhaustedNamesScriptAndTurn(t *testing.T) {
	t.Parallel()
	for _, n := range []int{0, 2, -1} {
		_, err := scripted(agent.Turn{Text: "a"}).Render(n, agent.TemplateData{})
		f := fault.From(err)
		if f.Code != fault.ModelError || f.Context["script"] != "demo" || f.Context["turn"] != n || !strings.Contains(f.Message, "scripts/demo.yaml") {
			t.Errorf("turn %d: got %v with %v", n, err, f.Context)
		}
	}
}

func TestScript_templateFailsOnTheDataOfTheRun(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"{{ .input.nosuch }}":                              `script "demo", turn 1: text: the template fails at .input.nosuch: the input has no key nosuch; it is {"big":9007199254740993,"deep":{"a":[1,"<b>"]},"half":0.5,`,
		"{{ .results.tool_nosuch.a }}":                     `the template fails at .results.tool_nosuch.a: the results have no key tool_nosuch; there is all, tool_publish, tool_read`,
		"{{ .nosuch }}":                                    `the template fails at .nosuch: a template has no key nosuch; there is input, messages, providerOptions, results, settings`,
		"{{ range .messages }}{{ .nosuch }}{{ end }}":      `map has no entry for key "nosuch"`,
		"{{ index .results.all 7 }}":                       "out of range",
		`{{ printf "%9999d" 1 }}`:                          "widths of at most 3 digits",
		`{{ printf "%*d" 9999999 1 }}`:                     "widths of at most 3 digits",
		`{{ printf "%.99999f" 1.0 }}`:                      "widths of at most 3 digits",
		"{{ range 1000000000 }}{{ end }}":                  "more than 10000 turns",
		"{{ range 200 }}{{ range 200 }}{{ end }}{{ end }}": "more than 10000 turns",
		`{{ $x := "aaaaaaaaaaaaaaaa" }}{{ range 30 }}{{ $x = print $x $x }}{{ end }}`: "longer than 262144 bytes",
		`{{ $x := "\\\\" }}{{ range 30 }}{{ $x = js $x }}{{ end }}`:                   "longer than 262144 bytes",
		`{{ range 9000 }}aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa{{ end }}`:  "longer than 262144 bytes",
		`{{ if true }}{{ range 99999 }}{{ else }}{{ end }}{{ else }}{{ end }}`:        "more than 10000 turns",
		`{{ with .input }}{{ range 99999 }}{{ if .x }}{{ end }}{{ end }}{{ end }}`:    "text:",
		`{{ define "x" }}{{ template "x" }}{{ end }}`:                                 "define, block and template",
		`{{ block "x" . }}{{ end }}`:                                                  "define, block and template",
	} {
		_, err := scripted(agent.Turn{Text: text}).Render(1, transcript())
		if fault.CodeOf(err) != fault.ModelError || !strings.Contains(err.Error(), want) {
			t.Errorf("%s\n got %v\nwant %s", text, err, want)
		}
	}
}

// A call that was rejected answers something else than its tool would have: the
// fault shows what was looked into, wherever the expression stands.
func TestScript_missingKeyShowsTheResult(t *testing.T) {
	t.Parallel()
	const denied = `: the result of tool_publish has no key text; it is {"denied":true}`
	for text, want := range map[string]string{
		"Done: {{ .results.tool_publish.text }}":                                                          "the template fails at .results.tool_publish.text" + denied,
		"{{ .input.path }}\n{{ .results.tool_publish.text | json }}":                                      ".results.tool_publish.text" + denied,
		"{{ if .input.n }}{{ printf `%s` (print .results.tool_publish.text) }}{{ end }}":                  ".results.tool_publish.text" + denied,
		"{{ with .results.tool_publish }}{{ .text }}{{ end }}":                                            ".results.tool_publish.text" + denied,
		"{{ range .messages }}{{ $.results.tool_publish.text }}{{ end }}":                                 ".results.tool_publish.text" + denied,
		"{{ if false }}{{ .results.tool_publish.no }}{{ else }}{{ .results.tool_publish.text }}{{ end }}": ".results.tool_publish.text" + denied,
		"{{ .results.tool_read.title.text }}":                                                             `.results.tool_read.title is no object, so it has no key text; it is "the second"`,
		"{{ .results.tool_read.title.a.b.c }}":                                                            `.results.tool_read.title is no object, so it has no key a; it is "the second"`,
		"{{ .input.deep.a.b }}":                                                                           `.input.deep.a is no object, so it has no key b; it is [1,"<b>"]`,
	} {
		_, err := scripted(agent.Turn{Text: text}).Render(1, transcript())
		if fault.CodeOf(err) != fault.ModelError || !strings.Contains(err.Error(), want) {
			t.Errorf("%s\n got %v\nwant %s", text, err, want)
		}
	}
	long := transcript()
	long.Input = json.RawMessage(`{"a":"` + strings.Repeat("é", 10_000) + `"}`)
	if _, err := scripted(agent.Turn{Text: "{{ .input.b }}"}).Render(1, long); err == nil || len(err.Error()) > 400 || !strings.Contains(err.Error(), "…") {
		t.Errorf("a long value: %v", err)
	}
	// What survives a rejection.
	for text, want := range map[string]string{
		"Done: {{ .results.tool_publish | json }}":                                               `Done: {"denied":true}`,
		`{{ with index .results.tool_publish "text" }}Done: {{ . }}{{ else }}Not done.{{ end }}`: "Not done.",
	} {
		got, err := scripted(agent.Turn{Text: text}).Render(1, transcript())
		if err != nil || got.Text != want {
			t.Errorf("%s: got %q, %v", text, got.Text, err)
		}
	}
}

func TestScript_failureNamesThePlace(t *testing.T) {
	t.Parallel()
	for want, turn := range map[string]agent.Turn{
		"chunks[1]: ":              {Chunks: []string{"a", "{{ .nosuch }}"}},
		"reasoning: ":              {Reasoning: "{{ .nosuch }}"},
		"toolCalls[1].args.a[0]: ": {ToolCalls: []agent.ScriptCall{{Name: "x"}, {Name: "y", Args: json.RawMessage(`{"a":["{{ .nosuch }}"]}`)}}},
		"json[1]: the template fails: line 1: unclosed action": {JSON: json.RawMessage(`["{{ .input.n | json }}","{{"` + "]")},
	} {
		_, err := scripted(turn).Render(1, transcript())
		if fault.CodeOf(err) != fault.ModelError || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %q", err, want)
		}
	}
}

func FuzzScriptTemplate(f *testing.F) {
	for _, s := range []string{
		"", "plain", "{{ .input.path }}", "{{ .results.tool_read.title }}", "{{ range .results.all }}{{ .name }}{{ end }}",
		"{{ .input | json }}", `{{ printf "%d" .input.n }}`, "{{ range 1000000 }}{{ end }}", `{{ define "x" }}{{ end }}`, "{{ . }}",
		`{{ $x := "a" }}{{ range 40 }}{{ $x = print $x $x }}{{ end }}`, "{{ break }}", "{{ tick }}", "{{/* c */}}", "{{- -}}", `{{ slice "abc" 1 }}`,
		`{{ call .input }}`, `{{ index .messages 0 }}`, `{{ if and .input .results }}{{ else if not .messages }}{{ end }}`, "\x00{{", "{{ with $ }}{{ end }}",
	} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, text string) {
		args, err := json.Marshal(map[string]any{"a": text})
		if err != nil {
			t.Fatal(err)
		}
		s := scripted(agent.Turn{Text: text, ToolCalls: []agent.ScriptCall{{Name: "x", Args: args}}})
		d := &agent.Definition{ID: "a", Model: agent.Model{Provider: "script", Model: "demo"}, Output: agent.Output{Format: "text"}, Steps: agent.Steps{Max: 1}, Scripts: map[string]agent.Script{"demo": s}}
		broken := d.Check() != nil
		got, err := s.Render(1, transcript())
		switch {
		case err != nil && fault.CodeOf(err) != fault.ModelError:
			t.Errorf("code %s", fault.CodeOf(err))
		case err != nil:
		case broken && len(text) <= agent.DefinitionBytesMax/8 && strings.Contains(text, "{{"):
			t.Error("Check refused what renders")
		case len(got.Text) > agent.RenderBytesMax && strings.Contains(text, "{{"):
			t.Errorf("%d bytes", len(got.Text))
		case !json.Valid(got.ToolCalls[0].Args):
			t.Errorf("args are no JSON: %s", got.ToolCalls[0].Args)
		}
	})
}

// What stands in a file is checked with the script, and filled in with the run.
func TestScript_files(t *testing.T) {
	t.Parallel()
	got, err := scripted(agent.Turn{Files: []agent.ScriptFile{
		{Name: "a.md", MimeType: "text/markdown", Text: "# {{ .input.path }}"}, {Name: "b", Base64: "AP8="},
	}}).Render(1, transcript())
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]agent.RenderedFile{{Name: "a.md", MimeType: "text/markdown", Data: []byte("# README.md")}, {Name: "b", Data: []byte{0, 255}}}, got.Files); diff != "" {
		t.Error(diff)
	}
	for want, f := range map[string]agent.ScriptFile{
		`turns[0].files[0]: file name "a/b"`:                         {Name: "a/b", Text: "x"},
		`turns[0].files[0]: media type name "text"`:                  {Name: "a", MimeType: "text", Text: "x"},
		"turns[0].files[0]: expected what stands in the file":        {Name: "a"},
		"turns[0].files[0]: expected what stands in the file, as":    {Name: "a", Text: "x", Base64: "AP8="},
		"turns[0].files[0].base64: expected base64 (RFC 4648":        {Name: "a", Base64: "no base64"},
		"turns[0].files[0].text: the template fails: line 1: unclos": {Name: "a", Text: "{{ .input"},
	} {
		d := publisher(t)
		d.Scripts["publish"].Turns[0].Files = []agent.ScriptFile{f}
		if err := d.Check(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %s", err, want)
		}
	}
	many := publisher(t)
	many.Scripts["publish"].Turns[0].Files = make([]agent.ScriptFile, crumbs.FilesMax+1)
	if err := many.Check(); err == nil || !strings.Contains(err.Error(), "expected at most 64 files in a turn, got 65") {
		t.Errorf("too many: %v", err)
	}
}
