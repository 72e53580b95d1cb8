package tool_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/crumbmesh/crumbmesh/pkg/crumbs"
	"github.com/crumbmesh/crumbmesh/pkg/fault"
	"github.com/crumbmesh/crumbmesh/pkg/tool"
)

type query struct {
	Query string   `json:"query" jsonschema:"minLength=1,description=What to look for"`
	Limit int      `json:"limit" jsonschema:"minimum=1,maximum=10,default=5"`
	Sites []string `json:"sites,omitempty" jsonschema:"maxItems=3"`
}

type hits struct {
	Query string `json:"query"`
	Limit int    `json:"limit"`
}

func search(_ tool.Context, in query) (hits, error) { return hits{in.Query, in.Limit}, nil }

// run prepares and runs, and collects the partials.
func run(t *testing.T, tl tool.Tool, args string) (result string, partials []string, err error) {
	t.Helper()
	return runIn(t, tool.Context{Context: t.Context(), ToolName: "tool_x", CallID: "run_1.1.0", Attempt: 1}, tl, args)
}

func runIn(t *testing.T, ctx tool.Context, tl tool.Tool, args string) (result string, partials []string, err error) {
	t.Helper()
	doc, err := tl.Prepare(json.RawMessage(args))
	if err != nil {
		return "", nil, err
	}
	raw, err := tl.Run(ctx, doc, func(p json.RawMessage) error {
		partials = append(partials, string(p))
		return nil
	})
	return string(raw), partials, err
}

func wantFault(t *testing.T, err error, code fault.Code, parts ...string) *fault.Error {
	t.Helper()
	var f *fault.Error
	if !errors.As(err, &f) || f.Code != code {
		t.Fatalf("got error %v, want code %s", err, code)
	}
	for _, p := range parts {
		if !strings.Contains(f.Message, p) {
			t.Errorf("message %q does not say %q", f.Message, p)
		}
	}
	return f
}

func TestDefine_T02_DefaultsAndBounds(t *testing.T) {
	t.Parallel()
	tl := tool.Define("web_search", "Search.", search)
	if err := tl.Err(); err != nil {
		t.Fatal(err)
	}
	got, partials, err := run(t, tl, `{"query":"go"}`)
	if err != nil || got != `{"query":"go","limit":5}` {
		t.Fatalf("got %s, %v", got, err)
	}
	if partials != nil { // CF-S08
		t.Errorf("a plain tool emitted partials %q", partials)
	}
	_, _, err = run(t, tl, `{"query":"go","limit":11}`)
	wantFault(t, err, fault.InvalidArguments, "limit")
	_, _, err = run(t, tl, `{}`)
	wantFault(t, err, fault.InvalidArguments, "query")
}

func TestDefine_EffectIsOnceUnlessSaid(t *testing.T) {
	t.Parallel()
	if e := tool.Define("a", "d", search).Effect(); e != crumbs.EffectOnce {
		t.Errorf("default effect %q", e)
	}
	if e := tool.Define("a", "d", search, tool.Effect(crumbs.EffectPure)).Effect(); e != crumbs.EffectPure {
		t.Errorf("effect %q", e)
	}
}

func TestRun_T14_FaultKeepsItsCode(t *testing.T) {
	t.Parallel()
	own := fault.New(fault.QueueFull, "the search engine is busy")
	for name, tc := range map[string]struct {
		err  error
		code fault.Code
		text string
	}{
		"fault":         {own, fault.QueueFull, "the search engine is busy"},
		"wrapped fault": {fmt.Errorf("searching: %w", own), fault.QueueFull, "busy"},
		"plain":         {io.ErrUnexpectedEOF, fault.ToolError, "unexpected EOF"},
		"long":          {errors.New(strings.Repeat("é", tool.ErrorMax)), fault.ToolError, "…"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			tl := tool.Define("a", "d", func(tool.Context, struct{}) (int, error) { return 1, tc.err })
			_, _, err := run(t, tl, `{}`)
			f := wantFault(t, err, tc.code, tc.text)
			if tc.code == fault.ToolError && (f.Context["toolName"] != "tool_x" || !errors.Is(err, tc.err)) {
				t.Errorf("context %v, cause kept: %v", f.Context, errors.Is(err, tc.err))
			}
			if len(f.Message) > tool.ErrorMax+len("…") {
				t.Errorf("message of %d bytes", len(f.Message))
			}
		})
	}
}

func TestRun_ResultNotJSON(t *testing.T) {
	t.Parallel()
	tl := tool.Define("a", "d", func(tool.Context, struct{}) (float64, error) { return math.NaN(), nil })
	_, _, err := run(t, tl, `{}`)
	wantFault(t, err, fault.ToolResultInvalid)

	raw := tool.New("a", "d", func(tool.Context, json.RawMessage, tool.Yield) (json.RawMessage, error) {
		return json.RawMessage("{"), nil
	})
	_, _, err = run(t, raw, `{}`)
	wantFault(t, err, fault.ToolResultInvalid)
}

// What encoding/json reads alone, 10,000 levels, it does not write inside a
// record: a run would wait for such a result for ever.
func TestRun_ResultTooDeep(t *testing.T) {
	t.Parallel()
	nested := func(n int) json.RawMessage {
		return json.RawMessage(strings.Repeat("[", n) + strings.Repeat("]", n))
	}
	h := func(_ tool.Context, args json.RawMessage, yield tool.Yield) (json.RawMessage, error) {
		var in struct{ Result, Partial int }
		if err := json.Unmarshal(args, &in); err != nil {
			return nil, err
		}
		if in.Partial > 0 {
			if err := yield(nested(in.Partial)); err != nil {
				return nil, err
			}
		}
		return nested(in.Result), nil
	}
	raw := tool.New("a", "d", h, tool.Stream())
	if _, partials, err := run(t, raw, fmt.Sprintf(`{"result":%d,"partial":%[1]d}`, tool.DepthMax)); err != nil || len(partials) != 1 {
		t.Errorf("at the limit: %v, %d partials", err, len(partials))
	}
	for _, n := range []int{tool.DepthMax + 1, 9_995, 20_000} {
		for _, args := range []string{`{"result":%d}`, `{"partial":%d,"result":1}`} {
			_, partials, err := run(t, raw, fmt.Sprintf(args, n))
			f := wantFault(t, err, fault.ToolResultInvalid, fmt.Sprintf("%d levels", n), fmt.Sprint(tool.DepthMax))
			if f.Context["depth"] != n || len(partials) != 0 {
				t.Errorf("context %v, %d partials", f.Context, len(partials))
			}
		}
		typed := tool.Define("a", "d", func(tool.Context, struct{}) (any, error) {
			var v any
			for range n {
				v = []any{v}
			}
			return v, nil
		})
		_, _, err := run(t, typed, `{}`)
		wantFault(t, err, fault.ToolResultInvalid, fmt.Sprintf("%d levels", n))
	}
}

func TestRun_ResultTooLarge(t *testing.T) {
	t.Parallel()
	of := func(n int) tool.Tool {
		return tool.Define("a", "d", func(tool.Context, struct{}) (string, error) { return strings.Repeat("x", n-2), nil })
	}
	if _, _, err := run(t, of(tool.ResultMax), `{}`); err != nil {
		t.Errorf("a result of the limit: %v", err)
	}
	_, _, err := run(t, of(tool.ResultMax+1), `{}`)
	wantFault(t, err, fault.PayloadTooLarge)
}

// A schema wider than the struct lets arguments through that do not decode.
func TestRun_F052_DecoderTextStaysInside(t *testing.T) {
	t.Parallel()
	tl := tool.Define("a", "d", search, tool.Schema(json.RawMessage(`{"type":"object"}`)))
	_, _, err := run(t, tl, `{"limit":"ten"}`)
	f := wantFault(t, err, fault.InvalidArguments, "limit", "string")
	if strings.Contains(f.Message, "Go") || strings.Contains(f.Message, "query.") || strings.Contains(f.Message, "int") {
		t.Errorf("message %q names Go types", f.Message)
	}
}

func stream(values []int, after error) func(tool.Context, struct{}) iter.Seq2[int, error] {
	return func(tool.Context, struct{}) iter.Seq2[int, error] {
		return func(yield func(int, error) bool) {
			for _, v := range values {
				if !yield(v, nil) {
					return
				}
			}
			if after != nil {
				yield(99, after)
			}
		}
	}
}

func TestStream_CF_S01_LastYieldIsTheResult(t *testing.T) {
	t.Parallel()
	got, partials, err := run(t, tool.DefineStream("a", "d", stream([]int{1, 2}, nil)), `{}`)
	if err != nil || got != "2" {
		t.Fatalf("got %s, %v", got, err)
	}
	if d := cmp.Diff([]string{"1", "2"}, partials); d != "" {
		t.Error(d)
	}
}

func TestStream_CF_S04_NoYieldsIsNull(t *testing.T) {
	t.Parallel()
	got, partials, err := run(t, tool.DefineStream("a", "d", stream(nil, nil)), `{}`)
	if err != nil || got != "null" || partials != nil {
		t.Fatalf("got %s, %q, %v", got, partials, err)
	}
}

func TestStream_CF_S05_ErrorEndsIt(t *testing.T) {
	t.Parallel()
	_, partials, err := run(t, tool.DefineStream("a", "d", stream([]int{1}, io.ErrUnexpectedEOF)), `{}`)
	wantFault(t, err, fault.ToolError, "unexpected EOF")
	if d := cmp.Diff([]string{"1"}, partials); d != "" {
		t.Error(d)
	}
}

func TestStream_ReaderThatStopsEndsTheIterator(t *testing.T) {
	t.Parallel()
	stopped := fault.New(fault.Unavailable, "no reader")
	yields := 0
	tl := tool.DefineStream("a", "d", stream([]int{1, 2, 3}, nil))
	_, err := tl.Run(tool.Context{Context: t.Context()}, json.RawMessage(`{}`), func(json.RawMessage) error { yields++; return stopped })
	if !errors.Is(err, stopped) || yields != 1 {
		t.Errorf("got %v after %d yields", err, yields)
	}
}

func TestNew_CF_S08_PlainHandlerMayNotYield(t *testing.T) {
	t.Parallel()
	h := func(_ tool.Context, _ json.RawMessage, yield tool.Yield) (json.RawMessage, error) {
		return json.RawMessage("1"), yield(json.RawMessage("0"))
	}
	_, partials, err := run(t, tool.New("a", "d", h), `{}`)
	wantFault(t, err, fault.ToolError, "streaming")
	if partials != nil {
		t.Errorf("partials %q", partials)
	}
	got, partials, err := run(t, tool.New("a", "d", h, tool.Stream()), `{}`)
	if err != nil || got != "1" || len(partials) != 1 {
		t.Errorf("got %s, %q, %v", got, partials, err)
	}
}

func TestDeclaration_Mistakes(t *testing.T) {
	t.Parallel()
	type typo struct {
		N int `json:"n" jsonschema:"maximun=3"`
	}
	ok := func(tool.Context, struct{}) (int, error) { return 0, nil }
	for name, tc := range map[string]struct {
		tool tool.Tool
		code fault.Code
		say  []string
	}{
		"name":            {tool.Define("WebSearch", "d", ok), fault.InvalidName, []string{"web_search"}},
		"program name":    {tool.New("Agent/x", "d", nil), fault.InvalidName, []string{"Agent"}},
		"no description":  {tool.Define("a", " ", ok), fault.InvalidConfig, []string{"description"}},
		"no function":     {tool.Define[struct{}, int]("a", "d", nil), fault.InvalidConfig, []string{"function"}},
		"effect":          {tool.Define("a", "d", ok, tool.Effect("twice")), fault.InvalidConfig, []string{"twice", "pure, idempotent or once"}},
		"timeout":         {tool.Define("a", "d", ok, tool.Timeout(-time.Second)), fault.InvalidConfig, []string{"-1s"}},
		"idle, plain":     {tool.Define("a", "d", ok, tool.IdleTimeout(time.Second)), fault.InvalidConfig, []string{"IdleTimeout", "stream"}},
		"scalar argument": {tool.Define("a", "d", func(tool.Context, int) (int, error) { return 0, nil }), fault.InvalidConfig, []string{"struct"}},
		"tag word":        {tool.Define("a", "d", func(tool.Context, typo) (int, error) { return 0, nil }), fault.InvalidConfig, []string{"maximun", "maximum"}},
		"schema":          {tool.Define("a", "d", ok, tool.Schema(json.RawMessage(`{"type":5}`))), fault.InvalidConfig, nil},
		"output schema":   {tool.Define("a", "d", ok, tool.OutputSchema(json.RawMessage(`{`))), fault.InvalidConfig, nil},
		"two mistakes":    {tool.Define("a", "", ok, tool.Effect("x")), fault.InvalidConfig, []string{"effect", "description"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			wantFault(t, tc.tool.Err(), tc.code, append(tc.say, "tool \"")...)
			if _, err := tc.tool.Run(tool.Context{Context: t.Context()}, json.RawMessage(`{}`), nil); !errors.Is(err, tc.tool.Err()) {
				t.Errorf("Run of a wrong tool: %v", err)
			}
		})
	}
}
