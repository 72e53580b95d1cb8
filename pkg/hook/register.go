package hook

import (
	"encoding/json"

	"github.com/crumbmesh/crumbmesh/pkg/crumbs"
	"github.com/crumbmesh/crumbmesh/pkg/fault"
	"github.com/crumbmesh/crumbmesh/pkg/tool"
)

// Hooks are functions for the points of runs and tool calls. Those that are nil are
// not called, and a file that names the hook at such a point does not load. Each may
// run many times at once, and once more after a crash of its worker.
type Hooks struct {
	// BeforeRun is called before a run or a call; see Continue and ShortCircuit.
	BeforeRun func(ctx Context, input json.RawMessage) (Before, error)
	// AfterRun is called with what came out, also of a short circuit and a recovery;
	// see Replace.
	AfterRun func(ctx Context, output json.RawMessage) (After, error)
	// OnError is called for every execution that failed; see Recover, Retry and Fail.
	OnError func(ctx Context, cause *fault.Error) (Remedy, error)
	// OnSuspend hears of the questions that a run waits for, and decides nothing.
	OnSuspend func(ctx Context) error
}

// Register declares hooks under a name, for worker.New and worker.Serve beside
// tools; files bring them in: `hooks: {beforeRun: {worker: {group, hook}}}`. Options
// are Timeout, Effect, Ready and Digest. A function that returns an error or panics
// fails what it was called for, unless the file says that the hook is advisory. What
// is wrong shows in the Err of what is returned.
func Register(name string, h Hooks, opts ...tool.Option) tool.Tool {
	return tool.NewHook(name, h.points(), h.call, opts...)
}

func (h Hooks) points() []string {
	var out []string
	for _, p := range []struct {
		point string
		is    bool
	}{
		{crumbs.HookBeforeRun, h.BeforeRun != nil}, {crumbs.HookAfterRun, h.AfterRun != nil},
		{crumbs.HookOnError, h.OnError != nil}, {crumbs.HookOnSuspend, h.OnSuspend != nil},
	} {
		if p.is {
			out = append(out, p.point)
		}
	}
	return out
}

// call runs the function of the point; it is not called for one that has none.
func (h Hooks) call(ctx tool.Context, args json.RawMessage, _ tool.Yield) (json.RawMessage, error) {
	var in crumbs.HookInput
	if err := json.Unmarshal(args, &in); err != nil {
		return nil, fault.Wrap(fault.InvalidMessage, err, "the args of the call are no input of a hook")
	}
	c := newContext(ctx, in)
	switch ctx.Hook.Point {
	case crumbs.HookBeforeRun:
		a, err := h.BeforeRun(c, in.Input)
		return result(a.answer, err)
	case crumbs.HookAfterRun:
		a, err := h.AfterRun(c, in.Output)
		return result(a.answer, err)
	case crumbs.HookOnError:
		cause := in.Error
		if cause == nil {
			cause = fault.New(fault.InternalError, "the call does not say what failed")
		}
		a, err := h.OnError(c, cause)
		return result(a.answer, err)
	}
	return json.RawMessage("null"), h.OnSuspend(c)
}

func result(a answer, err error) (json.RawMessage, error) {
	if err != nil {
		return nil, err
	}
	return a.written()
}
