package argument

import (
	"slices"

	"github.com/santhosh-tekuri/jsonschema/v6"
)

// stepsMax bounds how often one Check may apply a schema to a value. A schema
// that refers to itself from several forms of an anyOf doubles the work with
// every level of a document: at 40 levels a check would outlast the run.
const stepsMax = 1 << 20

// pathsMax is up to how many ways through a schema its checks need no bound of
// their own: then the work grows with the size of the document only.
const pathsMax = 1 << 12

// bounded reports whether every check of root is cheap, so that steps need not
// be counted: no recursion, and few ways through it.
func bounded(root *jsonschema.Schema) bool {
	const open, done = 1, 2
	state := map[*jsonschema.Schema]int{}
	paths := map[*jsonschema.Schema]int{}
	var visit func(*jsonschema.Schema) bool
	visit = func(s *jsonschema.Schema) bool {
		state[s] = open
		total := 1
		for _, sub := range append(here(s), below(s)...) {
			if state[sub] == open || state[sub] == 0 && !visit(sub) {
				return false
			}
			if total += paths[sub]; total > pathsMax {
				return false
			}
		}
		state[s], paths[s] = done, total
		return true
	}
	return visit(root)
}

// affordable reports whether validating v takes at most stepsMax steps. It
// counts, value by value, how often each schema would be applied: the count is
// the work of the validator without doing it.
func affordable(root *jsonschema.Schema, v any) bool {
	left := float64(stepsMax)
	return spend(map[*jsonschema.Schema]float64{root: 1}, []*jsonschema.Schema{root}, v, &left)
}

// spend takes the steps for v and what is in it from left. times says how often
// each of the schemas starts on v.
func spend(times map[*jsonschema.Schema]float64, start []*jsonschema.Schema, v any, left *float64) bool {
	order := topological(start, v)
	for _, s := range order {
		if *left -= times[s]; *left < 0 {
			return false
		}
		if !accepts(s, v) {
			continue
		}
		for _, sub := range here(s) {
			times[sub] += times[s]
		}
	}
	descend := func(child any, subs func(all []*jsonschema.Schema) []*jsonschema.Schema) bool {
		next := map[*jsonschema.Schema]float64{}
		var nextStart []*jsonschema.Schema
		for _, s := range order {
			if !accepts(s, v) {
				continue
			}
			for _, sub := range subs([]*jsonschema.Schema{s}) {
				if next[sub] == 0 {
					nextStart = append(nextStart, sub)
				}
				next[sub] += times[s]
			}
		}
		return spend(next, nextStart, child, left)
	}
	switch v := v.(type) {
	case map[string]any:
		for key, child := range v { // the order does not reach the verdict: a sum
			if !descend(child, func(all []*jsonschema.Schema) []*jsonschema.Schema {
				return present(append(ofKey(all, key), all[0].UnevaluatedProperties))
			}) {
				return false
			}
		}
	case []any:
		for i, child := range v {
			if !descend(child, func(all []*jsonschema.Schema) []*jsonschema.Schema {
				return present(append(ofItem(all, i), all[0].Contains, all[0].UnevaluatedItems))
			}) {
				return false
			}
		}
	}
	return true
}

// accepts reports whether v has a type s admits; else the validator stops there.
func accepts(s *jsonschema.Schema, v any) bool {
	if s.Types == nil || s.Types.IsEmpty() {
		return true
	}
	types := s.Types.ToStrings()
	name := typeName(v)
	return slices.Contains(types, name) || name == "number" && slices.Contains(types, "integer")
}

// topological returns the schemas that apply to the value v itself, each before
// those it applies in turn. Edges that close a cycle are left out, as the
// validator does.
func topological(start []*jsonschema.Schema, v any) []*jsonschema.Schema {
	var order []*jsonschema.Schema
	seen := map[*jsonschema.Schema]bool{}
	var visit func(*jsonschema.Schema)
	visit = func(s *jsonschema.Schema) {
		if seen[s] {
			return
		}
		seen[s] = true
		if accepts(s, v) {
			for _, sub := range here(s) {
				visit(sub)
			}
		}
		order = append(order, s)
	}
	for _, s := range start {
		visit(s)
	}
	slices.Reverse(order)
	return order
}

// here returns the schemas s applies to the same value.
func here(s *jsonschema.Schema) []*jsonschema.Schema {
	out := []*jsonschema.Schema{s.Ref, s.RecursiveRef, s.Not, s.If, s.Then, s.Else}
	if s.DynamicRef != nil {
		out = append(out, s.DynamicRef.Ref)
	}
	out = slices.Concat(out, s.AllOf, s.AnyOf, s.OneOf)
	for _, sub := range s.DependentSchemas {
		out = append(out, sub)
	}
	for _, sub := range s.Dependencies {
		if sub, ok := sub.(*jsonschema.Schema); ok {
			out = append(out, sub)
		}
	}
	return present(out)
}

// below returns the schemas s applies to values inside the value.
func below(s *jsonschema.Schema) []*jsonschema.Schema {
	out := []*jsonschema.Schema{s.PropertyNames, s.UnevaluatedProperties, s.Contains, s.UnevaluatedItems, s.Items2020}
	for _, sub := range s.Properties {
		out = append(out, sub)
	}
	for _, sub := range s.PatternProperties {
		out = append(out, sub)
	}
	for _, sub := range []any{s.AdditionalProperties, s.Items, s.AdditionalItems} {
		if one, ok := sub.(*jsonschema.Schema); ok {
			out = append(out, one)
		}
		if many, ok := sub.([]*jsonschema.Schema); ok {
			out = append(out, many...)
		}
	}
	return present(append(out, s.PrefixItems...))
}

// present drops the keywords that are not there.
func present(list []*jsonschema.Schema) []*jsonschema.Schema {
	return slices.DeleteFunc(list, func(s *jsonschema.Schema) bool { return s == nil })
}
