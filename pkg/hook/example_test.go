package hook_test

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/crumbmesh/crumbmesh/pkg/crumbs"
	"github.com/crumbmesh/crumbmesh/pkg/fault"
	"github.com/crumbmesh/crumbmesh/pkg/hook"
	"github.com/crumbmesh/crumbmesh/pkg/tool"
)

// A guard before every call of a tool: it mends an argument, refuses another, and
// has no opinion about the rest.
func ExampleRegister() {
	guard := hook.Register("guard", hook.Hooks{
		BeforeRun: func(ctx hook.Context, input json.RawMessage) (hook.Before, error) {
			var args struct {
				To string `json:"to"`
			}
			if err := json.Unmarshal(input, &args); err != nil {
				return hook.Before{}, err
			}
			switch {
			case strings.HasSuffix(args.To, "@competitor.example"):
				return hook.Before{}, fault.New(fault.ToolDenied, "%s: nothing is sent to a competitor", ctx.ToolName)
			case strings.ToLower(args.To) != args.To:
				args.To = strings.ToLower(args.To)
				return hook.Continue(args), nil
			}
			return hook.Before{}, nil
		},
	})

	// What the mesh does when it calls the hook.
	call := func(input string) {
		args, _ := json.Marshal(crumbs.HookInput{Scope: crumbs.ScopeTool, Tool: "tool:send", ToolName: "tool_send", Input: json.RawMessage(input)})
		ctx := tool.Context{Context: context.Background(), Hook: &crumbs.HookRef{Name: "guard", Point: crumbs.HookBeforeRun}}
		answer, err := guard.Run(ctx, args, nil)
		fmt.Println(string(answer), err)
	}
	call(`{"to":"Ann@example.com"}`)
	call(`{"to":"ann@example.com"}`)
	call(`{"to":"bob@competitor.example"}`)
	// Output:
	// {"action":"continue","input":{"to":"ann@example.com"}} <nil>
	// null <nil>
	//  TOOL_DENIED: tool_send: nothing is sent to a competitor
}

// Empty results beat a failed run: whatever goes wrong, the tool found nothing.
func ExampleRecover() {
	lenient := hook.Register("lenient", hook.Hooks{
		OnError: func(ctx hook.Context, cause *fault.Error) (hook.Remedy, error) {
			if ctx.Execution == 1 && cause.RetryAfterMs > 0 {
				return hook.Retry(), nil
			}
			return hook.Recover([]string{}), nil
		},
	})
	args, _ := json.Marshal(crumbs.HookInput{Scope: crumbs.ScopeTool, Input: json.RawMessage(`{}`), Attempt: 2, Error: fault.New(fault.ToolError, "503")})
	answer, err := lenient.Run(tool.Context{Hook: &crumbs.HookRef{Name: "lenient", Point: crumbs.HookOnError}}, args, nil)
	fmt.Println(string(answer), err)
	// Output: {"action":"recover","output":[]} <nil>
}
