package tool_test

import (
	"context"
	"encoding/json"
	"fmt"
	"iter"
	"strings"
	"time"

	"github.com/crumbmesh/crumbmesh/pkg/crumbs"
	"github.com/crumbmesh/crumbmesh/pkg/fault"
	"github.com/crumbmesh/crumbmesh/pkg/tool"
)

func ExampleDefine() {
	type Query struct {
		Query string `json:"query" jsonschema:"minLength=1,description=What to look for"`
		Limit int    `json:"limit" jsonschema:"minimum=1,maximum=10,default=5"`
	}
	search := tool.Define("web_search", "Search the web and return the top results.",
		func(ctx tool.Context, in Query) ([]string, error) {
			return []string{fmt.Sprintf("%s: %d results", in.Query, in.Limit)}, nil
		},
		tool.Effect(crumbs.EffectPure), tool.Timeout(30*time.Second))

	// A worker serves it; without a mesh it runs like this.
	args, err := search.Prepare(json.RawMessage(`{"query": "go"}`))
	if err != nil {
		fmt.Println(err)
		return
	}
	result, err := search.Run(tool.Context{Context: context.Background()}, args, nil)
	fmt.Println(string(args))
	fmt.Println(string(result), err)

	_, err = search.Prepare(json.RawMessage(`{"query": "go", "limit": "ten"}`))
	fmt.Println(err)
	// Output:
	// {"limit":5,"query":"go"}
	// ["go: 5 results"] <nil>
	// INVALID_ARGUMENTS: the arguments do not fit the schema: limit must be an integer, got a string
}

func ExampleDefineStream() {
	type Text struct {
		Text string `json:"text"`
	}
	words := tool.DefineStream("words", "Reads a text word by word.",
		func(ctx tool.Context, in Text) iter.Seq2[string, error] {
			return func(yield func(string, error) bool) {
				read := ""
				for _, w := range strings.Fields(in.Text) {
					read += w + " "
					if !yield(strings.TrimSpace(read), nil) {
						return
					}
				}
			}
		},
		tool.IdleTimeout(time.Second))

	result, err := words.Run(tool.Context{Context: context.Background()}, json.RawMessage(`{"text": "to be or"}`),
		func(partial json.RawMessage) error {
			fmt.Println("partial", string(partial))
			return nil
		})
	fmt.Println("result ", string(result), err)
	// Output:
	// partial "to"
	// partial "to be"
	// partial "to be or"
	// result  "to be or" <nil>
}

// The call's id is the same on a redelivery and on a retry: given to the other
// side as the idempotency key, it makes a second execution harmless.
func ExampleEffect() {
	type Payment struct {
		Cents int `json:"cents" jsonschema:"minimum=1"`
	}
	pay := tool.Define("pay", "Pays.", func(ctx tool.Context, in Payment) (string, error) {
		return fmt.Sprintf("paid %d, idempotency key %s", in.Cents, ctx.CallID), nil
	}, tool.Effect(crumbs.EffectIdempotent))

	ctx := tool.Context{Context: context.Background(), CallID: "run_1.1.0", Attempt: 1}
	result, err := pay.Run(ctx, json.RawMessage(`{"cents": 250}`), nil)
	fmt.Println(string(result), err)
	// Output: "paid 250, idempotency key run_1.1.0" <nil>
}

// Declaring a tool never panics; a worker refuses to serve one with a mistake.
func ExampleTool_Err() {
	type Query struct {
		Limit int `json:"limit" jsonschema:"maximun=10"`
	}
	broken := tool.Define("search", "Searches.", func(tool.Context, Query) (string, error) { return "", nil })
	fmt.Println(broken.Err())
	// Output: INVALID_CONFIG: tool "search": field Limit: jsonschema tag: "maximun" is no word that a field of type integer knows; it knows anchor, anyof_ref, anyof_required, anyof_type, default, description, enum, example, exclusiveMaximum, exclusiveMinimum, maximum, minimum, multipleOf, nullable, oneof_ref, oneof_required, oneof_type, required, title, type
}

// A fault chosen by the tool keeps its code all the way to the model and the crumbs.
func ExampleTool_Run_fault() {
	search := tool.Define("search", "Searches.", func(tool.Context, struct{}) (string, error) {
		return "", fault.New(fault.QueueFull, "the search engine takes no more requests this minute")
	})
	_, err := search.Run(tool.Context{Context: context.Background()}, json.RawMessage(`{}`), nil)
	fmt.Println(fault.CodeOf(err))
	// Output: QUEUE_FULL
}
