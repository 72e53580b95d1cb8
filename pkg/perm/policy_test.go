package perm_test

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/crumbmesh/crumbmesh/pkg/fault"
	"github.com/crumbmesh/crumbmesh/pkg/perm"
)

func policy(t testing.TB, l perm.Lists) *perm.Policy {
	t.Helper()
	p, err := perm.Compile(l)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// decides checks verdicts written as "id verdict [rule]".
func decides(t *testing.T, l perm.Lists, want ...string) {
	t.Helper()
	p := policy(t, l)
	for _, w := range want {
		id, rest, _ := strings.Cut(w, " ")
		d := p.Decide(origin(t, id))
		if got := strings.TrimSpace(string(d.Verdict) + " " + d.Rule); got != rest {
			t.Errorf("%+v: %s is %q, want %q", l, id, got, rest)
		}
	}
}

func TestPolicy_CF_P14_noListsAllowEverything(t *testing.T) {
	t.Parallel()
	for _, l := range []perm.Lists{{}, {Allow: []string{}, Ask: []string{}, Deny: []string{}}} {
		decides(t, l, "tool:a allow", "plugin:p/a allow", "skill:s/a allow", "task:a allow", "core:delegate allow", "action:a allow", "human:a allow", "system:a allow")
	}
	if d := new(perm.Policy).Decide(origin(t, "tool:a")); d.Verdict != perm.Allow {
		t.Errorf("the zero policy: %v", d)
	}
}

func TestPolicy_CF_P15_allowNarrows(t *testing.T) {
	t.Parallel()
	decides(t, perm.Lists{Allow: []string{"tool:a"}}, "tool:a allow tool:a", "tool:b absent", "plugin:p/a absent")
}

func TestPolicy_CF_P16_denyBeatsAllow(t *testing.T) {
	t.Parallel()
	decides(t, perm.Lists{Allow: []string{"tool:*"}, Deny: []string{"tool:a"}}, "tool:a deny tool:a", "tool:b allow tool:*")
	decides(t, perm.Lists{Allow: []string{"tool:a"}, Ask: []string{"tool:a"}, Deny: []string{"tool:*"}}, "tool:a deny tool:*")
}

func TestPolicy_CF_P17_askBeatsAllow(t *testing.T) {
	t.Parallel()
	decides(t, perm.Lists{Allow: []string{"tool:a"}, Ask: []string{"tool:a"}}, "tool:a ask tool:a")
	decides(t, perm.Lists{Allow: []string{"tool:a"}, Ask: []string{"tool:*"}}, "tool:a ask tool:*")
}

func TestPolicy_CF_P18_askAloneDoesNotNarrow(t *testing.T) {
	t.Parallel()
	decides(t, perm.Lists{Ask: []string{"tool:a"}}, "tool:a ask tool:a", "tool:b allow")
	decides(t, perm.Lists{Deny: []string{"tool:a"}}, "tool:a deny tool:a", "tool:b allow")
}

func TestPolicy_CF_P20_askAddsToAllow(t *testing.T) {
	t.Parallel()
	decides(t, perm.Lists{Allow: []string{"tool:a"}, Ask: []string{"tool:b"}}, "tool:a allow tool:a", "tool:b ask tool:b", "tool:c absent")
}

func TestPolicy_CF_P21_humanAlwaysAllowed(t *testing.T) {
	t.Parallel()
	for _, l := range []perm.Lists{
		{Allow: []string{"tool:none"}},
		{Ask: []string{"tool:*", "plugin:*", "skill:*", "task:*", "core:*", "action:*"}},
		{Deny: []string{"tool:*", "plugin:*", "skill:*", "task:*", "core:*", "action:*"}},
	} {
		decides(t, l, "human:approve allow", "system:get_tool_schema allow")
	}
}

func TestPolicy_P4_allowThatMatchesNothingLeavesHumans(t *testing.T) {
	t.Parallel()
	decides(t, perm.Lists{Allow: []string{"tool:none"}}, "tool:a absent", "core:delegate absent", "human:approve allow")
}

func TestPolicy_CF_P22_denyCoreTakesDelegate(t *testing.T) {
	t.Parallel()
	decides(t, perm.Lists{Deny: []string{"core:*"}}, "core:delegate deny core:*", "core:doc_ingest deny core:*", "tool:a allow")
	if policy(t, perm.Lists{Deny: []string{"core:*"}}).Decide(perm.Origin{Scope: perm.Core, Name: "core_delegate"}).Permitted() {
		t.Error("the prefixed spelling is not denied")
	}
}

func TestPolicy_CF_P26_malformedDenyFailsToLoad(t *testing.T) {
	t.Parallel()
	_, err := perm.Compile(perm.Lists{Deny: []string{"mpc:*"}})
	f := refusal(t, err, fault.InvalidPermission)
	if f.Context["selector"] != "mpc:*" || f.Context["list"] != "deny" || f.Context["index"] != 0 {
		t.Errorf("context %v", f.Context)
	}
}

func TestPolicy_F007_malformedInAnyListFails(t *testing.T) {
	t.Parallel()
	for _, bad := range []string{"mcp__*", "tool[a", "shell()", "tool:shell()", "*", "", "human:approve"} {
		for list, l := range map[string]perm.Lists{
			"allow": {Allow: []string{"tool:*", bad}},
			"ask":   {Ask: []string{"tool:*", bad}},
			"deny":  {Deny: []string{"tool:*", bad}},
		} {
			_, err := perm.Compile(l)
			f := refusal(t, err, fault.InvalidPermission)
			if !strings.Contains(f.Message, fmt.Sprintf("permissions.%s[1]: selector %q", list, bad)) {
				t.Errorf("%s %q: %s", list, bad, f.Message)
			}
			if f.Context["selector"] != bad || f.Context["list"] != list || f.Context["index"] != 1 {
				t.Errorf("%s %q: context %v", list, bad, f.Context)
			}
		}
	}
}

func TestPolicy_F007_everyMalformedSelectorIsNamed(t *testing.T) {
	t.Parallel()
	_, err := perm.Compile(perm.Lists{Allow: []string{"x"}, Ask: []string{"tool:*", "y"}, Deny: []string{"z"}})
	msg := refusal(t, err, fault.InvalidPermission).Message
	for _, part := range []string{`permissions.allow[0]: selector "x"`, `permissions.ask[1]: selector "y"`, `permissions.deny[0]: selector "z"`} {
		if !strings.Contains(msg, part) {
			t.Errorf("%q lacks %q", msg, part)
		}
	}
	_, err = perm.Compile(perm.Lists{Ask: slices.Repeat([]string{"tool:a"}, perm.SelectorsMax+1)})
	if f := refusal(t, err, fault.InvalidPermission); f.Context["list"] != "ask" {
		t.Errorf("context %v", f.Context)
	}
}

func TestPolicy_F011_precedenceIsNotFileOrder(t *testing.T) {
	t.Parallel()
	narrow, broad := "plugin:fs/read_util", "plugin:fs/read_*"
	for _, l := range []perm.Lists{
		{Allow: []string{narrow}, Deny: []string{broad}},
		{Allow: []string{"tool:x", narrow}, Deny: []string{broad, "tool:y"}},
		{Allow: []string{narrow, "tool:x"}, Deny: []string{"tool:y", broad}},
	} {
		decides(t, l, "plugin:fs/read_util deny "+broad)
	}
	// The rule named is the closest fit, in either order.
	decides(t, perm.Lists{Ask: []string{broad, narrow, "plugin:*"}}, "plugin:fs/read_util ask "+narrow, "plugin:fs/read_x ask "+broad, "plugin:fs/write ask plugin:*")
	decides(t, perm.Lists{Ask: []string{"plugin:*", narrow, broad}}, "plugin:fs/read_util ask "+narrow, "plugin:fs/read_x ask "+broad, "plugin:fs/write ask plugin:*")
}

func TestPolicy_F012_mergeOrderDoesNotMatter(t *testing.T) {
	t.Parallel()
	layers := map[string]perm.Lists{
		"global":  {Ask: []string{"plugin:*"}, Allow: []string{"tool:*"}},
		"project": {Ask: []string{"plugin:net/*"}, Allow: []string{"plugin:net/get"}},
		"agent":   {Deny: []string{"plugin:net/post"}},
	}
	for range 1000 {
		var all perm.Lists
		for _, l := range layers { // in an order that differs from time to time
			all.Allow, all.Ask, all.Deny = append(all.Allow, l.Allow...), append(all.Ask, l.Ask...), append(all.Deny, l.Deny...)
		}
		decides(t, all, "plugin:net/get ask plugin:net/*", "plugin:net/post deny plugin:net/post", "plugin:a/b ask plugin:*", "tool:a allow tool:*", "core:a absent")
	}
}

func TestPolicy_orderOfListsDoesNotMatter(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		list := rapid.SliceOfN(anySelector(), 0, 5)
		l := perm.Lists{Allow: list.Draw(t, "allow"), Ask: list.Draw(t, "ask"), Deny: list.Draw(t, "deny")}
		shuffled := perm.Lists{Allow: slices.Clone(l.Allow), Ask: slices.Clone(l.Ask), Deny: slices.Clone(l.Deny)}
		r := rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "order"), 1))
		for _, s := range [][]string{shuffled.Allow, shuffled.Ask, shuffled.Deny} {
			r.Shuffle(len(s), func(i, j int) { s[i], s[j] = s[j], s[i] })
		}
		one, err := perm.Compile(l)
		two, err2 := perm.Compile(shuffled)
		if err != nil || err2 != nil {
			t.Fatal(err, err2)
		}
		o := anyOrigin().Draw(t, "origin")
		if a, b := one.Decide(o), two.Decide(o); a != b {
			t.Fatalf("%+v: %v, shuffled %v", o, a, b)
		}
	})
}

// P1 and P2, told by sets instead of by precedence.
func TestPolicy_P1_effectiveSet(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		list := rapid.SliceOfN(anySelector(), 0, 4)
		l := perm.Lists{Allow: list.Draw(t, "allow"), Ask: list.Draw(t, "ask"), Deny: list.Draw(t, "deny")}
		p, err := perm.Compile(l)
		if err != nil {
			t.Fatal(err)
		}
		o := anyOrigin().Draw(t, "origin")
		in := func(list []string) bool {
			return slices.ContainsFunc(list, func(text string) bool {
				s, err := perm.ParseSelector(text)
				return err == nil && s.Match(o)
			})
		}
		free := !o.Scope.Targetable()
		permitted := free || (len(l.Allow) == 0 || in(l.Allow) || in(l.Ask)) && !in(l.Deny)
		d := p.Decide(o)
		if d.Permitted() != permitted || (d.Verdict == perm.Ask) != (permitted && !free && in(l.Ask)) || (d.Verdict == perm.Deny) != in(l.Deny) {
			t.Fatalf("%+v on %+v: %v", l, o, d)
		}
		if d.Rule != "" && !in([]string{d.Rule}) {
			t.Fatalf("the rule %s does not match %+v", d.Rule, o)
		}
	})
}

func TestPolicy_invalidOriginIsAbsent(t *testing.T) {
	t.Parallel()
	p := policy(t, perm.Lists{Deny: []string{"tool:*"}})
	for _, o := range []perm.Origin{{}, {Scope: perm.Tool, Name: "A"}, {Scope: perm.Plugin, Name: "a"}, {Scope: "Tool", Name: "a"}, {Scope: perm.Human, Name: "a/b"}} {
		if d := p.Decide(o); d.Verdict != perm.Absent || d.Permitted() {
			t.Errorf("%+v: %v", o, d)
		}
	}
}

func TestPolicy_unmatched(t *testing.T) {
	t.Parallel()
	p := policy(t, perm.Lists{Allow: []string{"tool:z*", "tool:a"}, Ask: []string{"plugin:*", "tool:typo"}, Deny: []string{"core:*", "tool:typo"}})
	got := p.Unmatched(origins(t, "tool:a", "core:delegate", "human:approve"))
	if diff := cmp.Diff([]string{"tool:z*", "plugin:*", "tool:typo"}, got); diff != "" {
		t.Error(diff)
	}
	if got := policy(t, perm.Lists{}).Unmatched(nil); got != nil {
		t.Error(got)
	}
}

func TestLists_readFromJSON(t *testing.T) {
	t.Parallel()
	var l perm.Lists
	if err := json.Unmarshal([]byte(`{"allow":["tool:*"],"ask":["plugin:mcp_client/*"],"deny":["tool:x"]}`), &l); err != nil {
		t.Fatal(err)
	}
	decides(t, l, "tool:x deny tool:x", "plugin:mcp_client/fs__read ask plugin:mcp_client/*", "tool:y allow tool:*")
}

func TestCollisions_CF_P24_sameLeaf(t *testing.T) {
	t.Parallel()
	all := origins(t, "tool:dup", "tool:dup", "tool:other")
	f := refusal(t, perm.Collisions(all), fault.ToolNameCollision)
	if f.Context["leaf"] != "tool_dup" || !strings.Contains(f.Message, "tool:dup") {
		t.Errorf("%v %v", f, f.Context)
	}
	// Denied duplicates are not passed on, so they do not collide.
	p := policy(t, perm.Lists{Deny: []string{"tool:dup"}})
	permitted := slices.DeleteFunc(slices.Clone(all), func(o perm.Origin) bool { return !p.Decide(o).Permitted() })
	if err := perm.Collisions(permitted); err != nil || len(permitted) != 1 {
		t.Errorf("%v, %v", permitted, err)
	}
}

func TestCollisions_P13_leafIsNotInjective(t *testing.T) {
	t.Parallel()
	all := origins(t, "tool:z", "plugin:a_b/c", "plugin:a/b_c", "skill:a/b_c", "core:doc_read")
	for range 2 {
		f := refusal(t, perm.Collisions(all), fault.ToolNameCollision)
		if f.Message != `plugin:a/b_c and plugin:a_b/c would both be "plugin_a_b_c" to the model: rename one or deny one` {
			t.Error(f.Message)
		}
		if diff := cmp.Diff(map[string]any{"leaf": "plugin_a_b_c", "origins": []string{"plugin:a/b_c", "plugin:a_b/c"}}, f.Context); diff != "" {
			t.Error(diff)
		}
		slices.Reverse(all)
	}
	if err := perm.Collisions(origins(t, "plugin:a/b", "skill:a/b", "tool:a_b", "core:a_b")); err != nil {
		t.Error(err)
	}
	refusal(t, perm.Collisions([]perm.Origin{{Scope: perm.Tool, Name: "core_a"}, {Scope: perm.Core, Name: "a"}, {Scope: perm.Core, Name: "core_a"}}), fault.ToolNameCollision)
	refusal(t, perm.Collisions([]perm.Origin{{Scope: perm.Tool, Name: "A"}}), fault.InvalidName)
}
