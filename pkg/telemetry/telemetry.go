// Package telemetry holds what services need of tracing beside the OpenTelemetry
// API: span ids that are fixed before the span exists, so that a run's root span
// can be emitted once, at the end, by whichever replica ends the run.
package telemetry

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"fmt"

	"go.opentelemetry.io/otel/attribute"
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

// Start starts a span with the given id under the span of ctx. Spans that are
// started under it have ids of their own. Without a trace, or with none given, it
// is an ordinary start.
func Start(ctx context.Context, tracer trace.Tracer, name string, id trace.SpanID, opts ...trace.SpanStartOption) (context.Context, trace.Span) {
	parent := trace.SpanContextFromContext(ctx)
	if !parent.IsValid() || !id.IsValid() {
		return tracer.Start(ctx, name, opts...)
	}
	inner, span := tracer.Start(WithIDs(ctx, parent.TraceID(), id), name, opts...)
	return context.WithValue(inner, idsKey{}, nil), span
}

// Derived is the id of the span that stands for something that has a name: whoever
// knows the trace and the name knows the span, and can link to it from another
// process, days later.
func Derived(t trace.TraceID, name string) (s trace.SpanID) {
	h := sha256.New()
	h.Write(t[:])
	h.Write([]byte(name))
	copy(s[:], h.Sum(nil))
	return s
}

// Names that Derived is used with.
const (
	// WaitName, with a checkpoint's id after it, is the wait for a person.
	WaitName = "wait "
	// StartName, with `<call>.<attempt> <start>` after it, is one execution.
	StartName = "start "
)

// Link is a link to the span of that name in the trace of ctx, with why.
func Link(ctx context.Context, name, why string) trace.SpanStartOption {
	at := trace.SpanContextFromContext(ctx)
	if !at.IsValid() {
		return trace.WithLinks()
	}
	to := trace.NewSpanContext(trace.SpanContextConfig{TraceID: at.TraceID(), SpanID: Derived(at.TraceID(), name), TraceFlags: at.TraceFlags(), Remote: true})
	return trace.WithLinks(trace.Link{SpanContext: to, Attributes: []attribute.KeyValue{attribute.String("crumbmesh.link", why)}})
}

// Execution is one start of an attempt of a call.
type Execution struct {
	Call    string
	Attempt int
	Start   int    // how often the attempt was started, this start included
	After   string // id of the question whose answer let it run, if one did
}

func (e Execution) name(attempt, start int) string {
	return fmt.Sprintf("%s%s.%d %d", StartName, e.Call, attempt, start)
}

// SpanID is the id of the execution's span in a trace.
func (e Execution) SpanID(t trace.TraceID) trace.SpanID {
	return Derived(t, e.name(e.Attempt, e.Start))
}

// StartExecution starts the span of an execution under the span of ctx. It links to
// what led to it where that may be long ago: the start before it that did not finish,
// the attempt before it that failed, the wait for a person.
func StartExecution(ctx context.Context, tracer trace.Tracer, name string, e Execution, opts ...trace.SpanStartOption) (context.Context, trace.Span) {
	if e.Start > 1 {
		opts = append(opts, Link(ctx, e.name(e.Attempt, e.Start-1), "redelivery"))
	}
	if e.Attempt > 1 {
		opts = append(opts, Link(ctx, e.name(e.Attempt-1, 1), "retry"))
	}
	if e.After != "" {
		opts = append(opts, Link(ctx, WaitName+e.After, "answer"))
	}
	opts = append(opts, trace.WithAttributes(attribute.Int("crumbmesh.call.attempt", e.Attempt), attribute.Int("crumbmesh.call.start", e.Start)))
	return Start(ctx, tracer, name, e.SpanID(trace.SpanContextFromContext(ctx).TraceID()), opts...)
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
