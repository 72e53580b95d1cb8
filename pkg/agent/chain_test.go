package agent_test

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/crumbmesh/crumbmesh/pkg/agent"
	"github.com/crumbmesh/crumbmesh/pkg/crumbs"
	"github.com/crumbmesh/crumbmesh/pkg/fault"
	"github.com/crumbmesh/crumbmesh/pkg/perm"
)

// chained is a project in which every file has hooks of every form.
func chained(t testing.TB) *agent.Project {
	t.Helper()
	p, err := agent.Load(unpack(t, "testdata/load/hooks.txtar"))
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// told is what workers announced to that project.
func told() registry {
	return registry{
		"hook audit/note":    {Kind: agent.AnnouncedHook, Group: "audit", Handler: "note", Points: crumbs.HookPoints()},
		"hook audit/cache":   {Kind: agent.AnnouncedHook, Group: "audit", Handler: "cache", Points: []string{crumbs.HookBeforeRun}, Effect: crumbs.EffectPure, TimeoutMs: 700},
		"parse audit/table":  {Kind: agent.AnnouncedParse, Group: "audit", Handler: "table"},
		"audit/confirm":      {Kind: agent.AnnouncedHuman, Group: "audit", Handler: "confirm", Description: "Asks.", Prompt: "Sure?", AnswerSchema: json.RawMessage(`{"type":"boolean"}`)},
		"audit/lookup":       {Group: "audit", Handler: "lookup", Description: "Looks up."},
		"audit/tail":         {Group: "audit", Handler: "tail", Description: "Follows.", Stream: true},
		"scripts/clerk/scan": {Group: "scripts", Handler: "clerk/scan", Description: "Scans."},
	}
}

func around(p *agent.Project, r registry) agent.Surroundings {
	s := r.around(anyGroup)
	s.Shared = p.Shared
	return s
}

// names are the sources and names of a chain.
func names(list []agent.HookEntry) []string {
	out := []string{}
	for _, e := range list {
		out = append(out, e.Source+" "+e.Name)
	}
	return out
}

func leaf(t testing.TB, set *agent.ToolSet, leaf string) *agent.Entry {
	t.Helper()
	e, ok := set.Lookup(leaf)
	if !ok {
		t.Fatalf("no %s among %v", leaf, set.Leaves())
	}
	return e
}

// The order of a chain is the file's own hooks, the plugins as crumb.yaml lists
// them, the project's; hooks of the project are called for runs and tools alike,
// onSuspend for runs only.
func TestAssemble_chains_CF_K09_CF_K19(t *testing.T) {
	t.Parallel()
	p := chained(t)
	set, _, err := agent.Assemble(p.Agents[0], around(p, told()))
	if err != nil {
		t.Fatal(err)
	}
	for point, want := range map[string][]string{
		crumbs.HookBeforeRun: {"agent clerk_before_run", "agent second", "plugin:audit note", "project project_before_run"},
		crumbs.HookAfterRun:  {"plugin:metrics metrics_after_run"},
		crumbs.HookOnError:   {"agent clerk_on_error", "project project_on_error", "project project_on_error_1"},
		crumbs.HookOnSuspend: {"agent note", "plugin:audit audit_on_suspend", "project note"},
	} {
		if d := cmp.Diff(want, names(set.Hooks.At(point))); d != "" {
			t.Errorf("the run's %s: %s", point, d)
		}
	}
	for point, want := range map[string][]string{
		crumbs.HookBeforeRun: {"tool cache", "plugin:audit note", "project project_before_run"},
		crumbs.HookAfterRun:  {"plugin:metrics metrics_after_run"},
		crumbs.HookOnError:   {"tool scan_on_error", "project project_on_error", "project project_on_error_1"},
		crumbs.HookOnSuspend: {},
	} {
		if d := cmp.Diff(want, names(leaf(t, set, "tool_scan").Hooks.At(point))); d != "" {
			t.Errorf("the tool's %s: %s", point, d)
		}
	}
}

// An entry is complete: the worker's announcement, what the file says over it, and
// for commands and subjects what toolexec announces.
func TestAssemble_hookEntries(t *testing.T) {
	t.Parallel()
	p := chained(t)
	known := told()
	set, _, err := agent.Assemble(p.Agents[0], around(p, known))
	if err != nil {
		t.Fatal(err)
	}
	scan := leaf(t, set, "tool_scan")
	cache := known["hook audit/cache"]
	want := agent.HookEntry{
		Name: "cache", Source: "tool", Advisory: true, Retry: &agent.Retry{Attempts: 2, BackoffMs: 500, BackoffMultiplier: 2},
		Program: agent.Program{Group: "audit", Handler: "cache", ToolHash: cache.Hash(), Effect: crumbs.EffectPure, TimeoutMs: 900},
	}
	if d := cmp.Diff(want, scan.Hooks.BeforeRun[0]); d != "" {
		t.Error(d)
	}
	served := map[string]agent.ExecTool{}
	for _, e := range p.ExecTools() {
		if err := e.Announcement.Check(); err != nil {
			t.Errorf("%s: %v", e.Announcement.Handler, err)
		}
		served[e.Announcement.Handler] = e
	}
	for handler, of := range map[string]agent.HookEntry{
		"clerk/hook-before_run-0":    set.Hooks.BeforeRun[0],
		"clerk/hook-scan-on_error-0": scan.Hooks.OnError[0],
		"hooks/metrics-after_run-0":  set.Hooks.AfterRun[0],
		"hooks/before_run-0":         set.Hooks.BeforeRun[3],
		"hooks/on_error-1":           set.Hooks.OnError[2],
	} {
		e, ok := served[handler]
		if !ok || of.Handler != handler || of.ToolHash != e.Announcement.Hash() || of.Group != e.Announcement.Group || of.Effect != crumbs.EffectIdempotent {
			t.Errorf("%s: the run has %+v, toolexec %+v", handler, of, e)
		}
	}
	if e := set.Hooks.OnError[2]; e.TimeoutMs != 1500 || set.Hooks.BeforeRun[0].TimeoutMs != agent.DefaultHookTimeoutMs {
		t.Errorf("timeouts %d and %d", e.TimeoutMs, set.Hooks.BeforeRun[0].TimeoutMs)
	}
	if e := served["hooks/metrics-after_run-0"]; e.NATS != "ops.notify" || e.Argv != nil || e.Agent != "" {
		t.Errorf("the subject is served as %+v", e)
	}
	if e := served["hooks/before_run-0"]; e.Dir != p.Dir {
		t.Errorf("the project's command runs in %s, want %s", e.Dir, p.Dir)
	}
}

// With nothing configured nothing is there, so that sets hash as they did before.
func TestAssemble_withoutHooksNothingIsPinned(t *testing.T) {
	t.Parallel()
	text, err := json.Marshal(assembled(t, publisher(t)))
	if err != nil {
		t.Fatal(err)
	}
	for _, field := range []string{`"hooks"`, `"parser"`, `"retry"`, `"keepPartials"`, `"hooksFirst"`} {
		if strings.Contains(string(text), field) {
			t.Errorf("the set has %s: %s", field, text)
		}
	}
}

// A tool that streams is not repeated and its failure stands; what is kept of it,
// when hooks come and how often it is tried is pinned.
func TestAssemble_toolsOfFiles(t *testing.T) {
	t.Parallel()
	p := chained(t)
	set, warnings, err := agent.Assemble(p.Agents[0], around(p, told()))
	if err != nil {
		t.Fatal(err)
	}
	scan, tail, lookup := leaf(t, set, "tool_scan"), leaf(t, set, "tool_tail"), leaf(t, set, "tool_lookup")
	if scan.Retry == nil || scan.Retry.Attempts != 3 || !scan.HooksFirst || scan.KeepPartials {
		t.Errorf("scan: %+v", scan)
	}
	if tail.Retry != nil || len(tail.Hooks.OnError) != 0 || !tail.KeepPartials || len(tail.Hooks.BeforeRun) == 0 {
		t.Errorf("tail: %+v", tail)
	}
	if lookup.KeepPartials {
		t.Error("a tool that does not stream keeps partial results")
	}
	for _, want := range []string{"tool:tail streams, so a failure of it stands", "tool:lookup: keepPartials has no effect", "human:confirm is a question, which nobody runs: timeoutMs, hooks of its tool file have no effect"} {
		if !slices.ContainsFunc(warnings, func(w string) bool { return strings.HasPrefix(w, want) }) {
			t.Errorf("no warning %q in %q", want, warnings)
		}
	}
}

// A question that a worker declared is one here: always there, whatever lists say,
// with what the file says over the announcement.
func TestAssemble_aWorkersQuestion_CF_P21(t *testing.T) {
	t.Parallel()
	p := chained(t)
	d := clone(t, p.Agents[0])
	d.Permissions = perm.Lists{Deny: []string{"tool:*"}}
	set, _, err := agent.Assemble(d, around(p, told()))
	if err != nil {
		t.Fatal(err)
	}
	want := agent.Entry{
		Origin: perm.Origin{Scope: perm.Human, Name: "confirm"}, PermID: "human:confirm", Leaf: "human_confirm", Kind: agent.KindHuman,
		Description: "Asks.", Schema: json.RawMessage(`{"type":"object"}`), Verdict: agent.VerdictAllow,
		Human: &agent.Human{AnswerSchema: json.RawMessage(`{"type":"boolean"}`), Prompt: "Really?", ExpiresMs: agent.DefaultExpiresMs},
	}
	if d := cmp.Diff([]agent.Entry{want}, set.Entries, cmp.Comparer(func(a, b agent.Entry) bool {
		left, _ := json.Marshal(a)
		right, _ := json.Marshal(b)
		return string(left) == string(right)
	})); d != "" {
		t.Error(d)
	}
}

// Structured output has no tools, whatever the folder holds: they need neither
// worker nor queue.
func TestAssemble_jsonHasNoTools_CF_O03(t *testing.T) {
	t.Parallel()
	p := chained(t)
	d := clone(t, p.Agents[0])
	d.Output = agent.Output{Format: agent.FormatJSON}
	known := told()
	delete(known, "audit/lookup")
	set, _, err := agent.Assemble(d, around(p, known))
	if err != nil || len(set.Specs()) != 0 || len(set.Hooks.At(crumbs.HookBeforeRun)) != 4 {
		t.Errorf("%d tools, %v, %v", len(set.Specs()), set.Hooks, err)
	}
}

func TestAssemble_parsers(t *testing.T) {
	t.Parallel()
	p := chained(t)
	for _, c := range []struct{ agent, handler, group string }{{"clerk", "table", "audit"}, {"lines", "lines/parse-lines", "scripts"}} {
		d := p.Agents[slices.IndexFunc(p.Agents, func(d *agent.Definition) bool { return string(d.ID) == c.agent })]
		set, _, err := agent.Assemble(d, around(p, told()))
		if err != nil {
			t.Fatal(err)
		}
		if set.Parser == nil || set.Parser.Handler != c.handler || set.Parser.Group != c.group || set.Parser.TimeoutMs == 0 || set.Parser.ToolHash == "" {
			t.Errorf("%s: parser %+v", c.agent, set.Parser)
		}
		set.QueueFor(func(group string) int64 { return int64(len(group)) })
		if set.Parser.StartBeforeMs != int64(len(c.group)) || set.Hooks.BeforeRun[0].StartBeforeMs == 0 {
			t.Errorf("%s: what waits in a queue is not bounded: %+v", c.agent, set)
		}
	}
}

// What is not announced, or as something else, is refused with what to do.
func TestAssemble_whatIsMissingIsNamed(t *testing.T) {
	t.Parallel()
	for want, change := range map[string]func(registry, *agent.Definition) func(string) bool{
		`HOOK_NOT_FOUND: hook note of the plugin audit at beforeRun: no worker of group "audit" has announced a hook "note"`: func(r registry, _ *agent.Definition) func(string) bool {
			delete(r, "hook audit/note")
			return anyGroup
		},
		`HOOK_NOT_FOUND: hook note of the agent clerk at onSuspend: the hook "note" of group "audit" was registered for beforeRun only`: func(r registry, _ *agent.Definition) func(string) bool {
			n := r["hook audit/note"]
			n.Points = []string{crumbs.HookBeforeRun}
			r["hook audit/note"] = n
			return anyGroup
		},
		`INVALID_CONFIG: hook cache of the tool scan at beforeRun: what group "audit" announced as "cache" is not usable`: func(r registry, _ *agent.Definition) func(string) bool {
			n := r["hook audit/cache"]
			n.Stream = true
			r["hook audit/cache"] = n
			return anyGroup
		},
		`PARSER_NOT_FOUND: parser table: no worker of group "audit" has announced a parser "table"`: func(r registry, _ *agent.Definition) func(string) bool {
			delete(r, "parse audit/table")
			return anyGroup
		},
		`TOOL_NOT_FOUND: tool:lookup: what a worker of group "audit" announced as "note" is no tool but a hook`: func(_ registry, d *agent.Definition) func(string) bool {
			d.Tools[slices.IndexFunc(d.Tools, func(t agent.Tool) bool { return t.Name == "lookup" })].Worker.Tool = "note"
			return anyGroup
		},
		`TOOL_GROUP_UNKNOWN: hook clerk_before_run of the agent clerk at beforeRun: the group "checks" has no queue`: func(registry, *agent.Definition) func(string) bool {
			return func(group string) bool { return group != "checks" }
		},
		`INVALID_CONFIG: tool:lookup: the tool file says human`: func(_ registry, d *agent.Definition) func(string) bool {
			d.Tools[slices.IndexFunc(d.Tools, func(t agent.Tool) bool { return t.Name == "lookup" })].Human = &agent.Human{Prompt: "?"}
			return anyGroup
		},
	} {
		p := chained(t)
		d, r := clone(t, p.Agents[0]), told()
		hasQueue := change(r, d)
		from := around(p, r)
		from.HasQueue = hasQueue
		if _, _, err := agent.Assemble(d, from); err == nil || !strings.HasPrefix(err.Error(), want) || fault.CodeOf(err) == "" {
			t.Errorf("got  %v\nwant %s", err, want)
		}
	}
}
