package worker

import (
	"context"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/trace"

	"github.com/crumbmesh/crumbmesh/pkg/decision"
	"github.com/crumbmesh/crumbmesh/pkg/mesh"
	"github.com/crumbmesh/crumbmesh/pkg/telemetry"
)

// startSpan opens the span of an answer under the run's root span, linked to the
// request that brought it.
func (d *Desk) startSpan(ctx context.Context, row decision.Approval) (context.Context, trace.Span) {
	opts := []trace.SpanStartOption{trace.WithSpanKind(trace.SpanKindProducer), trace.WithAttributes(
		attribute.String("crumbmesh.run.id", string(row.RunID)), attribute.String("crumbmesh.checkpoint.id", string(row.CheckpointID)),
		attribute.String("crumbmesh.decision.outcome", row.Decision.Outcome), attribute.String("crumbmesh.decision.via", row.Decision.Via))}
	if row.TraceParent != "" {
		if asked := trace.SpanContextFromContext(ctx); asked.IsValid() {
			opts = append(opts, trace.WithLinks(trace.Link{SpanContext: asked}))
		}
		ctx = mesh.ExtractTrace(ctx, map[string][]string{"traceparent": {row.TraceParent}})
		opts = append(opts, telemetry.Link(ctx, telemetry.WaitName+string(row.CheckpointID), "question"))
	}
	return d.Register.conn.Tracer.Start(ctx, "approval.decide", opts...)
}
