package agent_test

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"pgregory.net/rapid"

	"github.com/crumbmesh/crumbmesh/pkg/agent"
	"github.com/crumbmesh/crumbmesh/pkg/crumbs"
	"github.com/crumbmesh/crumbmesh/pkg/fault"
	"github.com/crumbmesh/crumbmesh/pkg/perm"
)

// registry is what workers announced, by group and name.
type registry map[string]agent.Announcement

// announced looks tools up; hooks and parsers stand under their kind.
func (r registry) announced(kind agent.Announced, group, handler string) (agent.Announcement, bool) {
	if kind != agent.AnnouncedTool {
		group = string(kind) + " " + group
	}
	a, ok := r[group+"/"+handler]
	return a, ok
}

func (r registry) around(hasQueue func(group string) bool) agent.Surroundings {
	return agent.Surroundings{Announced: r.announced, HasQueue: hasQueue}
}

func anyGroup(string) bool { return true }

func pay() agent.Announcement {
	return agent.Announcement{
		Group: "demo", Handler: "publish", Description: "Publishes.",
		Schema:       json.RawMessage(`{"type":"object","properties":{"title":{"type":"string"}}}`),
		OutputSchema: json.RawMessage(`{"type":"object"}`),
		Effect:       crumbs.EffectOnce, Stream: true, TimeoutMs: 9000, IdleTimeoutMs: 900,
	}
}

func assembled(t testing.TB, d *agent.Definition) *agent.ToolSet {
	t.Helper()
	set, _, err := agent.Assemble(d, registry{"demo/publish": pay()}.around(anyGroup))
	if err != nil {
		t.Fatal(err)
	}
	return set
}

func TestAssemble_everyKind(t *testing.T) {
	t.Parallel()
	d := publisher(t)
	count, _ := d.Tool("word_count")
	headline, _ := d.Tool("headline")
	n := pay()
	want := []agent.Entry{
		{
			Origin: perm.Origin{Scope: perm.Human, Name: "headline"}, PermID: "human:headline", Leaf: "human_headline", Kind: agent.KindHuman,
			Description: "Asks for a headline.", Schema: headline.Schema, Verdict: agent.VerdictAllow, Human: headline.Human,
		},
		{
			Origin: perm.Origin{Scope: perm.Tool, Name: "publish"}, PermID: "tool:publish", Leaf: "tool_publish", Kind: agent.KindWorker,
			Group: "demo", Handler: "publish", ToolHash: n.Hash(), Description: "Publishes.", Schema: n.Schema, OutputSchema: n.OutputSchema,
			Effect: crumbs.EffectOnce, Stream: true, TimeoutMs: 9000, IdleTimeoutMs: 900, Verdict: agent.VerdictAsk, Rule: "tool:publish",
		},
		{
			Origin: perm.Origin{Scope: perm.Tool, Name: "word_count"}, PermID: "tool:word_count", Leaf: "tool_word_count", Kind: agent.KindWorker,
			Group: "scripts", Handler: "publisher/word_count", ToolHash: count.Announcement().Hash(), Description: "Counts words.", Schema: count.Schema,
			Effect: crumbs.EffectPure, TimeoutMs: 5000, Verdict: agent.VerdictAllow,
		},
	}
	if d := cmp.Diff(want, assembled(t, d).Entries, cmpopts.IgnoreUnexported(agent.Entry{})); d != "" {
		t.Error(d)
	}
}

func TestAssemble_execToolIsWhatItsFolderAnnounces(t *testing.T) {
	t.Parallel()
	p, err := agent.Load(unpack(t, "testdata/load/publisher.txtar"))
	if err != nil {
		t.Fatal(err)
	}
	entry, ok := assembled(t, p.Agents[0]).Lookup("tool_word_count")
	if announced := p.ExecTools()[0].Announcement; !ok || entry.ToolHash != announced.Hash() || entry.Handler != announced.Handler {
		t.Errorf("entry %+v, announcement %+v", entry, announced)
	}
}

// An approval is of what runs: another command is another tool.
func TestAssemble_anotherCommandIsAnotherTool(t *testing.T) {
	t.Parallel()
	d := publisher(t)
	before, _ := assembled(t, d).Lookup("tool_word_count")
	for name, change := range map[string]func(*agent.Exec){
		"argv": func(e *agent.Exec) { e.Argv = []string{"sh", "other.sh"} },
		"env":  func(e *agent.Exec) { e.Env = append(e.Env, "HOME") },
		"dir":  func(e *agent.Exec) { e.Dir = ".." },
	} {
		c := clone(t, d)
		tool := slices.IndexFunc(c.Tools, func(t agent.Tool) bool { return t.Name == "word_count" })
		change(c.Tools[tool].Exec)
		if after, _ := assembled(t, c).Lookup("tool_word_count"); after.ToolHash == before.ToolHash {
			t.Errorf("%s: the tool's hash does not change", name)
		}
	}
}

func TestAssemble_fileOverridesAnnouncement(t *testing.T) {
	t.Parallel()
	schema := json.RawMessage(`{"type":"object","required":["title"]}`)
	d := definition(agent.Tool{
		Name: "send", Description: "Sends.", Worker: &agent.Worker{Group: "demo", Tool: "publish"},
		Schema: schema, OutputSchema: json.RawMessage(`true`), Effect: crumbs.EffectPure, TimeoutMs: 1, IdleTimeoutMs: 2,
	})
	set, warnings, err := agent.Assemble(d, registry{"demo/publish": pay()}.around(anyGroup))
	if err != nil {
		t.Fatal(err)
	}
	e := set.Entries[0]
	if e.Description != "Sends." || string(e.Schema) != string(schema) || string(e.OutputSchema) != "true" || e.Effect != crumbs.EffectPure || e.TimeoutMs != 1 || e.IdleTimeoutMs != 2 {
		t.Errorf("got %+v", e)
	}
	if e.ToolHash != pay().Hash() || !e.Stream || e.Handler != "publish" {
		t.Errorf("what is the worker's was changed: %+v", e)
	}
	if len(warnings) != 1 || !strings.Contains(warnings[0], "tool:send: the tool file says effect pure, its worker announced once") {
		t.Errorf("warnings %q", warnings)
	}
}

func TestAssemble_announcedDefaults(t *testing.T) {
	t.Parallel()
	d := definition(agent.Tool{Name: "plain", Worker: &agent.Worker{Group: "demo", Tool: "plain"}, IdleTimeoutMs: 5})
	set, warnings, err := agent.Assemble(d, registry{"demo/plain": {Group: "demo", Handler: "plain"}}.around(anyGroup))
	if err != nil {
		t.Fatal(err)
	}
	e := set.Entries[0]
	if e.Effect != crumbs.EffectOnce || e.TimeoutMs != agent.DefaultTimeoutMs || string(e.Schema) != `{"type":"object"}` || e.IdleTimeoutMs != 0 {
		t.Errorf("got %+v", e)
	}
	if len(warnings) != 1 || !strings.Contains(warnings[0], "idleTimeoutMs has no effect") {
		t.Errorf("warnings %q", warnings)
	}
}

func definition(tools ...agent.Tool) *agent.Definition {
	return &agent.Definition{ID: "a", Tools: tools}
}

func worker(name, group string) agent.Tool {
	return agent.Tool{Name: name, Worker: &agent.Worker{Group: group, Tool: name}}
}

func TestAssemble_faults(t *testing.T) {
	t.Parallel()
	known := registry{
		"demo/publish": pay(),
		"demo/broken":  {Group: "demo", Handler: "broken", Schema: json.RawMessage(`{"type":"strng"}`)},
		"demo/forged":  pay(),
		"none/lonely":  {Group: "none", Handler: "lonely"},
	}
	for name, c := range map[string]struct {
		d    *agent.Definition
		code fault.Code
		want string
	}{
		"not announced": {definition(worker("publish", "demo"), worker("gone", "demo")), fault.ToolNotFound, `tool:gone: no worker of group "demo" has announced a tool "gone"`},
		"no queue":      {definition(worker("lonely", "none")), fault.ToolGroupUnknown, `tool:lonely: the group "none" has no queue`},
		"exec no queue": {definition(agent.Tool{Name: "x", Exec: &agent.Exec{Argv: []string{"x"}, Group: "none", Handler: "a/x"}}), fault.ToolGroupUnknown, `tool:x: the group "none" has no queue`},
		"collision":     {definition(worker("publish", "demo"), worker("publish", "demo")), fault.ToolNameCollision, "tool_publish"},
		"unusable":      {definition(worker("broken", "demo")), fault.InvalidConfig, `tool:broken: what group "demo" announced as "broken" is not usable: schema`},
		"another's":     {definition(worker("forged", "demo")), fault.InvalidConfig, `tool:forged: looked for "forged" of group "demo", got the announcement of "publish"`},
		"no kind":       {definition(agent.Tool{Name: "x"}), fault.InvalidConfig, "tool:x: expected one of exec, worker or human"},
		"name":          {definition(agent.Tool{Name: "X", Human: &agent.Human{}}), fault.InvalidName, "X"},
		"selector":      {&agent.Definition{Permissions: perm.Lists{Deny: []string{"mpc:*"}}}, fault.InvalidPermission, "mpc"},
		"first by name": {definition(worker("zz_gone", "demo"), worker("lonely", "none"), worker("gone", "demo")), fault.ToolNotFound, "tool:gone"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			set, _, err := agent.Assemble(c.d, known.around(func(group string) bool { return group != "none" }))
			if set != nil || fault.CodeOf(err) != c.code || !strings.Contains(err.Error(), c.want) {
				t.Errorf("got %v, want %s with %q", err, c.code, c.want)
			}
		})
	}
}

func TestAssemble_CF_P24_deniedToolsNeitherCollideNorNeedAWorker(t *testing.T) {
	t.Parallel()
	d := definition(worker("gone", "none"), worker("gone", "none"), worker("publish", "demo"))
	d.Permissions = perm.Lists{Deny: []string{"tool:gone", "tool:nosuch"}}
	set, warnings, err := agent.Assemble(d, registry{"demo/publish": pay()}.around(func(group string) bool { return group == "demo" }))
	if err != nil {
		t.Fatal(err)
	}
	if got := set.Leaves(); !slices.Equal(got, []string{"tool_publish"}) {
		t.Errorf("leaves %q", got)
	}
	if len(warnings) != 1 || !strings.Contains(warnings[0], `"tool:nosuch" matches none`) {
		t.Errorf("warnings %q", warnings)
	}
}

func TestAssemble_CF_P21_humanToolsAreAlwaysThere(t *testing.T) {
	t.Parallel()
	d := clone(t, publisher(t))
	d.Permissions = perm.Lists{Allow: []string{"tool:nosuch"}, Deny: []string{"tool:*"}}
	if got := assembled(t, d).Leaves(); !slices.Equal(got, []string{"human_headline"}) {
		t.Errorf("leaves %q", got)
	}
}

func TestToolSet_hash(t *testing.T) {
	t.Parallel()
	d := publisher(t)
	set := assembled(t, d)
	want := set.Hash()
	if len(want) != 64 {
		t.Fatalf("hash %q", want)
	}
	text, err := json.Marshal(set)
	if err != nil {
		t.Fatal(err)
	}
	var back agent.ToolSet
	if err := json.Unmarshal(text, &back); err != nil {
		t.Fatal(err)
	}
	if got := back.Hash(); got != want {
		t.Errorf("hash %s after a way through the store, want %s", got, want)
	}
	for _, path := range leafPaths(t, text) {
		var other agent.ToolSet
		if err := json.Unmarshal(changed(t, text, path), &other); err != nil {
			t.Fatalf("%v: %v", path, err)
		}
		if other.Hash() == want {
			t.Errorf("a change at %v leaves the hash as it is", path)
		}
	}
	rapid.Check(t, func(r *rapid.T) {
		c := *d
		c.Tools = rapid.Permutation(d.Tools).Draw(r, "tools")
		if got := assembled(t, &c).Hash(); got != want {
			r.Fatalf("hash %s in another order, want %s", got, want)
		}
	})
}

func TestToolSet_specs(t *testing.T) {
	t.Parallel()
	set := assembled(t, publisher(t))
	specs := set.Specs()
	if !slices.IsSortedFunc(specs, func(a, b crumbs.ToolSpec) int { return strings.Compare(a.Name, b.Name) }) || len(specs) != 3 {
		t.Errorf("specs %+v", specs)
	}
	for _, s := range specs {
		e, ok := set.Lookup(s.Name)
		if !ok || e.Leaf != s.Name || e.Description != s.Description || string(e.Schema) != string(s.InputSchema) {
			t.Errorf("Lookup(%s) = %+v, %v", s.Name, e, ok)
		}
	}
	for _, name := range []string{"", "publish", "tool_publis", "tool_publishx"} {
		if e, ok := set.Lookup(name); ok || e != nil {
			t.Errorf("Lookup(%q) found %+v", name, e)
		}
	}
}

func TestToolSet_F082_closeNamesAreFewAndVisible(t *testing.T) {
	t.Parallel()
	var tools []agent.Tool
	known := registry{}
	for _, name := range []string{"read_document", "read_documents", "read_docs", "read_doc", "write_document", "secret_read_document", "publish"} {
		tools = append(tools, worker(name, "demo"))
		known["demo/"+name] = agent.Announcement{Group: "demo", Handler: name}
	}
	d := definition(tools...)
	d.Permissions.Deny = []string{"tool:secret_*"}
	set, _, err := agent.Assemble(d, known.around(anyGroup))
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string][]string{
		"read_document":           {"tool_read_document", "tool_read_documents"},
		"tool_raed_document":      {"tool_read_document", "tool_read_documents", "tool_write_document"},
		"tool_pblish":             {"tool_publish"},
		"TOOL_PUBLISH":            {"tool_publish"},
		"nosuch":                  nil,
		"":                        nil,
		strings.Repeat("x", 1000): nil,
	} {
		if got := set.Close(name); !slices.Equal(got, want) {
			t.Errorf("Close(%.20q) = %q, want %q", name, got, want)
		}
	}
	if got := set.Close("tool_secret_read_document"); slices.Contains(got, "tool_secret_read_document") {
		t.Errorf("a denied name leaks: %q", got)
	}
}
