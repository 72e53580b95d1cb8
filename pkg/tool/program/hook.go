package program

import (
	"encoding/json"

	"github.com/crumbmesh/crumbmesh/pkg/crumbs"
	"github.com/crumbmesh/crumbmesh/pkg/fault"
	"github.com/crumbmesh/crumbmesh/pkg/tool"
)

// Hook declares p as a hook: a crumbs.HookInput on standard input, a
// crumbs.HookAnswer on standard output, or nothing, which is no opinion. At onSuspend
// the output is not looked at. CRUMB_HOOK_NAME and CRUMB_HOOK_POINT say what it is
// called as.
func (p Program) Hook(name string, points []string, opts ...tool.Option) tool.Tool {
	return tool.NewHook(name, points, p.runHook, append(p.options("hook"), opts...)...)
}

// Parser declares p as a parser: `{"text": …}` on standard input, the output of the
// run on standard output.
func (p Program) Parser(name string, opts ...tool.Option) tool.Tool {
	return tool.NewParser(name, p.run, append(p.options("parser"), opts...)...)
}

func (p Program) runHook(ctx tool.Context, args json.RawMessage, _ tool.Yield) (json.RawMessage, error) {
	answer, err := p.execute(ctx, "hook", args, &output{
		empty:   func() (json.RawMessage, error) { return json.RawMessage("null"), nil },
		ignored: ctx.Hook != nil && ctx.Hook.Point == crumbs.HookOnSuspend,
	})
	if f := fault.From(err); f != nil && f.Code == fault.ToolError {
		c := *f
		c.Code = fault.HookError
		return nil, &c
	}
	return answer, err
}
