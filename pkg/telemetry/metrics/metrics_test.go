package metrics

import (
	"context"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strings"
	"testing"

	"go.opentelemetry.io/otel"

	"github.com/crumbmesh/crumbmesh/pkg/fault"
	"github.com/crumbmesh/crumbmesh/pkg/telemetry/instrument"
)

func TestWanted(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		env  map[string]string
		on   bool
		code fault.Code
	}{
		"nothing said":       {nil, false, ""},
		"endpoint":           {map[string]string{"OTEL_EXPORTER_OTLP_ENDPOINT": "http://c:4318"}, true, ""},
		"metrics endpoint":   {map[string]string{"OTEL_EXPORTER_OTLP_METRICS_ENDPOINT": "http://c:4318/v1/metrics"}, true, ""},
		"exporter otlp":      {map[string]string{"OTEL_METRICS_EXPORTER": "otlp"}, true, ""},
		"exporter none":      {map[string]string{"OTEL_METRICS_EXPORTER": "none", "OTEL_EXPORTER_OTLP_ENDPOINT": "http://c:4318"}, false, ""},
		"page only":          {map[string]string{"OTEL_METRICS_EXPORTER": "prometheus", "OTEL_EXPORTER_OTLP_ENDPOINT": "http://c:4318"}, false, ""},
		"disabled":           {map[string]string{"OTEL_SDK_DISABLED": "true", "OTEL_METRICS_EXPORTER": "otlp"}, false, ""},
		"exporter not built": {map[string]string{"OTEL_METRICS_EXPORTER": "statsd"}, false, fault.InvalidConfig},
		"protocol not built": {map[string]string{"OTEL_METRICS_EXPORTER": "otlp", "OTEL_EXPORTER_OTLP_PROTOCOL": "grpc"}, false, fault.InvalidConfig},
	} {
		on, err := wanted(func(k string) string { return c.env[k] })
		if on != c.on || fault.CodeOf(err) != c.code {
			t.Errorf("%s: %v %v, want %v %q", name, on, err, c.on, c.code)
		}
	}
}

// What an instrument of the global provider counted stands on the page and is
// pushed to the collector when the process stops.
func TestStart_PageAndPush(t *testing.T) {
	pushed := make(chan string, 1)
	collector := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		select {
		case pushed <- r.URL.Path:
		default:
		}
	}))
	defer collector.Close()
	t.Setenv("OTEL_EXPORTER_OTLP_ENDPOINT", collector.URL)
	page, stop, err := Start(context.Background(), "test")
	if err != nil {
		t.Fatal(err)
	}
	counter, err := otel.Meter("test").Int64Counter("crumbmesh.test.events")
	if err != nil {
		t.Fatal(err)
	}
	counter.Add(context.Background(), 3)
	r := httptest.NewRecorder()
	page.ServeHTTP(r, httptest.NewRequest(http.MethodGet, "/metrics", http.NoBody))
	for _, want := range []string{"crumbmesh_test_events_total", "go_goroutines"} {
		if !strings.Contains(r.Body.String(), want) {
			t.Errorf("the page lacks %s", want)
		}
	}
	stop()
	if path := <-pushed; path != "/v1/metrics" {
		t.Errorf("pushed to %s", path)
	}
}

// The names on the page are those that the table of instruments foretells.
func TestStart_NamesOfTheTable(t *testing.T) {
	page, stop, err := Start(context.Background(), "test")
	if err != nil {
		t.Fatal(err)
	}
	defer stop()
	m := otel.Meter("names")
	values := func(i instrument.Instrument) []string { return make([]string, len(i.Labels)) }
	var read []instrument.Instrument
	var names []string
	for _, i := range instrument.All() {
		switch i.Kind {
		case instrument.Count:
			instrument.NewCounter(m, i.Name).Add(context.Background(), 1, values(i)...)
		case instrument.Histogram:
			instrument.NewHistogram(m, i.Name).Record(context.Background(), 1, values(i)...)
		case instrument.Gauge:
			read, names = append(read, i), append(names, i.Name)
		}
	}
	defer instrument.Observe(m, func(_ context.Context, set instrument.Set) error {
		for _, i := range read {
			set(i.Name, 1, values(i)...)
		}
		return nil
	}, names...)()
	r := httptest.NewRecorder()
	page.ServeHTTP(r, httptest.NewRequest(http.MethodGet, "/metrics", http.NoBody))
	for _, i := range instrument.All() {
		name := i.Prometheus()
		if i.Kind == instrument.Histogram {
			name += "_bucket"
		}
		if !strings.Contains(r.Body.String(), "\n"+name+"{") {
			t.Errorf("%s is not on the page as %s", i.Name, name)
		}
	}
}

// Replicas of a service do not overwrite each other's numbers in a collector.
func TestStart_InstancesDiffer(t *testing.T) {
	instance := regexp.MustCompile(`service_instance_id="([^"]+)"`)
	read := func() string {
		page, stop, err := Start(context.Background(), "test")
		if err != nil {
			t.Fatal(err)
		}
		defer stop()
		answer := httptest.NewRecorder()
		page.ServeHTTP(answer, httptest.NewRequest(http.MethodGet, "/metrics", http.NoBody))
		found := instance.FindStringSubmatch(answer.Body.String())
		if found == nil {
			t.Fatalf("the page names no instance:\n%s", answer.Body)
		}
		return found[1]
	}
	if one, other := read(), read(); one == other {
		t.Errorf("two processes are both instance %s", one)
	}
	t.Setenv("OTEL_RESOURCE_ATTRIBUTES", "service.instance.id=pod-1")
	if got := read(); got != "pod-1" {
		t.Errorf("got instance %s, want the environment's", got)
	}
}
