package perm

import (
	"cmp"
	"fmt"
	"regexp"
	"strings"

	"github.com/crumbmesh/crumbmesh/pkg/fault"
)

// SelectorMax bounds the text of a selector, in bytes.
const SelectorMax = 128

var segmentRE = regexp.MustCompile(`^(\*|[a-z])[a-z0-9_*]*$`)

// Selector addresses the tools of one scope. Its zero value matches nothing.
type Selector struct {
	text  string
	scope Scope
	sub   string // pattern; skill and plugin only
	name  string // pattern
}

// ParseSelector reads a selector of a permission list: `scope:name`, or
// `scope:sub/name` for skill and plugin, each segment `^(\*|[a-z])[a-z0-9_*]*$`;
// `scope:*` is the whole scope. It returns INVALID_PERMISSION, with {selector} in
// its context, for anything else: an unknown scope, system and human (always
// available), a lone `*`, an argument pattern in parentheses.
func ParseSelector(text string) (Selector, error) {
	return parse(text, Scope.Targetable)
}

// ParseRuleSelector is ParseSelector for approval rules, which may also match
// the questions of human tools: `human:*`, `human:confirm`.
func ParseRuleSelector(text string) (Selector, error) {
	return parse(text, func(s Scope) bool { return s.Targetable() || s == Human })
}

func parse(text string, allowed func(Scope) bool) (Selector, error) {
	refuse := func(format string, args ...any) (Selector, error) {
		return Selector{}, fault.New(fault.InvalidPermission, "selector %q: %s", clip(text), fmt.Sprintf(format, args...)).
			With("selector", clip(text))
	}
	if len(text) > SelectorMax {
		return refuse("expected at most %d characters, got %d", SelectorMax, len(text))
	}
	if strings.ContainsAny(text, "()") {
		return refuse("expected a tool without arguments: permissions cannot select by argument; gate the whole tool with ask")
	}
	word, rest, ok := strings.Cut(text, ":")
	if !ok {
		return refuse("expected scope:name, like tool:web_search or tool:*")
	}
	scope := Scope(word)
	switch {
	case scope.known() && !allowed(scope):
		return refuse("tools of scope %s are always available and cannot be listed: remove it", scope)
	case !allowed(scope):
		return refuse("unknown scope %q, expected one of %s", word, named(targets(allowed)))
	case rest == "*" && scope.hasSub():
		return Selector{text: text, scope: scope, sub: "*", name: "*"}, nil
	}
	s := Selector{text: text, scope: scope, name: rest}
	if scope.hasSub() {
		if s.sub, s.name, ok = strings.Cut(rest, "/"); !ok {
			return refuse("expected %s:<%s>/<tool>, like %s:%s/*, or %s:*", scope, scope, scope, example(rest), scope)
		}
		if !segmentRE.MatchString(s.sub) {
			return refuse("expected a %s of a-z 0-9 _ * that begins with a letter or *, got %q", scope, s.sub)
		}
	} else if strings.Contains(rest, "/") {
		return refuse("expected %s:<name>: only skill and plugin tools have two parts", scope)
	}
	if !segmentRE.MatchString(s.name) {
		return refuse("expected a name of a-z 0-9 _ * that begins with a letter or *, got %q", s.name)
	}
	if scope == Core {
		s.name = trimCore(s.name)
	}
	return s, nil
}

func targets(allowed func(Scope) bool) []Scope {
	var out []Scope
	for _, s := range Scopes() {
		if allowed(s) {
			out = append(out, s)
		}
	}
	return out
}

// example completes a lone segment into the selector that was likely meant.
func example(segment string) string {
	if segmentRE.MatchString(segment) {
		return segment
	}
	return "name"
}

// String returns the selector as it was written.
func (s Selector) String() string { return s.text }

// Match reports whether the selector addresses o. An origin that Check refuses
// is never matched.
func (s Selector) Match(o Origin) bool {
	return s.scope == o.Scope && s.scope != "" && o.Check() == nil && s.matches(o)
}

// matches is Match for an origin that passed Check.
func (s Selector) matches(o Origin) bool {
	if s.scope != o.Scope {
		return false
	}
	return glob(s.name, o.name()) && (!s.scope.hasSub() || glob(s.sub, o.Sub))
}

// compare orders selectors by how closely they fit: fewer stars, then more
// letters, then text. It decides which rule is named, never the verdict.
func (s Selector) compare(t Selector) int {
	return cmp.Or(
		cmp.Compare(strings.Count(s.text, "*"), strings.Count(t.text, "*")),
		cmp.Compare(len(t.text), len(s.text)),
		cmp.Compare(s.text, t.text),
	)
}

// glob reports whether name has the form of pattern, where each * stands for
// zero or more characters. Both hold a-z 0-9 _ only, so a star cannot cross a /.
func glob(pattern, name string) bool {
	p, n := 0, 0
	star, resume := -1, 0
	for n < len(name) {
		switch {
		case p < len(pattern) && pattern[p] == '*':
			star, resume = p, n
			p++
		case p < len(pattern) && pattern[p] == name[n]:
			p++
			n++
		case star >= 0:
			resume++
			p, n = star+1, resume
		default:
			return false
		}
	}
	return strings.Trim(pattern[p:], "*") == ""
}
