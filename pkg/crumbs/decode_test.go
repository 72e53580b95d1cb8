package crumbs_test

import (
	"encoding/json"
	"errors"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"

	"github.com/crumbmesh/crumbmesh/pkg/crumbs"
	"github.com/crumbmesh/crumbmesh/pkg/fault"
	"github.com/crumbmesh/crumbmesh/schemas"
)

// takesAnything are the fields whose value is anybody's JSON.
func takesAnything(typ, field string) bool {
	switch field {
	case "input", "output", "result", "response":
		return true
	case "args":
		return typ == crumbs.TypeToolBlocked
	}
	return false
}

// required lists the fields a body must have that is no claim check.
func required(t *testing.T, typ string) []string {
	t.Helper()
	schema, err := schemas.ForType(typ)
	if err != nil {
		t.Fatal(err)
	}
	names := map[string]bool{}
	var collect func(*jsonschema.Schema)
	collect = func(s *jsonschema.Schema) {
		if s == nil {
			return
		}
		for _, name := range s.Required {
			names[name] = true
		}
		collect(s.Ref)
		collect(s.Else)
		for _, part := range s.AllOf {
			if part.If == nil {
				collect(part)
			}
		}
	}
	collect(schema)
	return slices.Sorted(maps.Keys(names))
}

// Each required field, missing or of another kind, is INVALID_MESSAGE, and the
// message names the field.
func TestDecode_CF_N17_MissingOrWrongRequiredFields(t *testing.T) {
	t.Parallel()
	for _, typ := range allTypes() {
		for _, field := range required(t, typ) {
			t.Run(typ+"/"+field, func(t *testing.T) {
				t.Parallel()
				for _, text := range bodies(t, typ) {
					var fields map[string]json.RawMessage
					if err := json.Unmarshal(text, &fields); err != nil {
						t.Fatal(err)
					}
					right := fields[field]
					delete(fields, field)
					refused(t, typ, field, fields)
					if takesAnything(typ, field) {
						continue
					}
					for _, wrong := range wrongValues(typ, field, right) {
						fields[field] = json.RawMessage(wrong)
						refused(t, typ, field, fields)
					}
				}
			})
		}
	}
}

// wrongValues are values of other kinds than right; a fraction for an integer
// and, where strings have a grammar, one outside it.
func wrongValues(typ, field string, right json.RawMessage) []string {
	wrong := map[string]string{"null": `null`, "object": `{"a":1}`, "list": `["a"]`, "string": `"?"`, "number": `7.5`, "bool": `false`}
	switch right[0] {
	case '{':
		delete(wrong, "object")
	case '[':
		delete(wrong, "list")
	case 't', 'f':
		delete(wrong, "bool")
	case '"':
		if isFreeText(typ, field) {
			delete(wrong, "string")
		}
	}
	return slices.Sorted(maps.Values(wrong))
}

// isFreeText are the required strings that may say anything.
func isFreeText(typ, field string) bool {
	switch field {
	case "delta", "worker", "kid":
		return true
	case "toolName":
		return typ == crumbs.TypeToolBlocked || typ == crumbs.TypeInputStart
	}
	return false
}

func refused(t *testing.T, typ, field string, fields map[string]json.RawMessage) {
	t.Helper()
	text, err := json.Marshal(fields)
	if err != nil {
		t.Fatal(err)
	}
	var into map[string]any
	err = crumbs.Decode(typ, text, &into)
	if !errors.Is(err, fault.Of(fault.InvalidMessage)) {
		t.Errorf("got %v, want INVALID_MESSAGE for\n%s", err, text)
	} else if !strings.Contains(err.Error(), field) {
		t.Errorf("%v does not name %s", err, field)
	}
	if into != nil {
		t.Errorf("something was decoded from\n%s", text)
	}
}

func TestDecode_RefusesWhatGoOrTheSchemaCannotHold(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ typ, body, says string }{
		"unknown type":          {"timer.dues", `{}`, "no type of message"},
		"not JSON":              {"timer.due", `{"type"`, "not JSON"},
		"two documents":         {"timer.due", `{} {}`, "not JSON"},
		"a list":                {"timer.due", `[]`, "want object"},
		"a crumb for a command": {"tool.call", `{"type":"tool:call","runId":"r"}`, "/type"},
		"number with a point":   {"timer.due", `{"type":"timer.due","runId":"r","v":1.0,"at":"2026-01-02T03:04:05.000Z"}`, "outside"},
		"number too large":      {"timer.due", `{"type":"timer.due","runId":"r","v":18446744073709551616,"at":"2026-01-02T03:04:05.000Z"}`, "outside"},
		"two spellings":         {"timer.due", `{"type":"timer.due","runId":"r","RUNID":"other","v":1,"at":"2026-01-02T03:04:05.000Z"}`, `"RUNID" and "runId"`},
		"spelling of long s":    {"ctl.cancel", `{"type":"ctl.cancel","runId":"r","callIds":["r.1.0"],"callIdſ":["r.1.1"]}`, "case only"},
		"run id with a newline": {"ctl.cancel", `{"type":"ctl.cancel","runId":"r\n"}`, "/runId"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var into map[string]any
			err := crumbs.Decode(c.typ, []byte(c.body), pointer(c.typ, &into))
			if !errors.Is(err, fault.Of(fault.InvalidMessage)) || !strings.Contains(err.Error(), c.says) {
				t.Errorf("got %v, want INVALID_MESSAGE that says %q", err, c.says)
			}
		})
	}
}

func pointer(typ string, other any) any {
	if typ == crumbs.TypeTimerDue {
		return &crumbs.TimerDue{}
	}
	return other
}

// A newer writer's fields are ignored, and a claim check needs its base only.
func TestDecode_ReadsUnknownFieldsAndClaimChecks(t *testing.T) {
	t.Parallel()
	var due crumbs.TimerDue
	if err := crumbs.Decode(crumbs.TypeTimerDue, []byte(`{"type":"timer.due","runId":"r","v":1,"at":"2026-01-02T04:04:05+01:00","new":{"a":1}}`), &due); err != nil {
		t.Fatal(err)
	}
	if due.RunID != "r" || due.V != 1 || due.At.UTC().Hour() != 3 {
		t.Errorf("got %+v", due)
	}
	ref := `"dataref":{"object":"r/00112233445566778899aabbccddeeff00112233445566778899aabbccddeeff","bytes":300000}`
	var call crumbs.ToolCall
	if err := crumbs.Decode(crumbs.TypeToolCall, []byte(`{"type":"tool.call","runId":"r",`+ref+`}`), &call); err != nil || call.DataRef == nil {
		t.Errorf("claim check: got %+v, %v", call.DataRef, err)
	}
	var crumb crumbs.ToolResulted
	if err := crumbs.Decode(crumbs.TypeToolResulted, []byte(`{"type":"tool:result","runId":"r",`+ref+`}`), &crumb); !errors.Is(err, fault.Of(fault.InvalidMessage)) {
		t.Errorf("claim check without the base of a crumb: got %v, want INVALID_MESSAGE", err)
	}
}

// A body of garbage gets a bounded message.
func TestDecode_MessageIsBounded(t *testing.T) {
	t.Parallel()
	ids := strings.Repeat(`"`+strings.Repeat("?", 5000)+`",`, 200)
	var into crumbs.CtlCancel
	err := crumbs.Decode(crumbs.TypeCtlCancel, []byte(`{"type":"ctl.cancel","runId":"r","callIds":[`+ids+`"x"]}`), &into)
	const bytesMax = 8 << 10
	if !errors.Is(err, fault.Of(fault.InvalidMessage)) || len(err.Error()) > bytesMax {
		t.Errorf("got a message of %d bytes, want INVALID_MESSAGE of at most %d", len(err.Error()), bytesMax)
	}
}
