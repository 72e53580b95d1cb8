// Package telemetry holds what services need of tracing beside the OpenTelemetry
// API: span ids that are fixed before the span exists, so that a run's root span
// can be emitted once, at the end, by whichever replica ends the run.
package telemetry

import (
	"context"
	"crypto/rand"

	"go.opentelemetry.io/otel/trace"
)

// Scope is the instrumentation scope of the mesh's spans.
const Scope = "github.com/crumbmesh/crumbmesh"

type idsKey struct{}

type ids struct {
	trace trace.TraceID
	span  trace.SpanID
}

// WithIDs asks the span that is started with ctx to have these ids. It works with
// a provider whose id generator is IDGenerator.
func WithIDs(ctx context.Context, t trace.TraceID, s trace.SpanID) context.Context {
	return context.WithValue(ctx, idsKey{}, ids{t, s})
}

// IDGenerator gives spans the ids of WithIDs, random ones otherwise.
type IDGenerator struct{}

// NewIDs returns the ids of a root span.
func (IDGenerator) NewIDs(ctx context.Context) (trace.TraceID, trace.SpanID) {
	if v, ok := ctx.Value(idsKey{}).(ids); ok {
		return v.trace, v.span
	}
	return NewTraceID(), NewSpanID()
}

// NewSpanID returns the id of a child span.
func (IDGenerator) NewSpanID(ctx context.Context, _ trace.TraceID) trace.SpanID {
	if v, ok := ctx.Value(idsKey{}).(ids); ok {
		return v.span
	}
	return NewSpanID()
}

// NewTraceID returns a random trace id.
func NewTraceID() (t trace.TraceID) {
	for !t.IsValid() {
		_, _ = rand.Read(t[:]) // never fails
	}
	return t
}

// NewSpanID returns a random span id.
func NewSpanID() (s trace.SpanID) {
	for !s.IsValid() {
		_, _ = rand.Read(s[:]) // never fails
	}
	return s
}
