package perm_test

import (
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/crumbmesh/crumbmesh/pkg/fault"
	"github.com/crumbmesh/crumbmesh/pkg/perm"
)

func selector(t testing.TB, text string) perm.Selector {
	t.Helper()
	s, err := perm.ParseSelector(text)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// matches checks that a selector matches the first ids and none of the others.
func matches(t *testing.T, text string, yes, no []string) {
	t.Helper()
	s := selector(t, text)
	for _, id := range yes {
		if !s.Match(origin(t, id)) {
			t.Errorf("%s does not match %s", text, id)
		}
	}
	for _, id := range no {
		if s.Match(origin(t, id)) {
			t.Errorf("%s matches %s", text, id)
		}
	}
}

func refusedSelectors(t *testing.T, texts ...string) {
	t.Helper()
	for _, text := range texts {
		_, err := perm.ParseSelector(text)
		f := refusal(t, err, fault.InvalidPermission)
		if f.Context["selector"] != text {
			t.Errorf("%q: context %v", text, f.Context)
		}
		if !strings.Contains(f.Message, "expected") && !strings.Contains(f.Message, "remove it") {
			t.Errorf("%q: the message does not say what to do: %s", text, f.Message)
		}
	}
}

func TestSelector_CF_P04_parse(t *testing.T) {
	t.Parallel()
	for _, text := range []string{
		"tool:web_search", "tool:*", "plugin:fs/read", "plugin:*", "skill:deep_research/*", "plugin:*/flush", "plugin:*/*",
		"action:refund", "action:*", "task:a", "core:doc_*", "tool:**", "tool:*_x", "tool:get_*_by_id", "plugin:mcp_*/read_*",
	} {
		if got := selector(t, text).String(); got != text {
			t.Errorf("%q reads as %q", text, got)
		}
	}
}

func TestSelector_CF_P06_refused(t *testing.T) {
	t.Parallel()
	refusedSelectors(t, "*", "tool", "tool:", "mpc:*", "human:approve", "human:*", "TOOL:x", ":x")
}

func TestSelector_CF_P07_refused(t *testing.T) {
	t.Parallel()
	refusedSelectors(t, "tool:has-dash", "tool:_x", "tool:1x", "tool: x", "tool:é", "tool:a:b")
}

func TestSelector_P7_shape(t *testing.T) {
	t.Parallel()
	refusedSelectors(t,
		"tool:a/b", "task:a/b", "core:a/b", "action:a/*", "tool:*/*",
		"plugin:a", "skill:a", "plugin:**", "plugin:/x", "plugin:x/", "plugin:a/b/c", "plugin:*/", "skill:_a/b", "skill:a/_b", "")
}

func TestSelector_b5_systemIsNotTargetable(t *testing.T) {
	t.Parallel()
	refusedSelectors(t, "system:*", "system:get_tool_schema")
}

// F001–F005, F008, F009 are about argument patterns; there are none.
func TestSelector_F008_argumentPatternsAreRefused(t *testing.T) {
	t.Parallel()
	refusedSelectors(t, "shell(git log *)", "tool:shell(git push*)", "tool:fs_read(", "tool:shell()", "plugin:fs/read(/etc/**)")
}

func TestSelector_tooLong(t *testing.T) {
	t.Parallel()
	refusedSelectors(t, "tool:"+strings.Repeat("a", perm.SelectorMax))
	_, err := perm.ParseSelector("tool:" + strings.Repeat("é", 10_000))
	if f := refusal(t, err, fault.InvalidPermission); len(f.Message) > 1000 {
		t.Errorf("the message repeats %d bytes", len(f.Message))
	}
}

func TestSelector_CF_P09_scopeAndSub(t *testing.T) {
	t.Parallel()
	matches(t, "plugin:fs/read", []string{"plugin:fs/read"}, []string{"plugin:fs/write", "plugin:gh/read", "skill:fs/read", "tool:read"})
	matches(t, "plugin:*", []string{"plugin:fs/read", "plugin:gh/write"}, []string{"tool:read", "skill:fs/read"})
	matches(t, "plugin:fs/*", []string{"plugin:fs/read", "plugin:fs/write"}, []string{"plugin:gh/read"})
	matches(t, "plugin:*/read", []string{"plugin:fs/read", "plugin:gh/read"}, []string{"plugin:fs/write"})
	matches(t, "plugin:*/*", []string{"plugin:fs/read"}, []string{"skill:fs/read"})
	matches(t, "skill:deep_research/*", []string{"skill:deep_research/cite"}, []string{"skill:deep/cite", "plugin:deep_research/cite"})
}

func TestSelector_CF_P10_prefix(t *testing.T) {
	t.Parallel()
	matches(t, "tool:read_*", []string{"tool:read_file", "tool:read_url", "tool:read_"}, []string{"tool:write_file", "tool:read", "task:read_file"})
}

func TestSelector_CF_P11_middle(t *testing.T) {
	t.Parallel()
	matches(t, "tool:get_*_by_id", []string{"tool:get_user_by_id", "tool:get__by_id", "tool:get_by_id_by_id"}, []string{"tool:get_user_by_name", "tool:get_by_id"})
	matches(t, "tool:*a*b*", []string{"tool:ab", "tool:xaxbx", "tool:a_a_b_b"}, []string{"tool:ba", "tool:a"})
	matches(t, "tool:a**b", []string{"tool:ab", "tool:a_b"}, []string{"tool:a", "tool:abc"})
}

func TestSelector_CF_P13_globStaysInItsSegment(t *testing.T) {
	t.Parallel()
	refusedSelectors(t, "plugin:m*")
	matches(t, "plugin:m*/x", []string{"plugin:mcp/x"}, []string{"plugin:mcp/y_x", "plugin:a/x"})
	if selector(t, "plugin:a*c/d").Match(perm.Origin{Scope: perm.Plugin, Sub: "a/b", Name: "c/d"}) {
		t.Error("a glob crossed a slash")
	}
}

func TestSelector_P11_corePrefixIsOneName(t *testing.T) {
	t.Parallel()
	for _, text := range []string{"core:doc_ingest", "core:core_doc_ingest", "core:core_*", "core:doc_*", "core:core_doc_*"} {
		for _, name := range []string{"doc_ingest", "core_doc_ingest"} {
			if !selector(t, text).Match(perm.Origin{Scope: perm.Core, Name: name}) {
				t.Errorf("%s does not match the core tool %s", text, name)
			}
		}
	}
	matches(t, "core:doc_*", nil, []string{"core:kg_store", "tool:doc_ingest"})
}

func TestSelector_zeroAndInvalidOriginsNeverMatch(t *testing.T) {
	t.Parallel()
	var zero perm.Selector
	if zero.Match(perm.Origin{}) || zero.Match(perm.Origin{Scope: perm.Tool, Name: "a"}) {
		t.Error("the zero selector matches")
	}
	if selector(t, "tool:*").Match(perm.Origin{Scope: perm.Tool, Name: "A"}) {
		t.Error("a selector matches an invalid origin")
	}
}

func TestRuleSelector_b5_mayNameHuman(t *testing.T) {
	t.Parallel()
	s, err := perm.ParseRuleSelector("human:conf*")
	if err != nil || !s.Match(perm.Origin{Scope: perm.Human, Name: "confirm"}) || s.Match(perm.Origin{Scope: perm.Tool, Name: "confirm"}) {
		t.Errorf("%v, %v", s, err)
	}
	for _, text := range []string{"system:*", "human", "human:a/b", "mpc:*"} {
		_, err := perm.ParseRuleSelector(text)
		refusal(t, err, fault.InvalidPermission)
	}
}

// anyOrigin draws origins from few names, so that equal ones are common.
func anyOrigin() *rapid.Generator[perm.Origin] {
	return rapid.Custom(func(t *rapid.T) perm.Origin {
		name := rapid.SampledFrom([]string{"a", "b", "ab", "a_b", "b_c", "read", "read_", "read_file", "core_a", "core_1"})
		o := perm.Origin{Scope: rapid.SampledFrom(perm.Scopes()).Draw(t, "scope"), Name: name.Draw(t, "name")}
		if o.Scope == perm.Skill || o.Scope == perm.Plugin {
			o.Sub = name.Draw(t, "sub")
		}
		return o
	})
}

func anySelector() *rapid.Generator[string] {
	segment := rapid.StringMatching(`(\*|[abcr])[ab_e*]{0,3}`)
	return rapid.Custom(func(t *rapid.T) string {
		scope := rapid.SampledFrom([]string{"tool", "skill", "task", "plugin", "core", "action"}).Draw(t, "scope")
		if scope == "skill" || scope == "plugin" {
			return scope + ":" + segment.Draw(t, "sub") + "/" + segment.Draw(t, "name")
		}
		return scope + ":" + segment.Draw(t, "name")
	})
}

func TestSelector_equalToThePermIDMatchesThatOriginOnly(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		a, b := anyOrigin().Draw(t, "a"), anyOrigin().Draw(t, "b")
		idA, errA := perm.PermID(a)
		idB, errB := perm.PermID(b)
		if errA != nil || errB != nil {
			t.Fatal(errA, errB)
		}
		s, err := perm.ParseSelector(idA)
		if (err == nil) != a.Scope.Targetable() {
			t.Fatalf("%s: %v", idA, err)
		}
		if err == nil && (!s.Match(a) || s.Match(b) != (idA == idB)) {
			t.Fatalf("%s: matches itself %v, %s %v", s, s.Match(a), idB, s.Match(b))
		}
	})
}

// The matcher agrees with the definition of a star, by trying every split.
func TestSelector_globAgreesWithItsDefinition(t *testing.T) {
	t.Parallel()
	var means func(pattern, name string) bool
	means = func(pattern, name string) bool {
		if pattern == "" {
			return name == ""
		}
		if pattern[0] != '*' {
			return name != "" && name[0] == pattern[0] && means(pattern[1:], name[1:])
		}
		for i := 0; i <= len(name); i++ {
			if means(pattern[1:], name[i:]) {
				return true
			}
		}
		return false
	}
	rapid.Check(t, func(t *rapid.T) {
		pattern := rapid.StringMatching(`(\*|[ab])[ab_*]{0,6}`).Draw(t, "pattern")
		name := rapid.StringMatching(`[ab][ab_]{0,8}`).Draw(t, "name")
		s, err := perm.ParseSelector("tool:" + pattern)
		if err != nil {
			t.Fatal(err)
		}
		if got, want := s.Match(perm.Origin{Scope: perm.Tool, Name: name}), means(pattern, name); got != want {
			t.Fatalf("%s and %s: %v, want %v", pattern, name, got, want)
		}
	})
}

// Whatever stands on one side of the slash, the other side decides on its own.
func TestSelector_globNeverCrossesTheSlash(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		segment := rapid.StringMatching(`(\*|[ab])[ab_*]{0,4}`)
		name := rapid.StringMatching(`[ab][ab_]{0,5}`)
		ps, pn := segment.Draw(t, "sub pattern"), segment.Draw(t, "name pattern")
		sub, tool := name.Draw(t, "sub"), name.Draw(t, "name")
		both, err := perm.ParseSelector("plugin:" + ps + "/" + pn)
		left, errLeft := perm.ParseSelector("tool:" + ps)
		right, errRight := perm.ParseSelector("tool:" + pn)
		if err != nil || errLeft != nil || errRight != nil {
			t.Fatal(err, errLeft, errRight)
		}
		got := both.Match(perm.Origin{Scope: perm.Plugin, Sub: sub, Name: tool})
		want := left.Match(perm.Origin{Scope: perm.Tool, Name: sub}) && right.Match(perm.Origin{Scope: perm.Tool, Name: tool})
		if got != want {
			t.Fatalf("%s on %s/%s: %v, want %v", both, sub, tool, got, want)
		}
	})
}

func FuzzParseSelector(f *testing.F) {
	for _, seed := range []string{
		"tool:web_search", "tool:*", "plugin:fs/read", "plugin:*", "plugin:*/*", "skill:deep_research/*", "core:core_*", "tool:get_*_by_id",
		"*", "tool", "tool:", "mpc:*", "human:*", "system:x", "TOOL:x", ":x", "tool:é", "tool:a:b", "plugin:m*", "plugin:/x", "tool:shell(x)", "tool:\x00", "tool:a\n",
	} {
		f.Add(seed, "read_file")
	}
	f.Fuzz(func(t *testing.T, text, name string) {
		s, err := perm.ParseSelector(text)
		if err != nil {
			if refusal(t, err, fault.InvalidPermission).Context["selector"] == nil {
				t.Error("the context lacks the selector")
			}
			return
		}
		if s.String() != text || len(text) > perm.SelectorMax || strings.Count(text, "/") > 1 {
			t.Errorf("%q was read as %q", text, s)
		}
		scope, rest, _ := strings.Cut(text, ":")
		if !perm.Scope(scope).Targetable() {
			t.Errorf("%q names an untargetable scope", text)
		}
		for _, o := range []perm.Origin{{Scope: perm.Tool, Name: name}, {Scope: perm.Plugin, Sub: name, Name: name}, {Scope: perm.Human, Name: name}} {
			if s.Match(o) && (o.Check() != nil || string(o.Scope) != scope) {
				t.Errorf("%q matches %+v", text, o)
			}
		}
		if exact, err := perm.ParsePermID(text); err == nil && !s.Match(exact) && !strings.Contains(rest, "*") {
			t.Errorf("%q does not match itself", text)
		}
	})
}
