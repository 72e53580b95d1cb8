package worker_test

import (
	"context"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"go.opentelemetry.io/otel/codes"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	"go.opentelemetry.io/otel/trace"

	"github.com/crumbmesh/crumbmesh/internal/meshtest"
	"github.com/crumbmesh/crumbmesh/pkg/crumbs"
	"github.com/crumbmesh/crumbmesh/services/modelgw/internal/turn"
	"github.com/crumbmesh/crumbmesh/services/modelgw/internal/worker/gatewaytest"
)

func TestWorker_StreamsThenAnswers(t *testing.T) {
	t.Parallel()
	meshtest.Virtual(t, func(t *testing.T) {
		b := gatewaytest.Start(t)
		usage := &crumbs.Usage{InputTokens: 100, OutputTokens: 20}
		a := &adapter{play: func(_ context.Context, _ crumbs.ModelCall, yield func(turn.Event, error) bool) {
			for _, e := range []turn.Event{
				{Kind: turn.Reasoning, Piece: "hm"}, {Kind: turn.Text, Piece: "Read"}, {Kind: turn.Text, Piece: ""}, {Kind: turn.Text, Piece: "ing."},
				{Kind: turn.InputStart, Call: 0, Name: "tool_read"}, {Kind: turn.InputDelta, Call: 0, Piece: `{"path"`}, {Kind: turn.InputDelta, Call: 0, Piece: `:"a"}`}, {Kind: turn.InputEnd, Call: 0},
				{Kind: turn.InputStart, Call: 1, Name: "tool_count"}, {Kind: turn.InputEnd, Call: 1},
			} {
				if !yield(e, nil) {
					return
				}
			}
			yield(turn.Event{Kind: turn.Done, Answer: &turn.Answer{Usage: usage, Model: "main-2", ResponseID: "resp_1", Parts: []crumbs.Part{
				{Type: crumbs.PartReasoning, Text: "hm"}, {Type: crumbs.PartText, Text: "Reading."},
				{Type: crumbs.PartToolCall, ToolName: "tool_read", Args: []byte(`{"path":"a"}`), ProviderCallID: "p1"},
				{Type: crumbs.PartToolCall, ToolName: "tool_count", ProviderCallID: "p2"},
			}}}, nil)
		}}
		spans := tracetest.NewSpanRecorder()
		serveTraced(t, b, a, sdktrace.NewTracerProvider(sdktrace.WithSpanProcessor(spans)).Tracer("test"))
		msg := b.Message(gatewaytest.Call("run_1"))
		msg.Header["traceparent"] = []string{gatewaytest.Origin}
		b.Publish(msg)
		r := b.Result()

		var got []string
		for i, d := range b.Deltas() {
			got = append(got, d.String())
			if d.Seq != 2 || d.Attempt != 1 || d.Step != 1 || d.Index != i || d.RunID != "run_1" || d.SessionID != "ses_1" {
				t.Errorf("delta %d: %+v", i, d.DeltaBase)
			}
		}
		want := []string{
			"0 reasoning:delta hm", "1 text:delta Read", "2 text:delta ing.",
			"3 tool:input:start run_1.1.0tool_read", `4 tool:input:delta run_1.1.0{"path"`, `5 tool:input:delta run_1.1.0:"a"}`, "6 tool:input:end run_1.1.0",
			"7 tool:input:start run_1.1.1tool_count", "8 tool:input:end run_1.1.1",
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Error(diff)
		}
		if r.Deltas != len(want) || r.Status != crumbs.StatusOK || r.FinishReason != "tool-calls" || r.Model.Model != "main-2" || r.ResponseID != "resp_1" {
			t.Errorf("result: %+v", r.ModelResult)
		}
		parts := []crumbs.Part{
			{Type: crumbs.PartReasoning, Text: "hm", Provider: gatewaytest.Provider}, {Type: crumbs.PartText, Text: "Reading."},
			{Type: crumbs.PartToolCall, ToolCallID: "run_1.1.0", ToolName: "tool_read", Args: []byte(`{"path":"a"}`), ProviderCallID: "p1"},
			{Type: crumbs.PartToolCall, ToolCallID: "run_1.1.1", ToolName: "tool_count", Args: []byte(`{}`), ProviderCallID: "p2"},
		}
		if diff := cmp.Diff(parts, r.Message.Parts); diff != "" || r.Message.Role != crumbs.RoleAssistant {
			t.Error(r.Message.Role, diff)
		}
		if diff := cmp.Diff(usage, r.Usage); diff != "" {
			t.Error(diff)
		}
		if e := r.Event; e.ID != "run_1.1.m.1" || e.Source != "//crumbmesh/modelgw" || e.Type != "dev.crumbmesh.wire.model.result.v1" || e.Subject != "run/run_1" || e.TraceParent != gatewaytest.Origin {
			t.Errorf("envelope: %+v", e)
		}
		checkSpan(t, spans, r)
	})
}

// checkSpan waits for nothing: the span of a call ends after its result, so only
// what was started is looked at here, and its end in TestWorker_SpansEnd.
func checkSpan(t *testing.T, spans *tracetest.SpanRecorder, r gatewaytest.Answer) {
	t.Helper()
	started := spans.Started()
	if len(started) != 1 {
		t.Fatalf("%d spans, want 1", len(started))
	}
	s := started[0]
	if s.Name() != "chat main" || s.SpanKind() != trace.SpanKindClient || s.Parent().SpanID().String() != "b7ad6b7169203331" {
		t.Errorf("span %q of kind %s under %s", s.Name(), s.SpanKind(), s.Parent().SpanID())
	}
	if hop := r.Header["traceparent"]; len(hop) != 1 || !strings.Contains(hop[0], s.SpanContext().TraceID().String()+"-"+s.SpanContext().SpanID().String()) {
		t.Errorf("hop of the result: %v", hop)
	}
	attrs := map[string]string{}
	for _, kv := range s.Attributes() {
		attrs[string(kv.Key)] = kv.Value.String()
	}
	for key, want := range map[string]string{
		"gen_ai.operation.name": "chat", "gen_ai.system": gatewaytest.Provider, "gen_ai.request.model": "main", "gen_ai.response.model": "main-2",
		"gen_ai.usage.input_tokens": "100", "gen_ai.usage.output_tokens": "20", "gen_ai.response.finish_reasons": `["tool-calls"]`,
	} {
		if attrs[key] != want {
			t.Errorf("%s = %q, want %q", key, attrs[key], want)
		}
	}
}

func TestWorker_SpansEnd(t *testing.T) {
	t.Parallel()
	meshtest.Virtual(t, func(t *testing.T) {
		b := gatewaytest.Start(t)
		spans := tracetest.NewSpanRecorder()
		a := &adapter{play: func(_ context.Context, call crumbs.ModelCall, yield func(turn.Event, error) bool) {
			if call.RunID == "run_panic" {
				panic("boom")
			}
			yield(turn.Event{}, turn.Refused("script", 400, 0, ""))
		}}
		stop := serveTraced(t, b, a, sdktrace.NewTracerProvider(sdktrace.WithSpanProcessor(spans)).Tracer("test"))
		for _, run := range []crumbs.RunID{"run_panic", "run_refused"} {
			b.Send(gatewaytest.Call(run))
			b.Result()
		}
		stop()
		ended := spans.Ended()
		if len(ended) != 2 {
			t.Fatalf("%d spans ended, want 2", len(ended))
		}
		for _, s := range ended {
			if s.Status().Code != codes.Error {
				t.Errorf("span status %v, want error", s.Status())
			}
		}
	})
}

func TestWorker_WithoutDeltas(t *testing.T) {
	t.Parallel()
	meshtest.Virtual(t, func(t *testing.T) {
		b := gatewaytest.Start(t)
		a := &adapter{play: func(_ context.Context, _ crumbs.ModelCall, yield func(turn.Event, error) bool) {
			_ = yield(turn.Event{Kind: turn.Text, Piece: "quiet"}, nil) && yield(done("quiet"), nil)
		}}
		serve(t, b, a)
		call := gatewaytest.Call("run_1")
		call.Deltas = false
		b.Send(call)
		if r := b.Result(); r.Status != crumbs.StatusOK || r.Deltas != 0 || r.FinishReason != "stop" {
			t.Fatalf("result: %+v", r.ModelResult)
		}
		if n := b.Waiting(crumbs.StreamDeltas); n != 0 {
			t.Fatalf("%d deltas, want none", n)
		}
	})
}

// Deltas that cannot be stored cost no result.
func TestWorker_LostDeltas(t *testing.T) {
	t.Parallel()
	b := gatewaytest.Start(t)
	ctx := context.Background()
	if err := b.Conn.JS.DeleteStream(ctx, crumbs.StreamDeltas); err != nil {
		t.Fatal(err)
	}
	h := handler(t, b, &adapter{play: func(_ context.Context, _ crumbs.ModelCall, yield func(turn.Event, error) bool) {
		_ = yield(turn.Event{Kind: turn.Text, Piece: "unheard"}, nil) && yield(done("unheard"), nil)
	}})
	if err := h(ctx, delivery(b, gatewaytest.Call("run_1"), 1)); err != nil {
		t.Fatal(err)
	}
	if r := b.Result(); r.Status != crumbs.StatusOK || r.Deltas != 1 {
		t.Fatalf("result: %+v", r.ModelResult)
	}
}

func TestWorker_OddAnswersFitTheWire(t *testing.T) {
	t.Parallel()
	b := gatewaytest.Start(t)
	a := &adapter{play: func(_ context.Context, call crumbs.ModelCall, yield func(turn.Event, error) bool) {
		answer := &turn.Answer{}
		if call.RunID == "run_args" {
			answer = &turn.Answer{FinishReason: "refusal", Parts: []crumbs.Part{{Type: crumbs.PartToolCall, ToolName: "No Such", Args: []byte(`{"a":`)}}}
		}
		yield(turn.Event{Kind: turn.Done, Answer: answer}, nil)
	}}
	h := handler(t, b, a)
	for _, run := range []crumbs.RunID{"run_args", "run_empty"} {
		if err := h(context.Background(), delivery(b, gatewaytest.Call(run), 1)); err != nil {
			t.Fatal(err)
		}
	}
	if r := b.Result(); r.FinishReason != "other" || string(r.Message.Parts[0].Args) != `"{\"a\":"` {
		t.Errorf("arguments that are no JSON: %+v %s", r.ModelResult, r.Message.Parts[0].Args)
	}
	if r := b.Result(); r.FinishReason != "stop" || len(r.Message.Parts) != 0 {
		t.Errorf("an empty answer: %+v", r.ModelResult)
	}
}
