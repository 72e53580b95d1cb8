package worker_test

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"

	"github.com/crumbmesh/crumbmesh/internal/meshtest"
	"github.com/crumbmesh/crumbmesh/pkg/crumbs"
	"github.com/crumbmesh/crumbmesh/pkg/fault"
	"github.com/crumbmesh/crumbmesh/services/modelgw/internal/turn"
	"github.com/crumbmesh/crumbmesh/services/modelgw/internal/worker/gatewaytest"
)

const marker = "sk-marker-123"

// A provider that says the gateway's own key in every place it can, whole and in
// two pieces, gets it into nothing but the gateway.
func TestWorker_F158_KeyStaysInTheGateway(t *testing.T) {
	t.Parallel()
	meshtest.Virtual(t, func(t *testing.T) {
		b := gatewaytest.Start(t)
		if err := b.Conn.Secrets.Add("ACME_KEY", marker); err != nil {
			t.Fatal(err)
		}
		var log bytes.Buffer
		b.Conn.Log = b.Conn.Secrets.Logger(slog.New(slog.NewJSONHandler(&log, nil)))
		a := &adapter{play: func(_ context.Context, call crumbs.ModelCall, yield func(turn.Event, error) bool) {
			switch call.RunID {
			case "run_panic":
				panic("login with " + marker)
			case "run_error":
				yield(turn.Event{}, errors.New("Authorization: Bearer "+marker))
			case "run_refused":
				f := turn.Refused("acme", 401, 0, "https://acme.test/v1?key="+marker)
				f.Fault = f.Fault.With("header", "Bearer "+marker)
				yield(turn.Event{}, f)
			default:
				for _, e := range []turn.Event{
					{Kind: turn.Reasoning, Piece: "My key is sk-mar"}, {Kind: turn.Text, Piece: "It is sk-"}, {Kind: turn.Reasoning, Piece: "ker-123."},
					{Kind: turn.InputStart, Name: "tool_" + marker}, {Kind: turn.InputDelta, Piece: `{"key":"sk-marke`}, {Kind: turn.InputDelta, Piece: `r-123"}`}, {Kind: turn.InputEnd},
					{Kind: turn.Text, Piece: "marker-123, not sk-marker"},
				} {
					if !yield(e, nil) {
						return
					}
				}
				yield(turn.Event{Kind: turn.Done, Answer: &turn.Answer{ResponseID: marker, Parts: []crumbs.Part{
					{Type: crumbs.PartReasoning, Text: marker, Raw: json.RawMessage(`{"sig":"` + marker + `"}`)}, {Type: crumbs.PartText, Text: "It is " + marker},
					{Type: crumbs.PartToolCall, ToolName: "tool_" + marker, Args: json.RawMessage(`{"key":"` + marker + `","n":1}`), ProviderCallID: marker},
				}}}, nil)
			}
		}}
		spans := tracetest.NewSpanRecorder()
		stop := serveTraced(t, b, a, sdktrace.NewTracerProvider(sdktrace.WithSpanProcessor(spans)).Tracer("test"))
		var said strings.Builder
		for _, run := range []crumbs.RunID{"run_panic", "run_error", "run_refused", "run_ok"} {
			b.Send(gatewaytest.Call(run))
			r := b.Result()
			said.WriteString(string(r.Event.Data))
			if run == "run_refused" && (r.Error.Message != "provider acme answered 401 Unauthorized: https://acme.test/v1?key=[ACME_KEY]" || r.Error.Code != fault.ModelError) {
				t.Errorf("%+v", r.Error)
			}
			if run == "run_ok" {
				if got := string(r.Message.Parts[2].Args); got != `{"key":"[ACME_KEY]","n":1}` {
					t.Errorf("arguments %s", got)
				}
			}
		}
		stop()
		var got []string
		for _, d := range b.Deltas() {
			got = append(got, d.Type+" "+d.ToolName+d.Delta)
			fmt.Fprint(&said, d)
		}
		want := []string{
			"reasoning:delta My key is ", "text:delta It is ", "reasoning:delta [ACME_KEY].",
			"tool:input:start tool_[ACME_KEY]", `tool:input:delta {"key":"`, `tool:input:delta [ACME_KEY]"}`, "tool:input:end ",
			"text:delta [ACME_KEY], not ", "text:delta sk-marker",
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Error(diff)
		}
		for _, s := range spans.Ended() {
			fmt.Fprintf(&said, "%s %v %v %v", s.Name(), s.Attributes(), s.Events(), s.Status())
		}
		said.Write(log.Bytes())
		for _, leak := range []string{marker, base64.StdEncoding.EncodeToString([]byte(marker))} {
			if i := strings.Index(said.String(), leak); i >= 0 {
				t.Errorf("the key is out: …%s…", said.String()[max(0, i-200):i+len(leak)])
			}
		}
		if !strings.Contains(log.String(), "login with [ACME_KEY]") || !strings.Contains(log.String(), "Bearer [ACME_KEY]") {
			t.Errorf("the log: %s", log.String())
		}
	})
}
