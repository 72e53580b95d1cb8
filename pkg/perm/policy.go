package perm

import (
	"slices"

	"github.com/crumbmesh/crumbmesh/pkg/fault"
)

// SelectorsMax bounds the selectors of one list.
const SelectorsMax = 1024

// faultsMax bounds the selectors one fault names.
const faultsMax = 16

// Lists is the `permissions` of an agent file: selectors that allow, that ask a
// person before each call, and that deny.
type Lists struct {
	Allow []string `json:"allow,omitempty" yaml:"allow,omitempty"`
	Ask   []string `json:"ask,omitempty" yaml:"ask,omitempty"`
	Deny  []string `json:"deny,omitempty" yaml:"deny,omitempty"`
}

// Verdict is what permissions say about one tool.
type Verdict string

// The verdicts. Denied and absent tools are both kept from the model.
const (
	Allow  Verdict = "allow"  // may be called
	Ask    Verdict = "ask"    // each call waits for a person
	Deny   Verdict = "deny"   // a selector of deny names it
	Absent Verdict = "absent" // no selector of a non-empty allow, or of ask, names it
)

// Decision is the verdict about one tool and the selector behind it.
type Decision struct {
	Verdict Verdict
	Rule    string // the selector that decided; "" when none did
}

// Permitted reports whether the model may see the tool: Allow or Ask.
func (d Decision) Permitted() bool { return d.Verdict == Allow || d.Verdict == Ask }

// Policy is Lists, read. The zero Policy allows everything.
type Policy struct {
	allow, ask, deny []Selector // closest fit first
	written          []Selector // as in the lists: allow, ask, deny
}

// Compile reads permission lists. A malformed selector in any of them is
// INVALID_PERMISSION, naming selector and list (context: selector, list, index),
// and the others that are malformed too; so is a list over SelectorsMax.
func Compile(l Lists) (*Policy, error) {
	p := &Policy{}
	var faults []*fault.Error
	for _, list := range []struct {
		name string
		from []string
		to   *[]Selector
	}{{"allow", l.Allow, &p.allow}, {"ask", l.Ask, &p.ask}, {"deny", l.Deny, &p.deny}} {
		if len(list.from) > SelectorsMax {
			return nil, fault.New(fault.InvalidPermission, "permissions.%s: expected at most %d selectors, got %d; use globs", list.name, SelectorsMax, len(list.from)).With("list", list.name)
		}
		for i, text := range list.from {
			s, err := ParseSelector(text)
			if err != nil {
				f := fault.From(err)
				faults = append(faults, fault.Wrap(f.Code, err, "permissions.%s[%d]: %s", list.name, i, f.Message).
					With("selector", clip(text)).With("list", list.name).With("index", i))
				continue
			}
			*list.to = append(*list.to, s)
		}
		p.written = append(p.written, *list.to...)
		slices.SortFunc(*list.to, Selector.compare)
	}
	if len(faults) > 0 {
		return nil, together(faults)
	}
	return p, nil
}

// together is the first fault, with the messages of the others.
func together(faults []*fault.Error) error {
	first := faults[0]
	for _, f := range faults[1:min(len(faults), faultsMax)] {
		first.Message += "; " + f.Message
	}
	return first
}

// Decide returns the verdict about o: (allow ∪ ask) − deny, deny before ask
// before allow, independent of the order of the lists. The rule named is the
// closest fit among those that match. Human and system tools are always allowed.
// An origin that Check refuses is absent: nothing could have denied it.
func (p *Policy) Decide(o Origin) Decision {
	if o.Check() != nil {
		return Decision{Verdict: Absent}
	}
	if !o.Scope.Targetable() {
		return Decision{Verdict: Allow}
	}
	if rule, ok := first(p.deny, o); ok {
		return Decision{Verdict: Deny, Rule: rule}
	}
	if rule, ok := first(p.ask, o); ok {
		return Decision{Verdict: Ask, Rule: rule}
	}
	if rule, ok := first(p.allow, o); ok {
		return Decision{Verdict: Allow, Rule: rule}
	}
	if len(p.allow) == 0 {
		return Decision{Verdict: Allow}
	}
	return Decision{Verdict: Absent}
}

func first(list []Selector, o Origin) (string, bool) {
	for _, s := range list {
		if s.matches(o) {
			return s.text, true
		}
	}
	return "", false
}

// Unmatched returns the selectors that match none of the origins, each once, in
// the order allow, ask, deny and as written: a warning at load, since a selector
// that matches nothing is likely mistyped.
func (p *Policy) Unmatched(origins []Origin) []string {
	var out []string
	for _, s := range p.written {
		if !slices.ContainsFunc(origins, s.Match) && !slices.Contains(out, s.text) {
			out = append(out, s.text)
		}
	}
	return out
}
