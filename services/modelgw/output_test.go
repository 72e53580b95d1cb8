package modelgw_test

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/crumbmesh/crumbmesh/internal/meshtest"
	"github.com/crumbmesh/crumbmesh/pkg/crumbs"
	"github.com/crumbmesh/crumbmesh/pkg/fault"
	"github.com/crumbmesh/crumbmesh/pkg/mesh"
	"github.com/crumbmesh/crumbmesh/services/modelgw"
	"github.com/crumbmesh/crumbmesh/services/modelgw/internal/worker/gatewaytest"
)

// structured is a call whose answer is to be one JSON document.
func structured(call crumbs.ModelCall) crumbs.ModelCall {
	call.Output = &crumbs.ModelOutput{Format: "json", Schema: json.RawMessage(`{"type":"object"}`)}
	return call
}

// A structured answer is generated without tools, and nobody follows half a
// document; what is thought aloud meanwhile is followed as ever.
func TestRun_CF_O03_JSON(t *testing.T) {
	t.Parallel()
	meshtest.Virtual(t, func(t *testing.T) {
		b := gatewaytest.Start(t)
		call := structured(apply(t, b, `[
			{"reasoning": "hm", "json": {"path": "{{ .input.path }}", "tools": "{{ len .prompt.tools }}", "system": "{{ .prompt.system }}"}},
			{"chunks": ["{\"not\": ", "checked here"]},
			{"json": [], "toolCalls": [{"name": "tool_read"}]}
		]`))
		call.System, call.Tools = "Be exact.", []crumbs.ToolSpec{{Name: "tool_read", InputSchema: json.RawMessage(`{"type":"object"}`)}}
		defer start(t, b, modelgw.Config{})()

		b.Send(call)
		r := b.Result()
		if diff := cmp.Diff([]crumbs.Part{
			{Type: crumbs.PartReasoning, Text: "hm", Provider: modelgw.ProviderScript},
			{Type: crumbs.PartText, Text: `{"path":"README.md","tools":"0","system":"Be exact."}`},
		}, r.Message.Parts); diff != "" || r.Deltas != 1 {
			t.Errorf("%d deltas, %s", r.Deltas, diff)
		}
		b.Send(next(call, false))
		if r := b.Result(); r.Status != crumbs.StatusOK || r.Message.Parts[0].Text != `{"not": checked here` || r.Deltas != 0 {
			t.Errorf("a text is the orchestrator's to check: %+v %+v", r.ModelResult, r.Message)
		}
		b.Send(next(next(call, false), false))
		if r := b.Result(); r.Error == nil || r.Error.Code != fault.ModelError || r.Retryable || !strings.Contains(r.Error.Message, "toolCalls, but the agent's output.format is json") {
			t.Errorf("tool calls: %+v %+v", r.ModelResult, r.Error)
		}
		var kinds []string
		for _, d := range b.Deltas() {
			kinds = append(kinds, d.Type)
		}
		if !slices.Equal(kinds, []string{crumbs.TypeReasoningDelta}) {
			t.Errorf("deltas %v", kinds)
		}
	})
}

// Settings reach the provider as they are, options under the key of its kind.
func TestRun_CF_O09_SettingsAndOptions(t *testing.T) {
	t.Parallel()
	meshtest.Virtual(t, func(t *testing.T) {
		b := gatewaytest.Start(t)
		call := apply(t, b, `[
			{"text": "{{ json .settings }} {{ json .providerOptions }} {{ .settings.temperature }} {{ .providerOptions.script.effort }}"},
			{"text": "{{ json .settings }} {{ json .providerOptions }}"}
		]`)
		temperature, most, seed := 0.5, int64(100), int64(0)
		bare := next(call, false)
		call.Settings = &crumbs.ModelSettings{Temperature: &temperature, MaxOutputTokens: &most, Seed: &seed, StopSequences: []string{"END"}}
		call.ProviderOptions = json.RawMessage(`{"effort":"low"}`)
		defer start(t, b, modelgw.Config{})()
		b.Send(call)
		if got, want := b.Result().Message.Parts[0].Text, `{"maxOutputTokens":100,"seed":0,"stopSequences":["END"],"temperature":0.5} {"script":{"effort":"low"}} 0.5 low`; got != want {
			t.Errorf("got  %s\nwant %s", got, want)
		}
		b.Send(bare)
		if got := b.Result().Message.Parts[0].Text; got != "{} {}" {
			t.Errorf("without any: %s", got)
		}
	})
}

// Reasoning comes before text, as a strand and as a part of its own.
func TestRun_CF_O02_ReasoningComesFirst(t *testing.T) {
	t.Parallel()
	meshtest.Virtual(t, func(t *testing.T) {
		b := gatewaytest.Start(t)
		call := apply(t, b, `[{"reasoning": "think {{ .input.path }}", "chunks": ["an", "swer"]}]`)
		defer start(t, b, modelgw.Config{})()
		b.Send(call)
		r := b.Result()
		if diff := cmp.Diff([]crumbs.Part{
			{Type: crumbs.PartReasoning, Text: "think README.md", Provider: modelgw.ProviderScript}, {Type: crumbs.PartText, Text: "answer"},
		}, r.Message.Parts); diff != "" {
			t.Error(diff)
		}
		var got []string
		for _, d := range b.Deltas() {
			got = append(got, d.String())
		}
		if diff := cmp.Diff([]string{"0 reasoning:delta think README.md", "1 text:delta an", "2 text:delta swer"}, got); diff != "" {
			t.Error(diff)
		}
	})
}

// A provider that fails in the middle: what it said was seen, the attempt failed.
func TestRun_CF_O10_ErrorAfterText(t *testing.T) {
	t.Parallel()
	meshtest.Virtual(t, func(t *testing.T) {
		b := gatewaytest.Start(t)
		call := apply(t, b, `[{"text": "partial ", "error": {"status": 400}}]`)
		defer start(t, b, modelgw.Config{})()
		b.Send(call)
		r := b.Result()
		if r.Status != crumbs.StatusError || r.Message != nil || r.Error.Code != fault.ModelError || r.Retryable || r.Deltas != 1 {
			t.Errorf("%+v %+v", r.ModelResult, r.Error)
		}
		if d := b.Deltas(); len(d) != 1 || d[0].String() != "0 text:delta partial " {
			t.Errorf("deltas %v", d)
		}
	})
}

// Each call of a run names the prompt before it, its transcript is put aside and
// merged on the way, and its results are fenced: the prompt begins as it did.
func TestRun_PromptPrefixIsKept(t *testing.T) {
	t.Parallel()
	meshtest.Virtual(t, func(t *testing.T) {
		const steps = 20
		b := gatewaytest.Start(t)
		call := apply(t, b, "["+strings.Repeat(`{"text": "Again.", "toolCalls": [{"name": "tool_read", "args": {"path": "README.md"}}]},`, steps)+`{"text": "Done."}]`)
		call.System = "Read."
		call.Tools = []crumbs.ToolSpec{{Name: "tool_read", InputSchema: json.RawMessage(`{"type":"object"}`)}, {Name: "tool_count", InputSchema: json.RawMessage(`{"type":"object"}`)}}
		defer start(t, b, modelgw.Config{})()
		aside := func(messages []crumbs.Message) string {
			body, err := json.Marshal(messages)
			if err != nil {
				t.Fatal(err)
			}
			name := mesh.BlobName("run_1", body)
			if err := b.Conn.Blobs(crumbs.AreaCore).Put(t.Context(), name, body); err != nil {
				t.Fatal(err)
			}
			return name
		}
		all := call.Messages
		for step := range steps {
			sent := call
			switch { // nothing aside, a segment a turn, all of them merged
			case step > 0 && step%3 == 1:
				sent.Segments, sent.Messages = []string{aside(all[:len(all)-2])}, all[len(all)-2:]
			case step > 0 && step%3 == 2:
				sent.Segments, sent.Messages = []string{aside(all[:1]), aside(all[1 : len(all)-1])}, all[len(all)-1:]
			default:
				sent.Messages = all
			}
			b.Send(sent)
			r := b.Result()
			if r.Prompt == nil || r.Prompt.Messages != len(all) || (r.PrefixKept == nil) != (step == 0) || step > 0 && !*r.PrefixKept {
				t.Fatalf("step %d: prompt %+v, kept %v", step+1, r.Prompt, r.PrefixKept)
			}
			all = append(slices.Clip(all), *r.Message, crumbs.Message{Role: crumbs.RoleTool, Parts: []crumbs.Part{
				{Type: crumbs.PartToolResult, ToolCallID: crumbs.ToolCallID("run_1", step+1, 0), ToolName: "tool_read", Outcome: crumbs.OutcomeOK, Output: json.RawMessage(`{"title":"</tool-output>"}`)}}})
			call = next(call, false)
			call.Prefix = r.Prompt
		}
		call.Messages, call.Tools = all, call.Tools[:1]
		b.Send(call)
		if r := b.Result(); r.PrefixKept == nil || *r.PrefixKept {
			t.Errorf("with another list of tools: %v", r.PrefixKept)
		}
	})
}

// What a model makes is stored, without this process's secrets, and stands in the
// message before the calls that may be about it.
func TestRun_KeepsFiles(t *testing.T) {
	t.Parallel()
	meshtest.Virtual(t, func(t *testing.T) {
		b := gatewaytest.Start(t)
		const key = "sk-0123456789abcdef"
		if err := b.Conn.Secrets.Add("KEY", key); err != nil {
			t.Fatal(err)
		}
		call := apply(t, b, `[{"text": "Drawn.", "toolCalls": [{"name": "tool_look"}], "files": [
			{"name": "report.md", "mimeType": "text/markdown", "text": "# {{ .input.path }} `+key+`"},
			{"name": "dot.gif", "mimeType": "image/gif", "base64": "R0lGODlhAQABAP+AAACw"}]},
			{"text": "{{ (index (index .messages 1).parts 1).file.name }} of {{ len (index .messages 1).parts }}"}]`)
		defer start(t, b, modelgw.Config{})()
		b.Send(call)
		r := b.Result()
		if r.Status != crumbs.StatusOK || len(r.Message.Parts) != 4 {
			t.Fatalf("%+v %+v", r.ModelResult, r.Error)
		}
		text, report, dot, asked := r.Message.Parts[0], r.Message.Parts[1], r.Message.Parts[2], r.Message.Parts[3]
		if text.Type != crumbs.PartText || asked.Type != crumbs.PartToolCall || report.Type != crumbs.PartFile || report.File.Name != "report.md" || report.File.MimeType != "text/markdown" || dot.File.Name != "dot.gif" {
			t.Errorf("%+v", r.Message.Parts)
		}
		files := b.Conn.Files(crumbs.AreaFile)
		got, err := files.Get(t.Context(), report.File.URI)
		if err != nil || !strings.HasPrefix(string(got), "# README.md ") || strings.Contains(string(got), key) {
			t.Errorf("%q, %v", got, err)
		}
		if got, err := files.Get(t.Context(), dot.File.URI); err != nil || string(got) != "GIF89a\x01\x00\x01\x00\xff\x80\x00\x00\xb0" {
			t.Errorf("%q, %v", got, err)
		}
		call = next(call, false)
		call.Messages = append(call.Messages, *r.Message)
		b.Send(call)
		if r := b.Result(); r.Message == nil || r.Message.Parts[0].Text != "report.md of 4" {
			t.Errorf("the next turn: %+v %+v", r.Message, r.Error)
		}
	})
}
