package agent

import (
	"encoding/json"
	"slices"
	"strconv"

	"github.com/crumbmesh/crumbmesh/pkg/fault"
)

// source is one YAML file being read. What does not have the form of its field
// is a fault here; what a value may be is the checker's.
type source struct {
	file   string // relative to the project
	root   *node  // nil when the text is no YAML
	faults []Fault
	broken []place // places with a fault of form: the checker's complaints about them are noise
}

// newSource parses text; what is wrong with it is among the faults.
func newSource(file string, text []byte) *source {
	s := &source{file: file}
	root, bad := parseYAML(text)
	if bad != nil {
		s.broken = []place{{}}
		s.faults = []Fault{{File: file, Line: bad.line, Column: bad.column, Err: bad.err}}
		return s
	}
	s.root = root
	return s
}

// refuse adds a fault at a position and marks the place.
func (s *source) refuse(at place, line, column int, err *fault.Error) {
	s.broken = append(s.broken, at)
	e := *err
	if len(at) > 0 {
		e.Message = at.String() + ": " + e.Message
	}
	s.faults = append(s.faults, Fault{File: s.file, Line: line, Column: column, Err: &e})
}

// misfit adds an INVALID_CONFIG about a value of the wrong kind.
func (s *source) misfit(at place, n *node, want string) {
	s.refuse(at, n.line, n.column, fault.New(fault.InvalidConfig, "expected %s, got %s", want, n.shown()))
}

// shown is a value as a message tells it.
func (n *node) shown() string {
	switch n.kind {
	case kindNull:
		return "nothing; give it a value or remove the key"
	case kindString:
		return "the text " + quote(n.text)
	case kindNumber, kindBool:
		return clip(n.text)
	}
	return string(n.kind)
}

// resolve turns a checker's problem into a fault with a position; ok is false
// for one that a fault of form explains.
func (s *source) resolve(p problem) (f Fault, ok bool) {
	if s.isBroken(p.at) {
		return f, false
	}
	f = Fault{File: s.file, Err: p.err}
	if s.root != nil {
		f.Line, f.Column = s.root.position(p.at)
	}
	return f, true
}

// isBroken reports whether a fault of form is at a place or around it.
func (s *source) isBroken(at place) bool { return slices.ContainsFunc(s.broken, at.within) }

// object is an object of a source.
type object struct {
	s  *source
	n  *node
	at place
}

// top is the whole document as an object with the given fields.
func (s *source) top(f fields) object { return s.object(s.root, nil, f) }

// object reads n as an object and refuses keys that f does not read. Anything
// else than an object is a fault and reads as one without keys.
func (s *source) object(n *node, at place, f fields) object {
	o := s.open(n, at)
	for _, k := range o.n.keys {
		if err := f.refuse(k.name); err != nil {
			s.refuse(at.key(k.name), k.line, k.column, err)
		}
	}
	return o
}

// open reads n as an object of any keys.
func (s *source) open(n *node, at place) object {
	if n != nil && n.kind == kindObject {
		return object{s, n, at}
	}
	if n != nil {
		s.misfit(at, n, string(kindObject))
	}
	return object{s, &node{kind: kindNull, line: 1, column: 1}, at}
}

func (o object) has(name string) bool {
	_, ok := o.n.field(name)
	return ok
}

// of returns the value of a field if it has one of the kinds.
func (o object) of(name, want string, kinds ...kind) (*node, bool) {
	n, ok := o.n.field(name)
	if !ok {
		return nil, false
	}
	if !slices.Contains(kinds, n.kind) {
		o.s.misfit(o.at.key(name), n, want)
		return nil, false
	}
	return n, true
}

// object is the field as an object with the given fields; ok is false when the
// object has no such field.
func (o object) object(name string, f fields) (object, bool) {
	n, ok := o.n.field(name)
	if !ok {
		return object{}, false
	}
	return o.s.object(n, o.at.key(name), f), true
}

func (o object) text(name string) string {
	if n, ok := o.of(name, string(kindString), kindString); ok {
		return n.text
	}
	return ""
}

// word is text for a field whose absence means a default, and which therefore
// cannot be empty.
func (o object) word(name string) string {
	n, ok := o.of(name, string(kindString), kindString)
	if !ok {
		return ""
	}
	if n.text == "" {
		o.s.misfit(o.at.key(name), n, "a text that is not empty")
	}
	return n.text
}

func (o object) boolean(name string) bool {
	n, ok := o.of(name, "true or false", kindBool)
	return ok && n.text == "true"
}

// integer is the field as a whole number, nil when absent or refused.
func (o object) integer(name string) *int64 {
	n, ok := o.of(name, "a whole number", kindNumber)
	if !ok {
		return nil
	}
	i, err := strconv.ParseInt(n.text, 10, 64)
	if err != nil {
		o.s.misfit(o.at.key(name), n, "a whole number of at most 64 bits, in plain digits")
		return nil
	}
	return &i
}

// count is integer for a field whose absence means a default, and which
// therefore cannot be 0.
func (o object) count(name string) int64 {
	i := o.integer(name)
	if i == nil {
		return 0
	}
	if *i < 1 {
		n, _ := o.n.field(name)
		o.s.misfit(o.at.key(name), n, "a whole number from 1 on")
		return 0
	}
	return *i
}

// amount is integer with 0 for an absent field.
func (o object) amount(name string) int64 {
	if i := o.integer(name); i != nil {
		return *i
	}
	return 0
}

// number is the field as a number, nil when absent or refused.
func (o object) number(name string) *float64 {
	n, ok := o.of(name, string(kindNumber), kindNumber)
	if !ok {
		return nil
	}
	f, err := strconv.ParseFloat(n.text, 64)
	if err != nil {
		o.s.misfit(o.at.key(name), n, "a number that fits 64 bits")
		return nil
	}
	return &f
}

// list is the field's items, nil when absent or refused.
func (o object) list(name string) []*node {
	if n, ok := o.of(name, string(kindList), kindList); ok {
		return n.items
	}
	return nil
}

// texts is the field as a list of strings, nil when absent or refused. An item of another kind is a fault
// and reads as "".
func (o object) texts(name string) []string {
	list, ok := o.of(name, string(kindList), kindList)
	if !ok {
		return nil
	}
	out := make([]string, 0, len(list.items))
	for i, n := range list.items {
		if n.kind != kindString {
			o.s.misfit(o.at.key(name).index(i), n, string(kindString))
		}
		out = append(out, n.text)
	}
	return out
}

// document is the field as JSON, nil when absent.
func (o object) document(name string) json.RawMessage {
	if n, ok := o.n.field(name); ok {
		return n.json()
	}
	return nil
}

// schema is the field as a JSON Schema.
func (o object) schema(name string) json.RawMessage {
	if n, ok := o.of(name, "a JSON Schema (an object)", kindObject, kindBool); ok {
		return n.json()
	}
	return nil
}
