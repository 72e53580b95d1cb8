package crumbs

import (
	"bytes"
	"encoding/json"
	"errors"
	"slices"
	"strings"

	"github.com/santhosh-tekuri/jsonschema/v6"

	"github.com/crumbmesh/crumbmesh/pkg/fault"
	"github.com/crumbmesh/crumbmesh/schemas"
)

// problemsMax bounds how many problems of one body a fault lists.
const problemsMax = 8

// Decode reads a body of type typ (`tool.call`, `tool:call`) into into, a
// pointer to the type's struct. It fails with INVALID_MESSAGE, whose message
// lists the places and what was expected there, when the body is not JSON, does
// not fit the schema of typ, or names one field in two spellings. Fields nobody
// knows are ignored. A claim check (dataref) passes with its base fields only.
func Decode(typ string, body []byte, into any) error {
	schema, err := schemas.ForType(typ)
	if err != nil {
		return fault.Wrap(fault.InvalidMessage, err, "%q is no type of message: schemas/ has one file a type", clip(typ, AttrMax))
	}
	doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(body))
	if err != nil {
		return fault.Wrap(fault.InvalidMessage, err, "%s: expected a JSON body, got %d bytes that are not JSON", typ, len(body))
	}
	if err := schema.Validate(doc); err != nil {
		return fault.Wrap(fault.InvalidMessage, err, "%s: %s", typ, strings.Join(problems(err), "; "))
	}
	if a, b, clash := foldClash(doc); clash {
		return fault.New(fault.InvalidMessage, "%s: fields %q and %q differ in case only: expected one of them", typ, clip(a, AttrMax), clip(b, AttrMax))
	}
	if err := json.Unmarshal(body, into); err != nil {
		return fault.Wrap(fault.InvalidMessage, err, "%s: a number or a time is outside what its field holds", typ)
	}
	return nil
}

// problems renders the leaves of a validation error as `/place: problem`, sorted.
func problems(err error) []string {
	var v *jsonschema.ValidationError
	if !errors.As(err, &v) {
		return []string{"does not fit its schema"}
	}
	var all []string
	var walk func(*jsonschema.ValidationError)
	walk = func(v *jsonschema.ValidationError) {
		for _, c := range v.Causes {
			walk(c)
		}
		if len(v.Causes) > 0 {
			return
		}
		problem := "does not fit its schema"
		if out := v.DetailedOutput().Error; out != nil {
			problem = out.String()
		}
		all = append(all, "/"+strings.Join(v.InstanceLocation, "/")+": "+clip(problem, AttrMax))
	}
	walk(v)
	slices.Sort(all)
	all = slices.Compact(all)
	if len(all) > problemsMax {
		all = append(all[:problemsMax], "…")
	}
	return all
}

// foldClash finds two keys of an object that differ in case only: the schema
// checks one of them, but encoding/json would let the later one win.
func foldClash(doc any) (string, string, bool) {
	object, _ := doc.(map[string]any)
	seen := make(map[string]string, len(object))
	keys := make([]string, 0, len(object))
	for key := range object {
		keys = append(keys, key)
	}
	slices.Sort(keys)
	for _, key := range keys {
		folded := strings.ToLower(strings.ToUpper(key)) // folds what encoding/json folds: also ſ and the Kelvin sign
		if other, ok := seen[folded]; ok {
			return other, key, true
		}
		seen[folded] = key
	}
	return "", "", false
}
