package readme_test

import (
	"encoding/json"
	"errors"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/goccy/go-yaml"
	"github.com/google/go-cmp/cmp"

	"github.com/crumbmesh/crumbmesh/pkg/agent"
	"github.com/crumbmesh/crumbmesh/pkg/crumbs"
	"github.com/crumbmesh/crumbmesh/pkg/fault"
)

// kinds are the files that docs/files.md tells about: the heading, the schema,
// and the least that a file of the kind says.
var kinds = []struct{ heading, schema, file, least string }{
	{"## agent.yaml", "file.agent.v1.json", "agents/a/agent.yaml", "model: {provider: script, model: s}\n"},
	{"## Tool files", "file.tool.v1.json", "agents/a/tools/t.yaml", "description: Does.\nexec: [\"true\"]\n"},
	{"## crumb.yaml", "file.project.v1.json", "crumb.yaml", ""},
	{"## Scripts", "file.script.v1.json", "agents/a/scripts/s.yaml", "turns: [{text: a}]\n"},
}

var (
	row       = regexp.MustCompile("(?m)^\\| `([^`]+)` \\|.*\\| (.*) \\|$")
	ticked    = regexp.MustCompile("`([^`]+)`")
	refusals  = regexp.MustCompile(`(?m)^Not in this release, refused with NOT_AVAILABLE: (.*?)\.(?: |$)`)
	unknown   = regexp.MustCompile("(?m)unknown to `script`: (.*?)\\.(?: |$)")
	firstLine = regexp.MustCompile(`^# (\S+)\n`)
	rendering = regexp.MustCompile(`(?m)^(\S.*?) +→  (.*)$`)
)

// Every field of the schemas has a row, or is named as one that is refused, and
// the page names no other.
func TestFiles_RowsAreTheFieldsOfTheSchemas(t *testing.T) {
	t.Parallel()
	page := document(t, "docs/files.md")
	for _, k := range kinds {
		t.Run(k.schema, func(t *testing.T) {
			t.Parallel()
			text := part(t, page, k.heading)
			later := slices.Concat(named(refusals, text), named(unknown, text))
			want := slices.DeleteFunc(fieldsOf(t, k.schema), func(f string) bool {
				return slices.ContainsFunc(later, func(l string) bool { return below(f, l) && f != l })
			})
			got := slices.Concat(rows(text), later)
			slices.Sort(got)
			slices.Sort(want)
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("fields (- schema, + docs/files.md):\n%s", diff)
			}
		})
	}
}

// What the page says is refused is refused, with the code it says.
func TestFiles_RefusalsAreTrue(t *testing.T) {
	t.Parallel()
	page := document(t, "docs/files.md")
	for _, k := range kinds {
		text := part(t, page, k.heading)
		later := named(refusals, text)
		if len(later) == 0 && k.heading != "## Scripts" {
			t.Errorf("%s: the page names nothing that is refused", k.heading)
		}
		for _, f := range later {
			load(t, k.file, k.least+nested(f, "1"), fault.NotAvailable)
		}
		for _, f := range named(unknown, text) {
			load(t, k.file, k.least+strings.Replace(nested(f, "1"), "some: {", "some: {kind: script, ", 1), fault.InvalidConfig)
		}
	}
	load(t, "crumb.yaml", "providers: {p: {kind: acme}}\n", fault.NotAvailable)
}

// The examples are one project that loads, and together they say every field.
func TestFiles_ExamplesLoadAndLeaveNothingOut(t *testing.T) {
	t.Parallel()
	page, dir := document(t, "docs/files.md"), t.TempDir()
	for _, k := range kinds {
		text := part(t, page, k.heading)
		var said []string
		for _, example := range blocks(text, "yaml") {
			name := firstLine.FindStringSubmatch(example)
			if name == nil {
				t.Fatalf("an example does not begin with the name of its file:\n%s", example)
			}
			write(t, dir, name[1], example)
			var v any
			if err := yaml.Unmarshal([]byte(example), &v); err != nil {
				t.Fatal(err)
			}
			said = append(said, keysOf(v, "")...)
		}
		for _, f := range rows(text) {
			if !slices.ContainsFunc(said, func(s string) bool { return instance(s, f) }) {
				t.Errorf("%s: no example says %s", k.heading, f)
			}
		}
	}
	write(t, dir, "agents/clerk/tools/bin/look_up.py", "")
	write(t, dir, "bin/page.sh", "")
	if _, err := agent.Load(dir); err != nil {
		t.Fatal(err)
	}
}

// The last column says the defaults of the code.
func TestFiles_Defaults(t *testing.T) {
	t.Parallel()
	page := document(t, "docs/files.md")
	said := map[string]string{}
	for _, k := range kinds {
		for _, m := range row.FindAllStringSubmatch(part(t, page, k.heading), -1) {
			said[m[1]] = m[2]
		}
	}
	for field, value := range map[string]string{
		"output.format":                         agent.DefaultFormat,
		"steps.max":                             strconv.Itoa(agent.DefaultStepsMax),
		"errorHandling.retry.backoffMs":         strconv.Itoa(agent.DefaultBackoffMs),
		"errorHandling.retry.backoffMultiplier": strconv.Itoa(agent.DefaultBackoffMultiplier),
		"group":                                 agent.DefaultGroup,
		"human.expiresMs":                       strconv.Itoa(agent.DefaultExpiresMs),
		"effect":                                string(crumbs.EffectOnce),
		"timeoutMs":                             strconv.Itoa(agent.DefaultTimeoutMs),
		"groups.<name>.maxInFlight":             strconv.Itoa(agent.DefaultMaxInFlight),
		"groups.<name>.startBeforeMs":           strconv.Itoa(agent.DefaultStartBeforeMs),
	} {
		if !regexp.MustCompile(`\b` + value + `\b`).MatchString(said[field]) {
			t.Errorf("%s: the page says %q when absent, the code %s", field, said[field], value)
		}
	}
}

// The fields of a hook are those of its schema, and the example says them all.
func TestFiles_Hooks(t *testing.T) {
	t.Parallel()
	text := part(t, document(t, "docs/files.md"), "## Hooks")
	r := schemaReader{t: t, files: map[string]schema{}}
	const common = "common.v1.json"
	want := r.fields(common, *r.file(common).Defs["Hook"], "")
	slices.Sort(want)
	want = slices.Compact(want)
	got := rows(text)
	slices.Sort(got)
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("fields (- schema, + docs/files.md):\n%s", diff)
	}
	examples := blocks(text, "yaml")
	if len(examples) != 1 {
		t.Fatalf("%d examples, want one", len(examples))
	}
	var v any
	if err := yaml.Unmarshal([]byte(examples[0]), &v); err != nil {
		t.Fatal(err)
	}
	said := keysOf(v, "")
	for _, f := range got {
		if !slices.Contains(said, "beforeRun[]."+f) {
			t.Errorf("no example says %s", f)
		}
	}
	if value := strconv.Itoa(agent.DefaultHookTimeoutMs); !regexp.MustCompile("(?m)^\\| `timeoutMs` .*\\b" + value + "\\b").MatchString(text) {
		t.Errorf("the page does not say the default of a hook's timeoutMs, %s", value)
	}
}

// The templates give what stands beside them.
func TestFiles_Templates(t *testing.T) {
	t.Parallel()
	text := blocks(part(t, document(t, "docs/files.md"), "## Templates"), "text")
	if len(text) != 1 {
		t.Fatalf("%d blocks of templates, want one", len(text))
	}
	data := agent.TemplateData{
		Input: json.RawMessage(`{"text":"hi","cents":250}`),
		Messages: []crumbs.Message{{Role: crumbs.RoleTool, Parts: []crumbs.Part{{
			Type: crumbs.PartToolResult, ToolName: "tool_charge", Outcome: crumbs.OutcomeDenied, Output: json.RawMessage(`{"denied":true,"reason":"no"}`),
		}}}},
	}
	lines := rendering.FindAllStringSubmatch(text[0], -1)
	if want := strings.Count(text[0], "\n"); len(lines) != want {
		t.Fatalf("%d of %d lines have a result", len(lines), want)
	}
	for _, line := range lines {
		args, err := json.Marshal(line[1])
		if err != nil {
			t.Fatal(err)
		}
		turn, err := agent.Script{Name: "s", Turns: []agent.Turn{{ToolCalls: []agent.ScriptCall{{Name: "x", Args: args}}}}}.Render(1, data)
		if err != nil {
			t.Errorf("%s: %v", line[1], err)
			continue
		}
		if got := string(turn.ToolCalls[0].Args); got != line[2] {
			t.Errorf("%s gives %s, the page says %s", line[1], got, line[2])
		}
	}
}

// rows are the fields that tables of a text explain.
func rows(text string) []string {
	var out []string
	for _, m := range row.FindAllStringSubmatch(text, -1) {
		out = append(out, m[1])
	}
	return out
}

// named are the fields in the sentence that list finds.
func named(list *regexp.Regexp, text string) []string {
	var out []string
	for _, m := range list.FindAllStringSubmatch(text, -1) {
		for _, f := range ticked.FindAllStringSubmatch(m[1], -1) {
			out = append(out, f[1])
		}
	}
	return out
}

// nested is a line of YAML that says a field and nothing else.
func nested(field, value string) string {
	keys := strings.Split(strings.ReplaceAll(field, "<name>", "some"), ".")
	if list, ok := strings.CutSuffix(keys[0], "[]"); ok { // of objects with a name
		return list + ": [{name: some, " + keys[1] + ": " + wrapped(keys[2:], value) + "}]\n"
	}
	return keys[0] + ": " + wrapped(keys[1:], value) + "\n"
}

func wrapped(keys []string, value string) string {
	if len(keys) == 0 {
		return value
	}
	return "{" + keys[0] + ": " + wrapped(keys[1:], value) + "}"
}

// load loads a least project with one file of its own, which must be refused
// with a code.
func load(t *testing.T, file, text string, code fault.Code) {
	t.Helper()
	dir := t.TempDir()
	for _, k := range kinds {
		write(t, dir, k.file, k.least)
	}
	write(t, dir, file, text)
	_, err := agent.Load(dir)
	var faults agent.Faults
	if !errors.As(err, &faults) || len(faults) != 1 || fault.CodeOf(faults[0].Err) != code {
		t.Errorf("%s with\n%sgot %v, want one %s", file, text, err, code)
	}
}

func write(t *testing.T, dir, name, text string) {
	t.Helper()
	file := filepath.Join(dir, filepath.FromSlash(name))
	if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

// below reports whether field is other or stands inside of it.
func below(field, other string) bool {
	rest, ok := strings.CutPrefix(field, other)
	return ok && (rest == "" || rest[0] == '.' || rest[0] == '[')
}

// instance reports whether the keys of an example are the field.
func instance(keys, field string) bool {
	ok, err := path.Match(strings.ReplaceAll(strings.NewReplacer("[]", "#", ".", "/").Replace(field), "<name>", "*"),
		strings.NewReplacer("[]", "#", ".", "/").Replace(keys))
	return err == nil && ok
}

// keysOf are the paths of all keys of a document.
func keysOf(v any, at string) []string {
	var out []string
	switch v := v.(type) {
	case map[string]any:
		for k, item := range v {
			name := strings.TrimPrefix(at+"."+k, ".")
			out = append(append(out, name), keysOf(item, name)...)
		}
	case []any:
		for _, item := range v {
			out = append(out, keysOf(item, at+"[]")...)
		}
	}
	return out
}
