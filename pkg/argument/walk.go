package argument

import (
	"cmp"
	"errors"
	"maps"
	"slices"
	"strings"

	"github.com/santhosh-tekuri/jsonschema/v6"

	"github.com/crumbmesh/crumbmesh/pkg/fault"
)

// inPlace returns the schemas that always hold for an instance of the given
// ones: themselves, what `$ref` names, what `allOf` lists; each once, the
// closest first, so that a cycle ends and a property's own default wins over
// one it refers to.
func inPlace(schemas []*jsonschema.Schema) []*jsonschema.Schema {
	var all []*jsonschema.Schema
	seen := make(map[*jsonschema.Schema]bool, len(schemas))
	queue := slices.Clone(schemas)
	for len(queue) > 0 {
		s := queue[0]
		queue = queue[1:]
		if s == nil || seen[s] {
			continue
		}
		seen[s] = true
		all = append(all, s)
		queue = append(append(queue, s.Ref), s.AllOf...)
	}
	return all
}

// defaultOf returns the default of a property, its own or one it refers to.
func defaultOf(s *jsonschema.Schema) (any, bool) {
	for _, s := range inPlace([]*jsonschema.Schema{s}) {
		if s.Default != nil {
			return *s.Default, true
		}
	}
	return nil, false
}

// ofKey returns the schemas for the property key of an instance of all.
func ofKey(all []*jsonschema.Schema, key string) []*jsonschema.Schema {
	var out []*jsonschema.Schema
	for _, s := range all {
		found := false
		if sub, ok := s.Properties[key]; ok {
			out, found = append(out, sub), true
		}
		for _, re := range patterns(s) {
			if re.MatchString(key) {
				out, found = append(out, s.PatternProperties[re]), true
			}
		}
		if sub, ok := s.AdditionalProperties.(*jsonschema.Schema); ok && !found {
			out = append(out, sub)
		}
	}
	return out
}

// patterns returns the keys of patternProperties in a stable order.
func patterns(s *jsonschema.Schema) []jsonschema.Regexp {
	return slices.SortedFunc(maps.Keys(s.PatternProperties), func(a, b jsonschema.Regexp) int {
		return cmp.Compare(a.String(), b.String())
	})
}

// ofItem returns the schemas for item i of an instance of all. Drafts before
// 2020-12 write prefixItems and items both as `items`.
func ofItem(all []*jsonschema.Schema, i int) []*jsonschema.Schema {
	var out []*jsonschema.Schema
	for _, s := range all {
		prefix, rest := s.PrefixItems, s.Items2020
		switch items := s.Items.(type) {
		case *jsonschema.Schema:
			rest = items
		case []*jsonschema.Schema:
			prefix = items
			rest, _ = s.AdditionalItems.(*jsonschema.Schema)
		}
		if i < len(prefix) {
			out = append(out, prefix[i])
		} else if rest != nil {
			out = append(out, rest)
		}
	}
	return out
}

// checkDefaults returns INVALID_CONFIG for a default that Fill may use and that
// does not fit its own schema, or never ends: the model could not mend either.
func (s *Schema) checkDefaults() error {
	for _, sub := range reachable(s.root) {
		if sub.Default == nil {
			continue
		}
		at := strings.TrimPrefix(sub.Location, schemaURL)
		f := filler{left: BytesMax}
		v, p := f.copy(*sub.Default, nil)
		if p == nil {
			p = f.value([]*jsonschema.Schema{sub}, v, nil)
		}
		if p != nil {
			return invalid(at, "the default at "+at+" never ends: "+p.text)
		}
		if !s.bounded && !affordable(sub, v) {
			return invalid(at, "the default at "+at+" cannot be checked: the schema has too many forms for its depth")
		}
		if err := sub.Validate(v); err != nil {
			found := problems(v, misfit(err), "the default")
			return invalid(at, "the default at "+at+" does not fit its own schema: "+sentences(found))
		}
	}
	return nil
}

// reachable returns the schemas Fill may come to from root, in a stable order.
func reachable(root *jsonschema.Schema) []*jsonschema.Schema {
	var all []*jsonschema.Schema
	seen := map[*jsonschema.Schema]bool{}
	queue := []*jsonschema.Schema{root}
	for len(queue) > 0 {
		s := queue[0]
		queue = queue[1:]
		if s == nil || seen[s] {
			continue
		}
		seen[s] = true
		all = append(all, s)
		queue = append(append(queue, s.Ref), s.AllOf...)
		for _, key := range slices.Sorted(maps.Keys(s.Properties)) {
			queue = append(queue, s.Properties[key])
		}
		for _, re := range patterns(s) {
			queue = append(queue, s.PatternProperties[re])
		}
		for _, sub := range []any{s.AdditionalProperties, s.Items, s.AdditionalItems} {
			if one, ok := sub.(*jsonschema.Schema); ok {
				queue = append(queue, one)
			}
			if many, ok := sub.([]*jsonschema.Schema); ok {
				queue = append(queue, many...)
			}
		}
		queue = append(append(queue, s.Items2020), s.PrefixItems...)
	}
	return all
}

// misfit returns the validator's tree of failures.
func misfit(err error) *jsonschema.ValidationError {
	var tree *jsonschema.ValidationError
	if !errors.As(err, &tree) {
		panic(fault.New(fault.InternalError, "the schema validator returned %T", err))
	}
	return tree
}
