package agent_test

import (
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"github.com/rogpeppe/go-internal/txtar"
	"pgregory.net/rapid"

	"github.com/crumbmesh/crumbmesh/pkg/agent"
	"github.com/crumbmesh/crumbmesh/pkg/crumbs"
	"github.com/crumbmesh/crumbmesh/pkg/fault"
	"github.com/crumbmesh/crumbmesh/pkg/perm"
)

// publisher is the checked definition of the project in testdata.
func publisher(t testing.TB) *agent.Definition {
	t.Helper()
	p, err := agent.Load(unpack(t, "testdata/load/publisher.txtar"))
	if err != nil {
		t.Fatal(err)
	}
	return p.Agents[0]
}

// clone is d after a way over the wire.
func clone(t testing.TB, d *agent.Definition) *agent.Definition {
	t.Helper()
	text, err := json.Marshal(d)
	if err != nil {
		t.Fatal(err)
	}
	c, err := agent.Decode(text)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func TestDefinition_CF_O16_twentyStepsByDefault(t *testing.T) {
	t.Parallel()
	if got := publisher(t).Steps.Max; got != 20 {
		t.Errorf("steps.max = %d, want 20", got)
	}
}

func TestDefinition_CF_R09_retryDefaults(t *testing.T) {
	t.Parallel()
	want := &agent.Retry{Attempts: 3, BackoffMs: 500, BackoffMultiplier: 2}
	if d := cmp.Diff(want, publisher(t).ErrorHandling.Retry); d != "" {
		t.Error(d)
	}
}

func TestDefinition_L2_withoutPromptTheSystemPromptIsEmpty(t *testing.T) {
	t.Parallel()
	p, err := agent.Load(unpack(t, "testdata/load/publisher.txtar"))
	if err != nil {
		t.Fatal(err)
	}
	if p.Agents[0].System != "You publish documents.\n" || p.Agents[1].System != "" {
		t.Errorf("system prompts %q and %q", p.Agents[0].System, p.Agents[1].System)
	}
}

func TestDefinition_schemasKeepKeyOrderAndNumberText(t *testing.T) {
	t.Parallel()
	tool, ok := publisher(t).Tool("word_count")
	if !ok {
		t.Fatal("no tool word_count")
	}
	want := `{"type":"object","properties":{"zeta":{"type":"integer","maximum":1.0},"text":{"type":"string","default":""}},"required":["text"]}`
	if string(tool.Schema) != want {
		t.Errorf("schema\n%s\nwant\n%s", tool.Schema, want)
	}
}

func TestRevision_form(t *testing.T) {
	t.Parallel()
	if rev := publisher(t).Revision(); !regexp.MustCompile(`^rev_[0-9a-f]{16}$`).MatchString(rev) {
		t.Errorf("revision %q", rev)
	}
}

func TestRevision_survivesTheWireAndTheOrderOfFiles(t *testing.T) {
	t.Parallel()
	d := publisher(t)
	want := d.Revision()
	if got := clone(t, d).Revision(); got != want {
		t.Fatalf("revision %s after a way over the wire, want %s", got, want)
	}
	rapid.Check(t, func(r *rapid.T) {
		c := *d
		c.Tools = rapid.Permutation(d.Tools).Draw(r, "tools")
		if got := c.Revision(); got != want {
			r.Fatalf("revision %s, want %s", got, want)
		}
	})
}

func TestRevision_sameForFilesWrittenInAnotherOrder(t *testing.T) {
	t.Parallel()
	a, err := txtar.ParseFile("testdata/load/publisher.txtar")
	if err != nil {
		t.Fatal(err)
	}
	slices.Reverse(a.Files)
	p, err := agent.Load(write(t, slices.DeleteFunc(a.Files, func(f txtar.File) bool { return strings.HasPrefix(f.Name, "want-") })))
	if err != nil {
		t.Fatal(err)
	}
	if got, want := p.Agents[0].Revision(), publisher(t).Revision(); got != want {
		t.Errorf("revision %s, want %s", got, want)
	}
}

// Every leaf of the document counts: change one, and the revision changes.
func TestRevision_changesWithEveryField(t *testing.T) {
	t.Parallel()
	d := publisher(t)
	text, err := json.Marshal(d)
	if err != nil {
		t.Fatal(err)
	}
	leaves := 0
	for _, path := range leafPaths(t, text) {
		leaves++
		var c agent.Definition
		if err := json.Unmarshal(changed(t, text, path), &c); err != nil {
			t.Fatalf("%v: %v", path, err)
		}
		if c.Revision() == d.Revision() {
			t.Errorf("a change at %v leaves the revision as it is", path)
		}
	}
	if leaves < 50 {
		t.Errorf("the example has only %d leaves", leaves)
	}
}

func TestRevision_numbersBeyondFloat64Count(t *testing.T) {
	t.Parallel()
	d := agent.Definition{Scripts: map[string]agent.Script{"m": {Name: "m", Turns: []agent.Turn{{JSON: json.RawMessage("9007199254740993")}}}}}
	before := d.Revision()
	d.Scripts["m"].Turns[0].JSON = json.RawMessage("9007199254740992")
	if d.Revision() == before {
		t.Error("two numbers that are one float64 share a revision")
	}
}

// The document names every field of the Go type, so a field without a JSON name
// or one that is not stored cannot slip in.
func TestDefinition_everyFieldIsStored(t *testing.T) {
	t.Parallel()
	for _, v := range []any{agent.Definition{}, agent.Model{}, agent.Tool{}, agent.Exec{}, agent.Worker{}, agent.Human{}, agent.Retry{}, agent.Script{}, agent.Turn{}, agent.ScriptCall{}, agent.TurnError{}, agent.Announcement{}, agent.Output{}, agent.CustomFormat{}, agent.Provider{}, agent.Hook{}, agent.HookWorker{}, agent.Hooks{}, agent.Plugin{}, agent.Shared{}, agent.Approval{}} {
		typ := reflect.TypeOf(v)
		for i := range typ.NumField() {
			if !typ.Field(i).IsExported() { // made from the others
				continue
			}
			if tag, _, _ := strings.Cut(typ.Field(i).Tag.Get("json"), ","); tag == "" || tag == "-" {
				t.Errorf("%s.%s has no JSON name", typ.Name(), typ.Field(i).Name)
			}
		}
	}
}

func TestDecode_fillsDefaultsIn(t *testing.T) {
	t.Parallel()
	d, err := agent.Decode([]byte(`{
		"id": "a", "model": {"provider": "anthropic", "model": "claude"},
		"errorHandling": {"retry": {"attempts": 2}},
		"tools": [
			{"name": "count", "description": "Counts.", "exec": {"argv": ["wc"]}},
			{"name": "ask", "description": "Asks.", "human": {}},
			{"name": "pay", "worker": {"group": "g", "tool": "pay"}}
		],
		"scripts": {"m": {"turns": [{"text": "hello"}]}}
	}`))
	if err != nil {
		t.Fatal(err)
	}
	want := &agent.Definition{
		ID: "a", Model: agent.Model{Provider: "anthropic", Model: "claude"},
		Output: agent.Output{Format: "text"}, Steps: agent.Steps{Max: 20},
		ErrorHandling: agent.ErrorHandling{Retry: &agent.Retry{Attempts: 2, BackoffMs: 500, BackoffMultiplier: 2}},
		Tools: []agent.Tool{
			{Name: "count", Description: "Counts.", Exec: &agent.Exec{Argv: []string{"wc"}, Group: "scripts", Handler: "a/count"}, Effect: crumbs.EffectOnce, TimeoutMs: 60_000},
			{Name: "ask", Description: "Asks.", Human: &agent.Human{ExpiresMs: 24 * 3600_000}},
			{Name: "pay", Worker: &agent.Worker{Group: "g", Tool: "pay"}},
		},
		Scripts: map[string]agent.Script{"m": {Name: "m", Turns: []agent.Turn{{Text: "hello"}}}},
	}
	if d := cmp.Diff(want, d, cmpopts.IgnoreUnexported(agent.Definition{})); d != "" {
		t.Error(d)
	}
}

func TestDecode_refusesWhatIsNoDefinition(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		text, want string
		code       fault.Code
	}{
		"nothing":   {``, "the document cannot be read", fault.InvalidConfig},
		"list":      {`[]`, "cannot be a JSON array", fault.InvalidConfig},
		"unknown":   {`{"id":"a","budget":{}}`, `unknown field "budget"`, fault.InvalidConfig},
		"kind":      {`{"id":7}`, "id cannot be a JSON number", fault.InvalidConfig},
		"duplicate": {`{"permissions":{"deny":["tool:x"]},"permissions":{}}`, "permissions", fault.InvalidConfig},
		"two":       {`{} {}`, "", fault.InvalidConfig},
		"large":     {`{"id":"` + strings.Repeat("a", agent.DefinitionBytesMax) + `"}`, "bytes as JSON", fault.PayloadTooLarge},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, err := agent.Decode([]byte(c.text))
			if fault.CodeOf(err) != c.code || !strings.Contains(err.Error(), c.want) {
				t.Errorf("got %v, want %s with %q", err, c.code, c.want)
			}
		})
	}
}

// What files may not say, a definition over the wire may not say either.
func TestCheck_theRulesOfFilesHoldOverTheWire(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		change func(*agent.Definition)
		want   string
	}{
		"id":        {func(d *agent.Definition) { d.ID, d.Tools = "A.b", nil }, `agent: INVALID_NAME: agent name "A.b": expected a lowercase letter, then up to 63 of a-z 0-9 _ -; did you mean "a_b"?`},
		"CF-P26":    {func(d *agent.Definition) { d.Permissions.Deny = []string{"mpc:*"} }, `agent.yaml: INVALID_PERMISSION: permissions.deny[0]: selector "mpc:*": unknown scope "mpc", expected one of tool, skill, task, plugin, core, action`},
		"too many":  {func(d *agent.Definition) { d.Permissions.Ask = make([]string, perm.SelectorsMax+1) }, "agent.yaml: INVALID_PERMISSION: permissions.ask: expected at most 1024 selectors, got 1025; use globs"},
		"steps":     {func(d *agent.Definition) { d.Steps.Max = 0 }, "agent.yaml: INVALID_CONFIG: steps.max: expected an integer from 1 to 10000, got 0"},
		"format":    {func(d *agent.Definition) { d.Output.Format = "json" }, "agent.yaml: INVALID_CONFIG: output.format: json has no tools, so nobody would ever be asked tools/headline.yaml: remove the file, or use another format"},
		"hook":      {func(d *agent.Definition) { d.Hooks.OnError = []agent.Hook{{Name: "x"}} }, "agent.yaml: INVALID_CONFIG: hooks.onError[0]: expected one of worker ({group: …, hook: …}), exec (a command) or nats (a subject), got none"},
		"parser":    {func(d *agent.Definition) { d.Output.Format = "custom" }, "agent.yaml: INVALID_CONFIG: output.format: expected {custom: …}, the name of a parser"},
		"no parser": {func(d *agent.Definition) { d.Output.Custom = &agent.CustomFormat{Name: "x", Group: "g"} }, "agent.yaml: INVALID_CONFIG: output.custom: only the format custom has a parser"},
		"suspends": {func(d *agent.Definition) {
			d.Tools[2].Hooks.OnSuspend = []agent.Hook{{Name: "x", NATS: "a.b", Group: "g"}}
		}, "tools/word_count.yaml: INVALID_CONFIG: hooks.onSuspend: a tool never suspends"},
		"hook of a question": {func(d *agent.Definition) {
			d.Tools[0].Hooks.OnError = []agent.Hook{{Name: "x", NATS: "a.b", Group: "g"}}
		}, "tools/headline.yaml: INVALID_CONFIG: hooks: a question has no hooks"},
		"plugin":       {func(d *agent.Definition) { d.Plugins = map[string]json.RawMessage{"x": json.RawMessage("{")} }, "agent.yaml: INVALID_CONFIG: plugins.x: the document cannot be read"},
		"script":       {func(d *agent.Definition) { d.Model.Model = "gone" }, "agent.yaml: INVALID_CONFIG: model.model: the provider script reads scripts/gone.yaml, which is not there (there is publish)"},
		"tool twice":   {func(d *agent.Definition) { d.Tools = append(d.Tools, d.Tools[0]) }, `tools/headline.yaml: INVALID_CONFIG: a second tool "headline": one file, one tool`},
		"no kind":      {func(d *agent.Definition) { d.Tools[0].Human = nil }, "tools/headline.yaml: INVALID_CONFIG: exec: expected one of exec (a command), worker (a tool that a worker announced) or human (a question), got none"},
		"L8":           {func(d *agent.Definition) { d.Tools[0].Name = "Head\nLine" }, `tools/Head Line.yaml: INVALID_NAME: tool name "Head\nLine": expected lowercase snake_case, at most 32 characters`},
		"effect":       {func(d *agent.Definition) { d.Tools[2].Effect = "twice" }, `tools/word_count.yaml: INVALID_CONFIG: effect: expected pure, idempotent or once, got "twice"`},
		"handler":      {func(d *agent.Definition) { d.Tools[2].Exec.Handler = "other/word_count" }, `tools/word_count.yaml: INVALID_CONFIG: exec.handler: expected "publisher/word_count", got "other/word_count"`},
		"command":      {func(d *agent.Definition) { d.Tools[2].Exec.Argv = []string{"a\x00b"} }, "tools/word_count.yaml: INVALID_CONFIG: exec[0]: a word of a command cannot hold a zero byte"},
		"long command": {func(d *agent.Definition) { d.Tools[2].Exec.Argv = make([]string, 65) }, "tools/word_count.yaml: INVALID_CONFIG: exec: expected a command as a list of words, like [node, search.js], got nothing"},
		"dir":          {func(d *agent.Definition) { d.Tools[2].Exec.Dir = "../../../../etc" }, `tools/word_count.yaml: INVALID_CONFIG: dir: expected a folder inside the project, relative to the file and with slashes, got "../../../../etc"`},
		"schema":       {func(d *agent.Definition) { d.InputSchema = json.RawMessage(`{"$ref":"https://example.com/x"}`) }, "agent.yaml: INVALID_CONFIG: inputSchema: the JSON Schema is not usable: it refers to https://example.com/x: expected a reference inside the schema, like #/$defs/name"},
		"args": {func(d *agent.Definition) {
			d.Scripts["publish"].Turns[0].ToolCalls[0].Args = json.RawMessage(`{"a":"{{"}`)
		}, "scripts/publish.yaml: INVALID_CONFIG: turns[0].toolCalls[0].args.a: the template fails: line 1: unclosed action"},
		"script name": {func(d *agent.Definition) {
			d.Scripts["publish"] = agent.Script{Name: "x", Turns: d.Scripts["publish"].Turns}
		}, `scripts/publish.yaml: INVALID_CONFIG: name: expected "publish", the key of the script, got "x"`},
		"prompt": {func(d *agent.Definition) { d.System = strings.Repeat("a", agent.DefinitionBytesMax) }, "agent.yaml: PAYLOAD_TOO_LARGE: the definition has"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d := clone(t, publisher(t))
			if err := d.Check(); err != nil {
				t.Fatal(err)
			}
			c.change(d)
			err := d.Check()
			if err == nil || !strings.HasPrefix(err.Error(), c.want) || strings.Contains(err.Error(), "\n") {
				t.Errorf("got  %v\nwant %s", err, c.want)
			}
		})
	}
}

func TestCheck_tooManyToolsAndScripts(t *testing.T) {
	t.Parallel()
	d := clone(t, publisher(t))
	d.Tools = make([]agent.Tool, agent.ToolsMax+1)
	for i := 0; i <= agent.ScriptsMax; i++ {
		d.Scripts[strings.Repeat("x", i+1)] = agent.Script{}
	}
	err := d.Check()
	for _, want := range []string{"the agent has 129 tools: expected at most 128", "the agent has 66 scripts: expected at most 64"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %q", err, want)
		}
	}
}

func TestFaults_listIsBoundedAndSummarised(t *testing.T) {
	t.Parallel()
	d := clone(t, publisher(t))
	d.Permissions.Deny = slices.Repeat([]string{"*"}, agent.FaultsMax+7)
	var faults agent.Faults
	if err := d.Check(); !errors.As(err, &faults) || len(faults) != agent.FaultsMax+1 {
		t.Fatalf("got %d faults, want %d", len(faults), agent.FaultsMax+1)
	}
	if last := faults[agent.FaultsMax].Err.Message; !strings.HasPrefix(last, "and 7 more faults") {
		t.Errorf("the last one says %q", last)
	}
	sum := faults[:2].Summary()
	want := "agent.yaml: INVALID_PERMISSION: permissions.deny[0]"
	if sum.Code != fault.InvalidPermission || !strings.HasPrefix(sum.Message, want) || len(sum.Context["faults"].([]string)) != 2 {
		t.Errorf("summary %v with %v", sum, sum.Context)
	}
	if agent.Faults(nil).Summary() != nil {
		t.Error("no faults have a summary")
	}
}

func TestExecTools(t *testing.T) {
	t.Parallel()
	dir := unpack(t, "testdata/load/publisher.txtar")
	p, err := agent.Load(dir)
	if err != nil {
		t.Fatal(err)
	}
	got := p.ExecTools()
	if len(got) != 1 {
		t.Fatalf("%d exec tools, want 1", len(got))
	}
	e := got[0]
	if info, err := os.Stat(filepath.Join(e.Dir, e.Argv[1])); err != nil || info.IsDir() {
		t.Errorf("the command does not run beside its tool file: %v", err)
	}
	if e.Agent != "publisher" || e.Announcement.Handler != "publisher/word_count" || e.Announcement.Group != agent.DefaultGroup || !slices.Equal(e.Env, []string{"LC_ALL"}) {
		t.Errorf("got %+v", e)
	}
	if err := e.Announcement.Check(); err != nil {
		t.Error(err)
	}
}
