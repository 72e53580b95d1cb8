package perm_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/crumbmesh/crumbmesh/pkg/fault"
	"github.com/crumbmesh/crumbmesh/pkg/perm"
)

// refusal returns err as a fault, which must have that code.
func refusal(t testing.TB, err error, code fault.Code) *fault.Error {
	t.Helper()
	var f *fault.Error
	if !errors.As(err, &f) || f.Code != code {
		t.Fatalf("got error %v, want a fault %s", err, code)
	}
	return f
}

func origin(t testing.TB, id string) perm.Origin {
	t.Helper()
	o, err := perm.ParsePermID(id)
	if err != nil {
		t.Fatal(err)
	}
	return o
}

func origins(t testing.TB, ids ...string) []perm.Origin {
	t.Helper()
	var out []perm.Origin
	for _, id := range ids {
		out = append(out, origin(t, id))
	}
	return out
}

func TestOrigin_CF_P01_names(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"web_search", "a", "a1_b2", "read_", strings.Repeat("a", perm.NameMax)} {
		for _, o := range []perm.Origin{
			{Scope: perm.Tool, Name: name}, {Scope: perm.Task, Name: name}, {Scope: perm.Core, Name: name}, {Scope: perm.Action, Name: name},
			{Scope: perm.System, Name: name}, {Scope: perm.Human, Name: name},
			{Scope: perm.Skill, Sub: name, Name: "x"}, {Scope: perm.Skill, Sub: "x", Name: name},
			{Scope: perm.Plugin, Sub: name, Name: "x"}, {Scope: perm.Plugin, Sub: "x", Name: name},
		} {
			if err := o.Check(); err != nil {
				t.Errorf("%+v: %v", o, err)
			}
		}
	}
	for _, name := range []string{"1x", "Has_Upper", "has-dash", "has space", "a:b", "a/b", "", "_x", "é", "a*", "a\n", strings.Repeat("a", perm.NameMax+1)} {
		for _, tc := range []struct {
			o    perm.Origin
			kind string
		}{
			{perm.Origin{Scope: perm.Tool, Name: name}, "tool"},
			{perm.Origin{Scope: perm.Task, Name: name}, "task"},
			{perm.Origin{Scope: perm.Human, Name: name}, "human"},
			{perm.Origin{Scope: perm.Skill, Sub: "x", Name: name}, "tool"},
			{perm.Origin{Scope: perm.Skill, Sub: name, Name: "x"}, "skill"},
			{perm.Origin{Scope: perm.Plugin, Sub: name, Name: "x"}, "plugin"},
		} {
			f := refusal(t, tc.o.Check(), fault.InvalidName)
			if f.Context["kind"] != tc.kind || f.Context["value"] != name {
				t.Errorf("%+v: context %v, want kind %q, value %q", tc.o, f.Context, tc.kind, name)
			}
		}
	}
}

func TestOrigin_scopeAndSub(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		o           perm.Origin
		kind, value string
	}{
		{perm.Origin{Scope: "mcp", Name: "x"}, "scope", "mcp"},
		{perm.Origin{Name: "x"}, "scope", ""},
		{perm.Origin{Scope: perm.Tool, Sub: "s", Name: "x"}, "sub", "s"},
		{perm.Origin{Scope: perm.System, Sub: "s", Name: "x"}, "sub", "s"},
	} {
		f := refusal(t, tc.o.Check(), fault.InvalidName)
		if f.Context["kind"] != tc.kind || f.Context["value"] != tc.value {
			t.Errorf("%+v: context %v", tc.o, f.Context)
		}
	}
}

func TestLeaf_CF_P02_everyScope(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		o        perm.Origin
		leaf, id string
	}{
		{perm.Origin{Scope: perm.Tool, Name: "web_search"}, "tool_web_search", "tool:web_search"},
		{perm.Origin{Scope: perm.Task, Name: "doc_extract"}, "task_doc_extract", "task:doc_extract"},
		{perm.Origin{Scope: perm.Core, Name: "doc_ingest"}, "core_doc_ingest", "core:doc_ingest"},
		{perm.Origin{Scope: perm.Core, Name: "core_doc_ingest"}, "core_doc_ingest", "core:doc_ingest"},
		{perm.Origin{Scope: perm.Core, Name: "core_1x"}, "core_1x", "core:core_1x"},
		{perm.Origin{Scope: perm.Human, Name: "approve"}, "human_approve", "human:approve"},
		{perm.Origin{Scope: perm.Skill, Sub: "deep_research", Name: "cite"}, "skill_deep_research_cite", "skill:deep_research/cite"},
		{perm.Origin{Scope: perm.Plugin, Sub: "metrics", Name: "flush"}, "plugin_metrics_flush", "plugin:metrics/flush"},
		{perm.Origin{Scope: perm.Action, Name: "refund"}, "action_refund", "action:refund"},
		{perm.Origin{Scope: perm.System, Name: "get_tool_schema"}, "system_get_tool_schema", "system:get_tool_schema"},
	} {
		leaf, err := perm.Leaf(tc.o)
		if err != nil || leaf != tc.leaf {
			t.Errorf("Leaf(%+v) = %q, %v; want %q", tc.o, leaf, err, tc.leaf)
		}
		id, err := perm.PermID(tc.o)
		if err != nil || id != tc.id {
			t.Errorf("PermID(%+v) = %q, %v; want %q", tc.o, id, err, tc.id)
		}
		back, err := perm.ParsePermID(id)
		if again, _ := perm.PermID(back); err != nil || again != id {
			t.Errorf("ParsePermID(%q) = %+v, %v", id, back, err)
		}
	}
}

func TestLeaf_CF_P03_pluginWithoutSub(t *testing.T) {
	t.Parallel()
	for _, scope := range []perm.Scope{perm.Plugin, perm.Skill} {
		_, leafErr := perm.Leaf(perm.Origin{Scope: scope, Name: "x"})
		_, idErr := perm.PermID(perm.Origin{Scope: scope, Name: "x"})
		for _, err := range []error{leafErr, idErr} {
			if f := refusal(t, err, fault.InvalidName); f.Context["kind"] != string(scope) || f.Context["value"] != "" {
				t.Errorf("context %v", f.Context)
			}
		}
	}
}

func TestLeaf_bound(t *testing.T) {
	t.Parallel()
	o := perm.Origin{Scope: perm.Plugin, Sub: "mcp_client", Name: strings.Repeat("a", perm.LeafMax-len("plugin_mcp_client_"))}
	if leaf, err := perm.Leaf(o); err != nil || len(leaf) != perm.LeafMax {
		t.Errorf("%q, %v", leaf, err)
	}
	o.Name += "a"
	if err := o.Check(); err != nil {
		t.Errorf("the name alone is fine: %v", err)
	}
	_, err := perm.Leaf(o)
	if f := refusal(t, err, fault.InvalidName); f.Context["kind"] != "leaf" {
		t.Errorf("context %v", f.Context)
	}
	o.Name = strings.Repeat("a", perm.PluginToolMax+1)
	refusal(t, o.Check(), fault.InvalidName)
}

func TestParsePermID_refusals(t *testing.T) {
	t.Parallel()
	for _, id := range []string{"", "tool", "tool:", "tool:a/b", "plugin:a", "plugin:a/", "plugin:/a", "plugin:a/b/c", "mcp:a", "TOOL:a", "tool:*"} {
		_, err := perm.ParsePermID(id)
		refusal(t, err, fault.InvalidName)
	}
}
