package crumbs

import (
	"bytes"
	"encoding/json"
	"slices"
	"strings"

	"github.com/crumbmesh/crumbmesh/pkg/fault"
)

// answers are the actions that a point knows, with the field that each takes.
var answers = map[string][]struct{ action, field string }{
	HookBeforeRun: {{HookContinue, "input"}, {HookShortCircuit, "output"}},
	HookAfterRun:  {{HookReplace, "output"}},
	HookOnError:   {{HookRecover, "output"}, {HookRetry, ""}, {HookFail, "error"}},
}

// ReadHookAnswer reads what a hook answered at a point; nil is no opinion. Of
// afterRun and beforeRun the action may be left out where `output`, or `input`, says
// it; onSuspend only observes, and what it answers is not looked at. It returns
// HOOK_ERROR for what is no answer of that point: an unknown field or action, a field
// that the action lacks or does not take. A guard that is misunderstood must not pass
// for one that has no objection.
func ReadHookAnswer(point string, raw json.RawMessage) (*HookAnswer, error) {
	known, ok := answers[point]
	if point == HookOnSuspend {
		return nil, nil
	}
	if !ok {
		return nil, fault.New(fault.HookError, "%q is no point of hooks: expected one of %s", clip(point, NameMax), strings.Join(HookPoints(), ", "))
	}
	bad := func(format string, args ...any) (*HookAnswer, error) {
		return nil, fault.New(fault.HookError, "%s: the hook's answer "+format+"; expected %s", append(append([]any{point}, args...), expectedAt(point))...).With("point", point)
	}
	var fields map[string]json.RawMessage
	if err := json.Unmarshal(raw, &fields); err != nil {
		return bad("is %s", kindOf(raw))
	}
	if len(fields) == 0 {
		return nil, nil
	}
	var a HookAnswer
	d := json.NewDecoder(bytes.NewReader(raw))
	d.DisallowUnknownFields()
	if err := d.Decode(&a); err != nil {
		return bad("cannot be read (%s)", strings.TrimPrefix(err.Error(), "json: "))
	}
	if a.Action == "" {
		switch {
		case point == HookAfterRun && a.Output != nil:
			a.Action = HookReplace
		case point == HookBeforeRun && a.Input != nil && a.Output == nil:
			a.Action = HookContinue
		case a.Output != nil || a.Input != nil || a.Error != nil:
			return bad("has no action")
		default:
			return nil, nil
		}
	}
	at := slices.IndexFunc(known, func(k struct{ action, field string }) bool { return k.action == a.Action })
	if at < 0 {
		return bad("has the action %q", clip(a.Action, NameMax))
	}
	for _, f := range []struct {
		name string
		set  bool
	}{{"input", a.Input != nil}, {"output", a.Output != nil}, {"error", a.Error != nil}} {
		takes := f.name == known[at].field
		if takes && !f.set {
			return bad("%s lacks its %s", a.Action, f.name)
		}
		if !takes && f.set {
			return bad("%s has a field %s, which it does not take", a.Action, f.name)
		}
	}
	if a.Error != nil && a.Error.Message == "" {
		return bad("%s has an error without a message", a.Action)
	}
	if a.Error != nil && a.Error.Code == "" {
		a.Error.Code = fault.HookError
	}
	return &a, nil
}

// expectedAt is what a point takes, as a sentence's end.
func expectedAt(point string) string {
	words := []string{"null or nothing"}
	for _, k := range answers[point] {
		word := `{"action":"` + k.action + `"`
		if k.field != "" {
			word += `,"` + k.field + `":…`
		}
		words = append(words, word+"}")
	}
	return strings.Join(words, ", ")
}

// kindOf is what a text is, that is not an object.
func kindOf(raw json.RawMessage) string {
	text := bytes.TrimSpace(raw)
	switch {
	case !json.Valid(text):
		return "no JSON"
	case text[0] == '[':
		return "an array"
	case text[0] == '"':
		return "a string"
	case text[0] == 't' || text[0] == 'f':
		return "true or false"
	}
	return "a number"
}
