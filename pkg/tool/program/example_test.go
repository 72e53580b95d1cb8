package program_test

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/crumbmesh/crumbmesh/pkg/crumbs"
	"github.com/crumbmesh/crumbmesh/pkg/tool"
	"github.com/crumbmesh/crumbmesh/pkg/tool/program"
)

func ExampleProgram_Tool() {
	count := program.Program{Command: []string{"sh", "-c", `tr -cd a | wc -c | tr -d ' '`}}.
		Tool("count_a", "Counts the letter a.", tool.Effect(crumbs.EffectPure),
			tool.Schema(json.RawMessage(`{"type":"object","properties":{"text":{"type":"string"}},"required":["text"]}`)))

	result, err := count.Run(tool.Context{Context: context.Background()}, json.RawMessage(`{"text":"banana"}`), nil)
	fmt.Println(string(result), err)
	// Output: 3 <nil>
}

func ExampleProgram_Tool_stream() {
	steps := program.Program{Command: []string{"sh", "-c", `echo '{"done":1}'; echo '{"done":2}'`}, Stream: true}.
		Tool("steps", "Works in steps.")

	result, err := steps.Run(tool.Context{Context: context.Background()}, json.RawMessage(`{}`), func(partial json.RawMessage) error {
		fmt.Println("partial", string(partial))
		return nil
	})
	fmt.Println("result ", string(result), err)
	// Output:
	// partial {"done":1}
	// partial {"done":2}
	// result  {"done":2} <nil>
}
