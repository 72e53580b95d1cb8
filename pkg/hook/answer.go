package hook

import (
	"encoding/json"

	"github.com/crumbmesh/crumbmesh/pkg/crumbs"
	"github.com/crumbmesh/crumbmesh/pkg/fault"
)

// Before is an answer at beforeRun. The zero value is no opinion.
type Before struct{ answer }

// After is an answer at afterRun. The zero value is no opinion.
type After struct{ answer }

// Remedy is an answer at onError. The zero value is no opinion.
type Remedy struct{ answer }

// answer is a HookAnswer with what was wrong with its value.
type answer struct {
	crumbs.HookAnswer
	err error
}

// Continue goes on with v, anything encoding/json writes, instead of the input; the
// next hook gets it. Of a tool call v is checked like the model's own arguments.
func Continue(v any) Before {
	raw, err := encode("the input", v)
	return Before{answer{crumbs.HookAnswer{Action: crumbs.HookContinue, Input: raw}, err}}
}

// ShortCircuit ends what the hook was called for with v as its output, as if it had
// run: no later beforeRun hook is called, afterRun hooks are.
func ShortCircuit(v any) Before {
	raw, err := encode("the output", v)
	return Before{answer{crumbs.HookAnswer{Action: crumbs.HookShortCircuit, Output: raw}, err}}
}

// Replace puts v in the place of the output; the next hook gets it.
func Replace(v any) After {
	raw, err := encode("the output", v)
	return After{answer{crumbs.HookAnswer{Action: crumbs.HookReplace, Output: raw}, err}}
}

// Recover ends what failed with v as its output, as if it had come out.
func Recover(v any) Remedy {
	raw, err := encode("the output", v)
	return Remedy{answer{crumbs.HookAnswer{Action: crumbs.HookRecover, Output: raw}, err}}
}

// Retry executes what failed once more, within errorHandling.retry; where none is
// configured once, at once.
func Retry() Remedy {
	return Remedy{answer{HookAnswer: crumbs.HookAnswer{Action: crumbs.HookRetry}}}
}

// Fail ends what failed with another error, without another attempt. A nil one is
// an error of the hook.
func Fail(f *fault.Error) Remedy {
	a := Remedy{answer{HookAnswer: crumbs.HookAnswer{Action: crumbs.HookFail, Error: f}}}
	if f == nil {
		a.err = fault.New(fault.HookError, "hook.Fail(nil): expected the error to fail with; return a zero Remedy for no opinion")
	}
	return a
}

func encode(what string, v any) (json.RawMessage, error) {
	raw, err := json.Marshal(v)
	if err != nil {
		return nil, fault.Wrap(fault.HookError, err, "%s that the hook answers cannot be written as JSON: %v", what, err)
	}
	return raw, nil
}

// written is the answer as the wire has it.
func (a answer) written() (json.RawMessage, error) {
	if a.err != nil {
		return nil, a.err
	}
	return encode("what", a.HookAnswer)
}
