package render_test

import (
	"encoding/json"
	"strings"
	"testing"
	"unicode"

	"github.com/crumbmesh/crumbmesh/cmd/crumb/internal/render"
	"github.com/crumbmesh/crumbmesh/pkg/crumbs"
)

const base = `"runId":"run_1","agentId":"publisher","sessionId":"s","timestamp":1,`

// One crumb is one aligned line that has what matters.
func TestCrumb_OneLineEach(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ body, want string }{
		{`{"type":"agent:run:start",` + base + `"seq":1,"input":{"path":"README.md"},"tools":["human_headline","tool_publish"],"warnings":["odd"]}`,
			`    1  agent:run:start  publisher  {"path":"README.md"}  tools human_headline, tool_publish  warning: odd`},
		{`{"type":"step:end",` + base + `"seq":2,"attempt":1,"text":"Reading.","toolCallIds":["run_1.1.0","run_1.1.1"],"usage":{"inputTokens":100,"outputTokens":20},"deltas":0,"durationMs":12}`,
			`    2  step:end         "Reading."  [2 calls, 12ms, 100+20 tokens]`},
		{`{"type":"step:end",` + base + `"seq":2,"attempt":1,"error":{"code":"MODEL_ERROR","message":"status 529"},"deltas":0,"durationMs":2}`,
			`    2  step:end         MODEL_ERROR: status 529  [2ms]`},
		{`{"type":"tool:call",` + base + `"seq":3,"toolCallId":"run_1.1.0","toolName":"tool_read","tool":"tool:read","args":{"path": "a"},"group":"demo","effect":"pure"}`,
			`    3  tool:call        1.0  tool_read  {"path":"a"}  [group demo, pure]`},
		{`{"type":"tool:result",` + base + `"seq":5,"toolCallId":"run_1.1.1","toolName":"tool_count","result":{"words":812},"durationMs":1500,"deltas":3}`,
			`    5  tool:result      1.1  tool_count  {"words":812}  [1.5s, 3 partials]`},
		{`{"type":"tool:error",` + base + `"seq":5,"toolCallId":"run_1.1.1","toolName":"tool_pay","error":{"code":"OUTCOME_UNKNOWN","message":"interrupted"},"outcome":"unknown","durationMs":1,"deltas":0}`,
			`    5  tool:error       1.1  tool_pay  OUTCOME_UNKNOWN: interrupted  [unknown, 1ms]`},
		{`{"type":"tool:result",` + base + `"seq":5,"toolCallId":"run_1.1.1","toolName":"tool_count","attempt":1,"result":3,"durationMs":1,"deltas":0}`,
			`    5  tool:result      1.1  tool_count  3  [1ms]`},
		{`{"type":"tool:result",` + base + `"seq":5,"toolCallId":"run_1.1.1","toolName":"tool_count","attempt":2,"result":3,"durationMs":1,"deltas":1}`,
			`    5  tool:result      1.1  tool_count  3  [attempt 2, 1ms, 1 partial]`},
		{`{"type":"tool:error",` + base + `"seq":5,"toolCallId":"run_1.1.1","toolName":"tool_pay","attempt":3,"error":{"code":"OUTCOME_UNKNOWN","message":"interrupted"},"outcome":"unknown","durationMs":1,"deltas":0}`,
			`    5  tool:error       1.1  tool_pay  OUTCOME_UNKNOWN: interrupted  [unknown, attempt 3, 1ms]`},
		{`{"type":"tool:result",` + base + `"seq":5,"toolCallId":"run_1.1.1","toolName":"tool_count","attempt":2,"hook":"cache","result":3,"durationMs":1,"deltas":0}`,
			`    5  tool:result      1.1  tool_count  3  [by hook cache, attempt 2, 1ms]`},
		{`{"type":"hook:error",` + base + `"seq":5,"hook":"audit","point":"afterRun","scope":"tool","toolCallId":"run_1.1.1","toolName":"tool_count","error":{"code":"HOOK_ERROR","message":"status 500"},"attempts":3,"advisory":true}`,
			`    5  hook:error       1.1  tool_count  audit  afterRun  HOOK_ERROR: status 500  [3 attempts, advisory: it goes on]`},
		{`{"type":"hook:error",` + base + `"seq":5,"hook":"audit","point":"beforeRun","scope":"agent","error":{"code":"HOOK_ERROR","message":"no"},"attempts":1}`,
			`    5  hook:error       audit  beforeRun  HOOK_ERROR: no`},
		{`{"type":"file:generated",` + base + `"seq":5,"file":{"kind":"file","uri":"files:run_1/a","mimeType":"image/png","name":"a.png"}}`,
			`    5  file:generated   files:run_1/a  image/png  a.png`},
		{`{"type":"tool:blocked",` + base + `"seq":5,"toolCallId":"run_1.1.1","toolName":"tool_x","reason":"unknown","error":{"code":"TOOL_NOT_FOUND","message":"no tool_x"}}`,
			`    5  tool:blocked     1.1  tool_x  TOOL_NOT_FOUND: no tool_x  [not run: unknown]`},
		{`{"type":"human:required",` + base + `"seq":9,"suspended":true,"checkpointId":"run_1.2.1","kind":"approval","toolName":"tool_publish","args":{"title":"t"},"argsHash":"5f","schema":{}}`,
			`    9  human:required   2.1  tool_publish  approval  {"title":"t"}  (waits for a person)`},
		{`{"type":"human:resumed",` + base + `"seq":10,"checkpointId":"run_1.2.1","kind":"approval","toolName":"tool_publish","outcome":"approved","by":{"iss":"local","sub":"ann"},"waitedMs":61000}`,
			`   10  human:resumed    2.1  tool_publish  approved  by local/ann  [waited 1m1s]`},
		{`{"type":"human:resumed",` + base + `"seq":13,"checkpointId":"run_1.2.0","kind":"input","toolName":"human_headline","outcome":"answered","response":"","waitedMs":5}`,
			`   13  human:resumed    2.0  human_headline  answered  ""  [waited 5ms]`},
		{`{"type":"tool:result",` + base + `"seq":12,"suspended":true,"toolCallId":"run_1.2.1","toolName":"tool_publish","result":null,"durationMs":1,"deltas":0}`,
			`   12  tool:result      2.1  tool_publish  null  [1ms]  (waits for a person)`},
		{`{"type":"agent:run:end",` + base + `"seq":15,"output":"done","finishReason":"stop","steps":1,"durationMs":900}`,
			`   15  agent:run:end    "done"  [stop, 1 step, 900ms]`},
		{`{"type":"agent:run:end",` + base + `"seq":15,"output":"done","finishReason":"stop","steps":0,"durationMs":900,"hooks":["cache","tag"]}`,
			`   15  agent:run:end    "done"  [stop, by hook cache, tag, 0 steps, 900ms]`},
		{`{"type":"tool:call",` + base + `"seq":3,"toolCallId":"run_1.1.0","toolName":"tool_pay","tool":"tool:pay","args":{},"group":"demo","effect":"once","hooks":["cap"]}`,
			`    3  tool:call        1.0  tool_pay  {}  [group demo, once, by hook cap]`},
		{`{"type":"agent:error",` + base + `"seq":4,"error":{"code":"RUN_CANCELLED","message":"by ann"},"durationMs":1}`,
			`    4  agent:error      RUN_CANCELLED: by ann  [1ms]`},
		{`{"type":"text:delta",` + base + `"seq":1,"attempt":1,"index":0,"delta":"Rea\n"}`,
			`    1  text:delta       "Rea\n"`},
		{`{"type":"tool:result",` + base + `"seq":7,"dataref":{"object":"run_1/ab","bytes":300000}}`,
			`    7  tool:result      (a body of 300000 bytes, in run_1/ab)`},
		{`{"type":"from:later","seq":7,"x":1}`, `    7  from:later       {"type":"from:later","seq":7,"x":1}`},
	} {
		if got := render.Crumb(json.RawMessage(c.body)).String(); got != c.want {
			t.Errorf("%s\n got %s\nwant %s", c.body, got, c.want)
		}
	}
}

// Whatever a tool or a model wrote, a line is one line without control
// characters, escape sequences and bidirectional overrides.
func TestCrumb_ForeignTextIsHarmless(t *testing.T) {
	t.Parallel()
	evil := "a\x1b[31m\x07\u202eb\u009bc\r\n\x00d\x7f"
	for _, typ := range append(crumbs.CrumbTypes(), crumbs.DeltaTypes()...) {
		text, err := json.Marshal(evil)
		if err != nil {
			t.Fatal(err)
		}
		e := string(text)
		body := `{"type":"` + typ + `","runId":` + e + `,"agentId":` + e + `,"seq":1,"input":` + e + `,"output":` + e + `,"text":` + e + `,"delta":` + e +
			`,"toolName":` + e + `,"toolCallId":` + e + `,"checkpointId":` + e + `,"args":` + e + `,"result":` + e + `,"group":` + e + `,"effect":` + e +
			`,"reason":` + e + `,"outcome":` + e + `,"kind":` + e + `,"prompt":` + e + `,"finishReason":` + e + `,"response":` + e +
			`,"by":{"iss":` + e + `,"sub":` + e + `},"tools":[` + e + `],"warnings":[` + e + `],"error":{"code":` + e + `,"message":` + e + `}}`
		line := render.Crumb(json.RawMessage(body))
		for _, r := range line.String() {
			if !unicode.IsPrint(r) {
				t.Errorf("%s: %q in %q", typ, r, line)
			}
		}
	}
	if got := render.Crumb(json.RawMessage("\x1b[2Jno json")).String(); strings.Contains(got, "\x1b") {
		t.Errorf("a body that is no JSON: %q", got)
	}
}

func TestCrumb_LongValuesAreCut(t *testing.T) {
	t.Parallel()
	body := `{"type":"tool:result",` + base + `"seq":1,"toolCallId":"run_1.1.0","toolName":"t","result":"` + strings.Repeat("é", 10_000) + `","durationMs":1}`
	if got := render.Crumb(json.RawMessage(body)).String(); len([]rune(got)) > 200 || !strings.Contains(got, "…") {
		t.Errorf("%d characters: %s", len([]rune(got)), got)
	}
}

// What a person decides on is shown whole.
func TestDocument_IsWholeAndHarmless(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("x", 5_000)
	got := render.Document(json.RawMessage(`{"a":"`+long+"\u202e"+`","b":[1]}`), "  ")
	if !strings.Contains(got, long) || strings.Contains(got, "\u202e") || !strings.Contains(got, "\n") {
		t.Errorf("%.200s", got)
	}
}

func TestTable_AlignsAndCuts(t *testing.T) {
	t.Parallel()
	table := render.Table{Header: []string{"RUN", "STATUS"}}
	table.Add("run_é", "running")
	table.Add("r", "two\nlines")
	var b strings.Builder
	if err := table.Write(&b); err != nil {
		t.Fatal(err)
	}
	want := "RUN    STATUS\nrun_é  running\nr      two lines\n"
	if b.String() != want {
		t.Errorf("got\n%s\nwant\n%s", b.String(), want)
	}
}
