package argument

import (
	"cmp"
	"encoding/json"
	"fmt"
	"math/big"
	"slices"
	"strconv"
	"strings"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"github.com/santhosh-tekuri/jsonschema/v6/kind"
)

// Bounds of what one failure tells.
const (
	problemsMax = 16 // sentences
	valuesMax   = 20 // values of an enum
	nearestMax  = 3  // sentences about the nearest form of an anyOf
)

// problem is one thing wrong with a document, told as a sentence.
type problem struct {
	path string
	text string
	kind jsonschema.ErrorKind
	deep int // levels below the document
}

// problems flattens the validator's tree, sorted: the validator walks maps.
// There is at least one.
func problems(root any, tree *jsonschema.ValidationError, subject string) []problem {
	t := teller{root: root, subject: subject}
	found := t.tell(tree)
	slices.SortFunc(found, func(a, b problem) int {
		return cmp.Or(cmp.Compare(a.path, b.path), cmp.Compare(a.text, b.text))
	})
	return slices.CompactFunc(found, func(a, b problem) bool { return a.path == b.path && a.text == b.text })
}

func texts(found []problem) []string {
	out := make([]string, 0, min(len(found), problemsMax))
	for _, p := range found[:min(len(found), problemsMax)] {
		out = append(out, p.text)
	}
	return out
}

func sentences(found []problem) string {
	s := strings.Join(texts(found), "; ")
	if more := len(found) - problemsMax; more > 0 {
		s += fmt.Sprintf("; and %d more", more)
	}
	return s
}

type teller struct {
	root    any
	subject string
}

func (t teller) tell(e *jsonschema.ValidationError) []problem {
	path := steps(t.root, e.InstanceLocation)
	at := render(path)
	name := at
	if name == "" {
		name = t.subject
	}
	one := func(format string, args ...any) []problem {
		return []problem{{path: at, text: name + " " + fmt.Sprintf(format, args...), kind: e.ErrorKind, deep: len(path)}}
	}
	switch k := e.ErrorKind.(type) {
	case *kind.Schema, *kind.Group, *kind.Reference, *kind.AllOf:
		return t.all(e.Causes)
	case *kind.AnyOf:
		return t.nearest(e, one)
	case *kind.OneOf:
		if len(k.Subschemas) > 0 {
			return one("fits more than one of its forms, expected exactly one")
		}
		return t.nearest(e, one)
	case *kind.Required:
		return t.each(path, k.Missing, "missing field %s", k)
	case *kind.DependentRequired:
		return t.each(path, k.Missing, "missing field %s, which is needed with "+escape(k.Prop), k)
	case *kind.Dependency:
		return t.each(path, k.Missing, "missing field %s, which is needed with "+escape(k.Prop), k)
	case *kind.AdditionalProperties:
		return t.each(path, k.Properties, "unknown field %s", k)
	case *kind.PropertyNames:
		return one("has a field %s whose name is not allowed", strconv.Quote(clip(k.Property)))
	default:
		return one("%s", sentence(k))
	}
}

func escape(key string) string { return strings.ReplaceAll(clip(key), "%", "%%") }

func (t teller) all(causes []*jsonschema.ValidationError) []problem {
	var out []problem
	for _, c := range causes {
		out = append(out, t.tell(c)...)
	}
	return out
}

// each makes a sentence for every key below path.
func (t teller) each(path []step, keys []string, format string, k jsonschema.ErrorKind) []problem {
	var out []problem
	for _, key := range keys {
		at := render(append(path[:len(path):len(path)], step{key: key}))
		out = append(out, problem{path: at, text: fmt.Sprintf(format, at), kind: k, deep: len(path)})
	}
	return out
}

// nearest tells a failed anyOf or oneOf. Forms for another type than the value
// has are left out, unless all are: then the types are one sentence. What is
// left is told as if it stood alone when it is one form, else by the form that
// has the right constants or, among those, fewest problems.
func (t teller) nearest(e *jsonschema.ValidationError, one func(string, ...any) []problem) []problem {
	deep := len(e.InstanceLocation)
	var want []string
	var got string
	var forms [][]problem
	for _, c := range e.Causes {
		form := problems(t.root, c, t.subject)
		if k, ok := form[0].kind.(*kind.Type); ok && form[0].deep == deep {
			want, got = append(want, k.Want...), k.Got
			continue
		}
		forms = append(forms, form)
	}
	switch len(forms) {
	case 0:
		slices.Sort(want)
		return one("%s", sentence(&kind.Type{Got: got, Want: slices.Compact(want)}))
	case 1:
		return forms[0]
	}
	best := slices.MinFunc(forms, func(a, b []problem) int {
		return cmp.Or(cmp.Compare(wrongConstants(a), wrongConstants(b)), cmp.Compare(len(a), len(b)))
	})
	told := texts(best)
	return one("fits none of its forms; nearest: %s", strings.Join(told[:min(len(told), nearestMax)], "; "))
}

// wrongConstants counts the constants a form misses: they tell forms apart.
func wrongConstants(form []problem) int {
	n := 0
	for _, p := range form {
		switch p.kind.(type) {
		case *kind.Const, *kind.Enum:
			n++
		}
	}
	return n
}

// sentence is what follows the path.
func sentence(k jsonschema.ErrorKind) string {
	switch k := k.(type) {
	case *kind.Type:
		return "must be " + either(k.Want) + ", got " + article(k.Got)
	case *kind.Enum:
		return "must be one of " + values(k.Want) + ", got " + value(k.Got)
	case *kind.Const:
		return "must be " + value(k.Want) + ", got " + value(k.Got)
	case *kind.FalseSchema:
		return "is not allowed here"
	case *kind.Not:
		return "has a form that is excluded"
	case *kind.Format:
		if k.Want == "regex" {
			return "must be a pattern in RE2 syntax (no look-around, no back-references), got " + value(k.Got)
		}
		return "must be a valid " + clip(k.Want) + ", got " + value(k.Got)
	case *kind.Pattern:
		return "must match the pattern " + clip(k.Want) + ", got " + value(k.Got)
	case *kind.MinLength:
		return fmt.Sprintf("must have at least %s, got %d", count(k.Want, "character"), k.Got)
	case *kind.MaxLength:
		return fmt.Sprintf("must have at most %s, got %d", count(k.Want, "character"), k.Got)
	case *kind.MinItems:
		return fmt.Sprintf("must have at least %s, got %d", count(k.Want, "item"), k.Got)
	case *kind.MaxItems:
		return fmt.Sprintf("must have at most %s, got %d", count(k.Want, "item"), k.Got)
	case *kind.AdditionalItems:
		return fmt.Sprintf("has %s too many", count(k.Count, "item"))
	case *kind.UniqueItems:
		return fmt.Sprintf("must not repeat an item: [%d] and [%d] are equal", k.Duplicates[0], k.Duplicates[1])
	case *kind.Contains:
		return "holds no item of the form it must contain"
	case *kind.MinContains:
		return fmt.Sprintf("must contain at least %s of a given form, got %d", count(k.Want, "item"), len(k.Got))
	case *kind.MaxContains:
		return fmt.Sprintf("must contain at most %s of a given form, got %d", count(k.Want, "item"), len(k.Got))
	case *kind.MinProperties:
		return fmt.Sprintf("must have at least %s, got %d", count(k.Want, "field"), k.Got)
	case *kind.MaxProperties:
		return fmt.Sprintf("must have at most %s, got %d", count(k.Want, "field"), k.Got)
	case *kind.Minimum:
		return "must be at least " + number(k.Want) + ", got " + number(k.Got)
	case *kind.Maximum:
		return "must be at most " + number(k.Want) + ", got " + number(k.Got)
	case *kind.ExclusiveMinimum:
		return "must be more than " + number(k.Want) + ", got " + number(k.Got)
	case *kind.ExclusiveMaximum:
		return "must be less than " + number(k.Want) + ", got " + number(k.Got)
	case *kind.MultipleOf:
		return "must be a multiple of " + number(k.Want) + ", got " + number(k.Got)
	case *kind.RefCycle:
		return "cannot be checked: the schema refers to itself without end"
	default:
		return "does not fit the keyword " + strings.Join(k.KeywordPath(), "/")
	}
}

func count(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return strconv.Itoa(n) + " " + noun + "s"
}

// either lists types: "a string, an array or null".
func either(types []string) string {
	named := make([]string, len(types))
	for i, t := range types {
		named[i] = article(t)
	}
	if len(named) < 2 {
		return strings.Join(named, "")
	}
	last := len(named) - 1
	return strings.Join(named[:last], ", ") + " or " + named[last]
}

func article(typeName string) string {
	switch typeName {
	case "null":
		return "null"
	case "integer", "array", "object":
		return "an " + typeName
	default:
		return "a " + typeName
	}
}

// typeName is the JSON type of a value the reader made.
func typeName(v any) string {
	switch v.(type) {
	case nil:
		return "null"
	case bool:
		return "boolean"
	case json.Number:
		return "number"
	case string:
		return "string"
	case []any:
		return "array"
	default:
		return "object"
	}
}

// value shows a scalar, and only the type of anything larger.
func value(v any) string {
	switch v := v.(type) {
	case string:
		return strconv.Quote(clip(v))
	case json.Number:
		return clip(v.String())
	case bool:
		return strconv.FormatBool(v)
	default:
		return article(typeName(v))
	}
}

func values(list []any) string {
	shown := make([]string, 0, min(len(list), valuesMax))
	for _, v := range list[:min(len(list), valuesMax)] {
		shown = append(shown, value(v))
	}
	s := strings.Join(shown, ", ")
	if more := len(list) - valuesMax; more > 0 {
		s += fmt.Sprintf(" (and %d more)", more)
	}
	return s
}

// number writes a bound exactly: JSON numbers are finite decimals.
func number(r *big.Rat) string {
	places, _ := r.FloatPrec()
	return clip(r.FloatString(places))
}
