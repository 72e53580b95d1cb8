package worker

import (
	"context"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/trace"

	"github.com/crumbmesh/crumbmesh/pkg/crumbs"
	"github.com/crumbmesh/crumbmesh/pkg/telemetry"
)

// startSpan opens the span of a model call (OpenTelemetry GenAI conventions).
func (w *Worker) startSpan(ctx context.Context, j *job, starts int) (context.Context, trace.Span) {
	c := j.call
	attrs := []attribute.KeyValue{
		attribute.String("gen_ai.operation.name", "chat"),
		attribute.String("gen_ai.system", c.Model.Provider),
		attribute.String("gen_ai.provider.name", c.Model.Provider),
		attribute.String("gen_ai.request.model", c.Model.Model),
		attribute.String("gen_ai.agent.id", string(c.AgentID)),
		attribute.String("gen_ai.conversation.id", string(c.SessionID)),
		attribute.String("crumbmesh.run.id", string(c.RunID)),
		attribute.String("crumbmesh.call.id", string(c.CallID)),
	}
	if s := c.Settings; s != nil {
		if s.Temperature != nil {
			attrs = append(attrs, attribute.Float64("gen_ai.request.temperature", *s.Temperature))
		}
		if s.MaxOutputTokens != nil {
			attrs = append(attrs, attribute.Int64("gen_ai.request.max_tokens", *s.MaxOutputTokens))
		}
	}
	e := telemetry.Execution{Call: string(c.CallID), Attempt: c.Attempt, Start: starts, After: string(j.after)}
	return telemetry.StartExecution(ctx, w.tracer, "chat "+c.Model.Model, e, trace.WithSpanKind(trace.SpanKindClient), trace.WithAttributes(attrs...))
}

// describe adds what came out.
func describe(span trace.Span, r crumbs.ModelResult) {
	span.SetAttributes(attribute.String("gen_ai.response.model", r.Model.Model))
	if r.FinishReason != "" {
		span.SetAttributes(attribute.StringSlice("gen_ai.response.finish_reasons", []string{r.FinishReason}))
	}
	if r.ResponseID != "" {
		span.SetAttributes(attribute.String("gen_ai.response.id", r.ResponseID))
	}
	if r.Usage != nil {
		span.SetAttributes(
			attribute.Int64("gen_ai.usage.input_tokens", r.Usage.InputTokens),
			attribute.Int64("gen_ai.usage.output_tokens", r.Usage.OutputTokens),
		)
	}
	switch {
	case r.Error != nil:
		span.SetAttributes(attribute.String("error.type", string(r.Error.Code)))
		span.SetStatus(codes.Error, r.Error.Message)
	case r.Status == crumbs.StatusCancelled:
		span.SetAttributes(attribute.String("error.type", crumbs.StatusCancelled))
		span.SetStatus(codes.Error, crumbs.StatusCancelled)
	}
}
