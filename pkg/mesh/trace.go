package mesh

import (
	"context"
	"strings"

	"github.com/nats-io/nats.go"
	"go.opentelemetry.io/otel/propagation"
)

// hop carries the trace context of one hop in plain lowercase headers; the
// ce-traceparent of an event is its origin and never changes.
type hop nats.Header

func (h hop) Get(key string) string {
	for k, v := range h {
		if strings.EqualFold(k, key) && len(v) > 0 {
			return v[0]
		}
	}
	return ""
}

func (h hop) Set(key, value string) { h[strings.ToLower(key)] = []string{value} }

func (h hop) Keys() []string {
	keys := make([]string, 0, len(h))
	for k := range h {
		keys = append(keys, k)
	}
	return keys
}

// InjectTrace writes the span of ctx into the hop headers of msg.
func InjectTrace(ctx context.Context, msg *nats.Msg) {
	if msg.Header == nil {
		msg.Header = nats.Header{}
	}
	propagation.TraceContext{}.Inject(ctx, hop(msg.Header))
}

// ExtractTrace returns ctx with the remote span of the hop headers.
func ExtractTrace(ctx context.Context, header nats.Header) context.Context {
	return propagation.TraceContext{}.Extract(ctx, hop(header))
}

// TraceParent returns the span of ctx as the text of a traceparent, "" when
// there is none.
func TraceParent(ctx context.Context) string {
	h := hop{}
	propagation.TraceContext{}.Inject(ctx, h)
	return h.Get("traceparent")
}
