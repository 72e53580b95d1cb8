package agent

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"text/template"
	"text/template/parse"
)

// Bounds of what a message shows of the data a template looked into.
const (
	lookedMax = 200 // bytes of a value
	namesMax  = 10  // keys that it has
)

// missing is a key that a template looked for in the data of a run and did not
// find. text/template says only that a map has no such key: not in what, and of
// a long expression not even which.
type missing struct {
	at    string // .results.tool_shout.text
	where string // the result of tool_shout
	key   string
	value any // of where
}

// Error says what was looked into, which is nearly always the real cause: a
// rejected call's result is not what its tool would have answered.
func (m *missing) Error() string {
	object, ok := m.value.(map[string]any)
	switch {
	case !ok:
		return fmt.Sprintf("%s is no object, so it has no key %s; it is %s", m.where, word(m.key), clipTo(string(jsonValue(m.value)), lookedMax))
	case m.where == whereRoot || m.where == whereResults:
		return fmt.Sprintf("%s no key %s; there is %s", m.where, word(m.key), names(object))
	}
	return fmt.Sprintf("%s has no key %s; it is %s", m.where, word(m.key), clipTo(string(jsonValue(object)), lookedMax))
}

// What the two outermost objects are called in a message.
const (
	whereRoot    = "a template has"
	whereResults = "the results have"
)

// names are the keys of an object, sorted and bounded.
func names(object map[string]any) string {
	keys := slices.Sorted(maps.Keys(object))
	more := ""
	if len(keys) > namesMax {
		more = fmt.Sprintf(" and %d more", len(keys)-namesMax)
		keys = keys[:namesMax]
	}
	for i := range keys {
		keys[i] = word(keys[i])
	}
	return strings.Join(keys, ", ") + more
}

// explained is the error of an execution, as missing when that is what it is.
func explained(t *template.Template, dot map[string]any, err error) error {
	s := search{tree: t.Tree, failed: err.Error()}
	s.list(t.Root, []string{})
	if s.path == nil {
		return err
	}
	if m := absent(dot, s.path); m != nil {
		return m
	}
	return err
}

// absent walks path through the data to the first key that is not there; nil
// when all are.
func absent(dot map[string]any, path []string) *missing {
	var at any = dot
	for i, key := range path {
		object, ok := at.(map[string]any)
		next, has := object[key]
		if !ok || !has {
			return &missing{at: "." + strings.Join(path, "."), where: whereOf(path[:i]), key: key, value: at}
		}
		at = next
	}
	return nil
}

// whereOf names the value at path for people.
func whereOf(path []string) string {
	switch {
	case len(path) == 0:
		return whereRoot
	case path[0] == "results" && len(path) == 1:
		return whereResults
	case path[0] == "results" && len(path) == 2:
		return "the result of " + word(path[1])
	case path[0] == "input" && len(path) == 1:
		return "the input"
	}
	return "." + clipTo(strings.Join(path, "."), wordMax)
}

// search finds the expression that failed: the one whose position the error
// names.
type search struct {
	tree   *parse.Tree
	failed string
	path   []string // from the template's data, nil until found
}

// list searches nodes whose dot is at the path dot; nil when that is not known.
func (s *search) list(list *parse.ListNode, dot []string) {
	if list == nil {
		return
	}
	for _, n := range list.Nodes {
		switch v := n.(type) {
		case *parse.ActionNode:
			s.pipe(v.Pipe, dot)
		case *parse.IfNode:
			s.branch(&v.BranchNode, dot, dot)
		case *parse.WithNode:
			s.branch(&v.BranchNode, dot, pathOf(v.Pipe, dot))
		case *parse.RangeNode:
			s.branch(&v.BranchNode, dot, nil)
		}
	}
}

func (s *search) branch(b *parse.BranchNode, dot, inside []string) {
	s.pipe(b.Pipe, dot)
	s.list(b.List, inside)
	s.list(b.ElseList, dot)
}

func (s *search) pipe(p *parse.PipeNode, dot []string) {
	if p == nil {
		return
	}
	for _, c := range p.Cmds {
		for _, arg := range c.Args {
			if inner, ok := arg.(*parse.PipeNode); ok {
				s.pipe(inner, dot)
				continue
			}
			location, _ := s.tree.ErrorContext(arg)
			if s.path == nil && strings.HasPrefix(s.failed, "template: "+location+": ") {
				s.path = step(arg, dot)
			}
		}
	}
}

// pathOf is the path of a pipe that is a single field, nil of any other.
func pathOf(p *parse.PipeNode, dot []string) []string {
	if len(p.Decl) > 0 || len(p.Cmds) != 1 || len(p.Cmds[0].Args) != 1 {
		return nil
	}
	return step(p.Cmds[0].Args[0], dot)
}

// step is the path of a field (.a.b) seen from dot, or of $ ($.a.b).
func step(n parse.Node, dot []string) []string {
	switch v := n.(type) {
	case *parse.FieldNode:
		if dot != nil {
			return slices.Concat(dot, v.Ident)
		}
	case *parse.VariableNode:
		if v.Ident[0] == "$" && len(v.Ident) > 1 {
			return slices.Clone(v.Ident[1:])
		}
	}
	return nil
}
