package tracing_test

import (
	"encoding/hex"
	"io"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"

	collector "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	"google.golang.org/protobuf/proto"
)

// span is an exported span as the receiver saw it.
type span struct {
	trace, id, parent, name string
	start, end              uint64
	attrs                   map[string]string
}

// receiver is an OTLP/HTTP collector inside the test.
type receiver struct {
	url string
	mu  sync.Mutex
	all []span
}

func newReceiver(t *testing.T) *receiver {
	t.Helper()
	r := &receiver{}
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		body, err := io.ReadAll(req.Body)
		var export collector.ExportTraceServiceRequest
		if err == nil {
			err = proto.Unmarshal(body, &export)
		}
		if err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		r.take(&export)
	}))
	t.Cleanup(s.Close)
	r.url = s.URL
	return r
}

func (r *receiver) take(export *collector.ExportTraceServiceRequest) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, resource := range export.ResourceSpans {
		for _, scope := range resource.ScopeSpans {
			for _, s := range scope.Spans {
				attrs := map[string]string{}
				for _, a := range s.Attributes {
					attrs[a.Key] = a.Value.GetStringValue()
				}
				r.all = append(r.all, span{trace: hex.EncodeToString(s.TraceId), id: hex.EncodeToString(s.SpanId), parent: hex.EncodeToString(s.ParentSpanId),
					name: s.Name, start: s.StartTimeUnixNano, end: s.EndTimeUnixNano, attrs: attrs})
			}
		}
	}
}

func (r *receiver) spans() []span {
	r.mu.Lock()
	defer r.mu.Unlock()
	return append([]span(nil), r.all...)
}
