package worker

import (
	"context"
	"encoding/json"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/trace"

	"github.com/crumbmesh/crumbmesh/pkg/crumbs"
	"github.com/crumbmesh/crumbmesh/pkg/mesh"
	"github.com/crumbmesh/crumbmesh/pkg/telemetry"
	"github.com/crumbmesh/crumbmesh/services/orchestrator/internal/core"
)

// trace fixes the ids of the run's root span at the request. Without a tracer
// the request's own context is passed on.
func (w *Worker) trace(in *incoming) core.Trace {
	parent := trace.SpanContextFromContext(mesh.ExtractTrace(context.Background(), in.delivery.Header))
	t := core.Trace{}
	if parent.IsValid() {
		t = core.Trace{TraceID: parent.TraceID().String(), SpanID: parent.SpanID().String(), Sampled: parent.IsSampled()}
	}
	if !w.cfg.Trace {
		return t
	}
	if parent.IsValid() {
		t.Parent = t.TraceParent()
	} else {
		t.TraceID, t.Sampled = telemetry.NewTraceID().String(), true
	}
	t.SpanID = telemetry.NewSpanID().String()
	return t
}

// traceRun emits the root span of a run that ended, with the ids it had all along.
func (w *Worker) traceRun(s core.State) {
	t := s.Run.Trace
	if !w.cfg.Trace || t.TraceID == "" || !t.Sampled {
		return
	}
	traceID, err := trace.TraceIDFromHex(t.TraceID)
	if err != nil {
		return
	}
	spanID, err := trace.SpanIDFromHex(t.SpanID)
	if err != nil {
		return
	}
	ctx := telemetry.WithIDs(remote(t.Parent), traceID, spanID)
	_, span := w.conn.Tracer.Start(ctx, "invoke_agent "+string(s.Run.Agent), trace.WithTimestamp(s.Run.StartedAt.Time),
		trace.WithSpanKind(trace.SpanKindServer), trace.WithAttributes(
			attribute.String("gen_ai.operation.name", "invoke_agent"), attribute.String("gen_ai.agent.id", string(s.Run.Agent)),
			attribute.String("gen_ai.conversation.id", string(s.Run.Session)), attribute.String("crumbmesh.run.id", string(s.Run.ID)),
			attribute.String("crumbmesh.run.status", string(s.Status)), attribute.Int("crumbmesh.run.steps", s.Step)))
	if u := s.Usage; u != nil {
		span.SetAttributes(attribute.Int64("gen_ai.usage.input_tokens", u.InputTokens), attribute.Int64("gen_ai.usage.output_tokens", u.OutputTokens))
	}
	if s.Result != nil && s.Result.Error != nil {
		span.SetAttributes(attribute.String("error.type", string(s.Result.Error.Code)))
		span.SetStatus(codes.Error, s.Result.Error.Message)
	}
	span.End(trace.WithTimestamp(s.Run.EndedAt.Time))
}

// traceWaits emits a span for each wait for a person that this decision ended.
func (w *Worker) traceWaits(s core.State) {
	t := s.Run.Trace
	if !w.cfg.Trace || t.TraceID == "" || !t.Sampled {
		return
	}
	for _, c := range s.Outbox.Crumbs {
		if c.Type != crumbs.TypeHumanResumed {
			continue
		}
		var r crumbs.HumanResumed
		if json.Unmarshal(c.Body.Inline, &r) != nil {
			continue // put aside: too large for an attribute anyway
		}
		ctx := remote(t.TraceParent())
		id := telemetry.Derived(trace.SpanContextFromContext(ctx).TraceID(), telemetry.WaitName+string(r.CheckpointID))
		_, span := telemetry.Start(ctx, w.conn.Tracer, "human.wait "+r.ToolName, id,
			trace.WithTimestamp(c.At.Add(-time.Duration(r.WaitedMs)*time.Millisecond).Time), trace.WithAttributes(
				attribute.String("crumbmesh.run.id", string(s.Run.ID)), attribute.String("crumbmesh.checkpoint.id", string(r.CheckpointID)), attribute.String("crumbmesh.checkpoint.kind", r.Kind),
				attribute.String("crumbmesh.checkpoint.outcome", r.Outcome), attribute.String("gen_ai.tool.name", r.ToolName)))
		span.End(trace.WithTimestamp(c.At.Time))
	}
}

// remote returns a context under a traceparent.
func remote(traceparent string) context.Context {
	if traceparent == "" {
		return context.Background()
	}
	return mesh.ExtractTrace(context.Background(), map[string][]string{"traceparent": {traceparent}})
}
