package tool_test

import (
	"encoding/json"
	"fmt"
	"math"
	"strings"
	"testing"

	"github.com/crumbmesh/crumbmesh/pkg/crumbs"
	"github.com/crumbmesh/crumbmesh/pkg/fault"
	"github.com/crumbmesh/crumbmesh/pkg/tool"
)

// What comes out and is no JSON document is called what it is: whoever reads it looks
// for a hook, a parser or a tool. Of a hook it is an answer that no point knows.
func TestRun_NonsenseIsCalledWhatItIs(t *testing.T) {
	t.Parallel()
	handler := func(_ tool.Context, args json.RawMessage, _ tool.Yield) (json.RawMessage, error) {
		if string(args) == `{"text":"deep"}` {
			return json.RawMessage(strings.Repeat("[", tool.DepthMax+1) + strings.Repeat("]", tool.DepthMax+1)), nil
		}
		return json.RawMessage("{"), nil
	}
	before := &crumbs.HookRef{Name: "guard", Point: crumbs.HookBeforeRun}
	for _, c := range []struct {
		of   tool.Tool
		hook *crumbs.HookRef
		code fault.Code
		want string
	}{
		{tool.New("a", "d", handler), nil, fault.ToolResultInvalid, "the tool's result"},
		{tool.NewParser("a", handler), nil, fault.ToolResultInvalid, "the parser's output"},
		{tool.NewHook("a", []string{crumbs.HookBeforeRun}, handler), before, fault.HookError, "the hook's answer"},
	} {
		for args, ends := range map[string]string{`{}`: " is not JSON (1 bytes)", `{"text":"deep"}`: fmt.Sprintf(" is nested %d levels deep", tool.DepthMax+1)} {
			_, err := c.of.Run(tool.Context{Context: t.Context(), Hook: c.hook}, json.RawMessage(args), nil)
			wantFault(t, err, c.code, c.want+ends)
		}
	}
	parser := tool.DefineParser("a", func(tool.Context, string) (float64, error) { return math.NaN(), nil })
	_, err := parser.Run(tool.Context{Context: t.Context()}, json.RawMessage(`{"text":"a"}`), nil)
	wantFault(t, err, fault.ToolResultInvalid, "the parser's output cannot be written as JSON")
}
