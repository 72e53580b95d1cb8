package otlp

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/trace"

	"github.com/crumbmesh/crumbmesh/pkg/fault"
	"github.com/crumbmesh/crumbmesh/pkg/secret"
)

func TestWanted(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		env  map[string]string
		on   bool
		code fault.Code
	}{
		"nothing said":         {nil, false, ""},
		"endpoint":             {map[string]string{"OTEL_EXPORTER_OTLP_ENDPOINT": "http://c:4318"}, true, ""},
		"traces endpoint":      {map[string]string{"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT": "http://c:4318/v1/traces"}, true, ""},
		"exporter otlp":        {map[string]string{"OTEL_TRACES_EXPORTER": "otlp"}, true, ""},
		"exporter none":        {map[string]string{"OTEL_TRACES_EXPORTER": "none", "OTEL_EXPORTER_OTLP_ENDPOINT": "http://c:4318"}, false, ""},
		"disabled":             {map[string]string{"OTEL_SDK_DISABLED": "true", "OTEL_TRACES_EXPORTER": "otlp"}, false, ""},
		"exporter not built":   {map[string]string{"OTEL_TRACES_EXPORTER": "zipkin"}, false, fault.InvalidConfig},
		"protocol not built":   {map[string]string{"OTEL_TRACES_EXPORTER": "otlp", "OTEL_EXPORTER_OTLP_PROTOCOL": "grpc"}, false, fault.InvalidConfig},
		"protocol that it has": {map[string]string{"OTEL_TRACES_EXPORTER": "otlp", "OTEL_EXPORTER_OTLP_PROTOCOL": "http/protobuf"}, true, ""},
	} {
		on, err := wanted(func(k string) string { return c.env[k] })
		if on != c.on || fault.CodeOf(err) != c.code {
			t.Errorf("%s: %v %v, want %v %q", name, on, err, c.on, c.code)
		}
	}
}

// A short process exports all its spans before it exits; a collector that says
// no, or is not there, costs at most the flush limit and fails nothing.
func TestStart_F133_FlushesAtExit(t *testing.T) {
	var posts atomic.Int64
	collector := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { posts.Add(1) }))
	defer collector.Close()
	for _, endpoint := range []string{collector.URL, "http://127.0.0.1:1"} {
		t.Setenv("OTEL_EXPORTER_OTLP_ENDPOINT", endpoint)
		on, stop, err := Start(context.Background(), "test", nil)
		if err != nil || !on {
			t.Fatal(on, err)
		}
		_, span := otel.Tracer("test").Start(context.Background(), "one")
		span.End()
		stop()
	}
	if posts.Load() != 1 {
		t.Errorf("%d exports arrived, want 1", posts.Load())
	}
}

// A span with a huge attribute is exported, the attribute cut.
func TestStart_F134_AttributesAreBounded(t *testing.T) {
	var largest atomic.Int64
	collector := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		n, err := io.Copy(io.Discard, r.Body)
		if err == nil {
			largest.Store(n)
		}
	}))
	defer collector.Close()
	t.Setenv("OTEL_EXPORTER_OTLP_ENDPOINT", collector.URL)
	t.Setenv("OTEL_EXPORTER_OTLP_COMPRESSION", "none")
	_, stop, err := Start(context.Background(), "test", nil)
	if err != nil {
		t.Fatal(err)
	}
	_, span := otel.Tracer("test").Start(context.Background(), "large", trace.WithAttributes(attribute.String("result", strings.Repeat("x", 8<<20))))
	span.End()
	stop()
	if n := largest.Load(); n < attributeBytesMax || n > 4*attributeBytesMax {
		t.Errorf("the export had %d bytes, want one attribute of %d and little more", n, attributeBytesMax)
	}
}

// Nothing that the exporter, or anybody in the process, must not say is exported:
// neither in names, attributes, events nor in why a span failed (F158, F159).
func TestStart_F158_F159_SpansHaveNoSecrets(t *testing.T) {
	var mu sync.Mutex
	var got []byte
	collector := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		mu.Lock()
		defer mu.Unlock()
		if got = append(got, body...); err != nil || r.Header.Get("Authorization") != "Bearer sk-marker-123" {
			t.Errorf("the export: %v, %v", err, r.Header)
		}
	}))
	defer collector.Close()
	t.Setenv("OTEL_EXPORTER_OTLP_ENDPOINT", collector.URL)
	t.Setenv("OTEL_EXPORTER_OTLP_HEADERS", "Authorization=Bearer%20sk-marker-123")
	t.Setenv("OTEL_EXPORTER_OTLP_COMPRESSION", "none")
	secrets := secret.NewBook(nil)
	_, stop, err := Start(context.Background(), "test", secrets)
	if err != nil {
		t.Fatal(err)
	}
	if err := secrets.Add("KEY", "s3cr3t-canary"); err != nil {
		t.Fatal(err)
	}
	const said = "sk-marker-123 and s3cr3t-canary"
	_, span := otel.Tracer("test").Start(context.Background(), said, trace.WithAttributes(attribute.String("a", said), attribute.StringSlice("b", []string{said}), attribute.Int("c", 42),
		attribute.String("cut", strings.Repeat("x", attributeBytesMax-6)+said)))
	span.RecordError(errors.New(said))
	span.AddEvent(said)
	span.SetStatus(codes.Error, said)
	span.End()
	stop()
	mu.Lock()
	defer mu.Unlock()
	for _, leak := range []string{"marker", "canary", "sk-mar"} {
		if bytes.Contains(got, []byte(leak)) {
			t.Errorf("%q is exported", leak)
		}
	}
	if n := bytes.Count(got, []byte("[OTEL_EXPORTER_OTLP_HEADERS] and [KEY]")); n != 6 {
		t.Errorf("%d masked texts, want 6: %q", n, got)
	}
}
