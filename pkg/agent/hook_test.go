package agent_test

import (
	"encoding/json"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/crumbmesh/crumbmesh/pkg/agent"
	"github.com/crumbmesh/crumbmesh/pkg/crumbs"
	"github.com/crumbmesh/crumbmesh/pkg/fault"
)

func TestLoad_hooks(t *testing.T) {
	t.Parallel()
	p, err := loaded(t, "hooks")
	if err != nil {
		t.Fatal(err)
	}
	for _, d := range p.Agents {
		if err := d.Check(); err != nil {
			t.Errorf("%s: what loads does not pass Check: %v", d.ID, err)
		}
	}
	if err := p.Shared.Check(); err != nil {
		t.Error(err)
	}
}

func TestLoad_hooksAreRefusedWithTheirPlace(t *testing.T) {
	t.Parallel()
	refused(t, "hooks_broken", fault.InvalidConfig, fault.InvalidName, fault.UnknownProvider)
}

func TestLoad_whatNeverDoesAnythingIsWarnedOf(t *testing.T) {
	t.Parallel()
	if _, err := loaded(t, "inert"); err != nil {
		t.Error(err)
	}
}

// An alias is resolved when the project is read, so that the revision pins what it
// stood for.
func TestLoad_aliases(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{"": "demo", "model: fast\n": "demo", "model: deep\n": "other"} {
		dir := unpack(t, filepath.Join("testdata", "load", "hooks.txtar"))
		appendTo(t, filepath.Join(dir, "agents/clerk/agent.yaml"), text)
		appendTo(t, filepath.Join(dir, "agents/clerk/scripts/other.yaml"), "turns: [{text: b}]\n")
		p, err := agent.Load(dir)
		if err != nil {
			t.Fatal(err)
		}
		if m := p.Agents[0].Model; m.Model != want || m.Provider != "rehearsal" {
			t.Errorf("%q: model %+v", text, m)
		}
	}
}

// An instance of the agent's own wins over the project's, and its calls have a
// queue of their own.
func TestDefinition_queue(t *testing.T) {
	t.Parallel()
	d := agent.Definition{Model: agent.Model{Provider: "rehearsal"}}
	if got := d.Queue(); got != "rehearsal" {
		t.Errorf("queue %s", got)
	}
	d.Providers = map[string]agent.Provider{"rehearsal": {Kind: agent.ScriptProvider}}
	if got := d.Queue(); got != agent.OwnProvider {
		t.Errorf("queue %s of an own instance", got)
	}
}

// What a text format gives is a text: only a schema that lets nothing else through
// loads.
func TestDecode_schemasOfTexts(t *testing.T) {
	t.Parallel()
	for schema, ok := range map[string]bool{
		`{"type":"string"}`: true, `{"type":["string"]}`: true, `{"const":"a"}`: true, `{"enum":["a","b"]}`: true,
		`{"$ref":"#/$defs/t","$defs":{"t":{"type":"string","minLength":1}}}`: true,
		`{"allOf":[{"minLength":1},{"type":"string"}]}`:                      true,
		`{"anyOf":[{"type":"string"},{"const":"x"}]}`:                        true,
		`{"oneOf":[{"type":"string"},{"type":"integer"}]}`:                   false,
		`{"type":["string","null"]}`:                                         false,
		`{"type":"object"}`:                                                  false, `{}`: false, `true`: false, `{"enum":["a",1]}`: false, `{"minLength":1}`: false,
		`{"$ref":"#/$defs/t","$defs":{"t":{"type":"integer"}}}`: false,
		`{"$ref":"#"}`: false,
		`{"$ref":"#/$defs/t","$defs":{"t":{"$ref":"#/$defs/t"}}}`: false,
	} {
		for _, format := range []string{agent.FormatText, agent.FormatMarkdown} {
			text := `{"id":"a","model":{"provider":"p","model":"m"},"output":{"format":"` + format + `"},"outputSchema":` + schema + `}`
			_, err := agent.Decode([]byte(text))
			if (err == nil) != ok || (!ok && !strings.Contains(err.Error(), "lets only strings through")) {
				t.Errorf("%s with %s: %v", format, schema, err)
			}
		}
		for _, output := range []string{`{"format":"json","repair":10}`, `{"format":"custom","custom":{"name":"lines"}}`} {
			if _, err := agent.Decode([]byte(`{"id":"a","model":{"provider":"p","model":"m"},"output":` + output + `,"outputSchema":` + schema + `}`)); err != nil {
				t.Errorf("%s with %s: %v", output, schema, err)
			}
		}
	}
}

// The schemas of a definition are compiled once, and checked by whoever asks.
func TestDefinition_schemas_CF_E02(t *testing.T) {
	t.Parallel()
	d, err := agent.Decode([]byte(`{"id":"a","model":{"provider":"p","model":"m"},"output":{"format":"json"},
		"inputSchema":{"type":"object","properties":{"n":{"type":"integer","default":5}}},"outputSchema":{"type":"array"}}`))
	if err != nil {
		t.Fatal(err)
	}
	for range 2 { // before and after Compile
		in, err := d.Input()
		if err != nil {
			t.Fatal(err)
		}
		if full, err := in.Fill(json.RawMessage(`{}`)); err != nil || string(full) != `{"n":5}` {
			t.Errorf("filled %s, %v", full, err)
		}
		if err := in.Check(fault.InvalidInput, json.RawMessage(`{"n":"x"}`)); fault.CodeOf(err) != fault.InvalidInput {
			t.Errorf("got %v", err)
		}
		out, err := d.OutputOf()
		if err != nil || out.Check(fault.OutputInvalid, json.RawMessage(`[]`)) != nil || out.Check(fault.OutputInvalid, json.RawMessage(`{}`)) == nil {
			t.Errorf("the schema of the output: %v", err)
		}
		if err := d.Compile(); err != nil {
			t.Fatal(err)
		}
	}
	var none agent.Definition
	if s, err := none.Input(); s != nil || err != nil || none.Compile() != nil {
		t.Errorf("a definition without schemas has %v, %v", s, err)
	}
}

// What agents share comes over the wire under the rules of crumb.yaml.
func TestDecodeShared(t *testing.T) {
	t.Parallel()
	p := chained(t)
	text, err := json.Marshal(p.Shared)
	if err != nil {
		t.Fatal(err)
	}
	back, err := agent.DecodeShared(text)
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(p.Shared, back); d != "" {
		t.Error(d)
	}
	filled, err := agent.DecodeShared(json.RawMessage(`{"hooks":{"onError":[{"nats":"ops.a"}]}}`))
	want := agent.Hook{Name: "project_on_error", NATS: "ops.a", Group: agent.DefaultGroup, TimeoutMs: agent.DefaultHookTimeoutMs}
	if d := cmp.Diff([]agent.Hook{want}, filled.Hooks.OnError); err != nil || d != "" {
		t.Errorf("%v %s", err, d)
	}
	for _, nothing := range []string{"", "null", "{}"} {
		if s, err := agent.DecodeShared(json.RawMessage(nothing)); err != nil || len(s.Plugins) != 0 {
			t.Errorf("%q: %+v, %v", nothing, s, err)
		}
	}
	for text, want := range map[string]string{
		`{"hook":{}}`:                   `INVALID_CONFIG: what agents share: unknown field "hook"`,
		`{"plugins":[{"name":"A"}]}`:    `crumb.yaml: INVALID_NAME: plugins[0].name: plugin name "A"`,
		`{"plugins":[{"name":"hook"}]}`: `crumb.yaml: INVALID_NAME: plugins[0].name: plugin name "hook" is taken`,
		`{"hooks":{"beforeRun":[{}]}}`:  `crumb.yaml: INVALID_CONFIG: hooks.beforeRun[0]: expected one of worker`,
		`{"hooks":{"onError":[{"nats":"` + strings.Repeat("a", agent.SharedBytesMax) + `"}]}}`: `PAYLOAD_TOO_LARGE: the hooks and plugins of crumb.yaml have`,
	} {
		if _, err := agent.DecodeShared(json.RawMessage(text)); err == nil || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("got  %v\nwant %s", err, want)
		}
	}
	many := agent.Shared{Hooks: agent.Hooks{BeforeRun: make([]agent.Hook, agent.HooksMax+1)}}
	if err := many.Check(); err == nil || !strings.Contains(err.Error(), "expected at most 16 hooks, got 17") {
		t.Errorf("got %v", err)
	}
}

// An agent may be called as the project's hooks are kept: no handler is served
// twice.
func TestExecTools_handlersAreApart(t *testing.T) {
	t.Parallel()
	p := agent.Project{Agents: []*agent.Definition{{ID: "hooks", Hooks: one(crumbs.HookBeforeRun)}}, Shared: agent.Shared{Hooks: one(crumbs.HookBeforeRun), Plugins: []agent.Plugin{{Name: "hooks", Hooks: one(crumbs.HookBeforeRun)}}}}
	p.Agents[0].Tools = []agent.Tool{{Name: "before_run", Exec: &agent.Exec{Argv: []string{"a"}, Group: "g", Handler: "hooks/before_run"}, Hooks: one(crumbs.HookBeforeRun)}}
	seen := map[string]bool{}
	for _, e := range p.ExecTools() {
		if key := e.Announcement.Key(); seen[key] {
			t.Errorf("%s twice", key)
		} else {
			seen[key] = true
		}
	}
	if len(seen) != 5 {
		t.Errorf("%d served: %v", len(seen), seen)
	}
}

func one(string) agent.Hooks {
	return agent.Hooks{BeforeRun: []agent.Hook{{Name: "x", Exec: []string{"a"}, Group: "g", TimeoutMs: 1}}}
}
