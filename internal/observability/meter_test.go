package observability_test

import (
	"context"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"
	sdkmetric "go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"
	"go.opentelemetry.io/otel/trace"

	"github.com/crumbmesh/crumbmesh/pkg/telemetry/instrument"
)

// meters are the readers of a fleet's processes, by the name of their connection;
// a second process of a name is name#2.
type meters struct {
	mu      sync.Mutex
	readers map[string]*sdkmetric.ManualReader
}

func newMeters() *meters { return &meters{readers: map[string]*sdkmetric.ManualReader{}} }

func (m *meters) telemetry(name string) (metric.MeterProvider, trace.TracerProvider) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if _, taken := m.readers[name]; taken {
		name += "#2"
	}
	m.readers[name] = sdkmetric.NewManualReader()
	return sdkmetric.NewMeterProvider(sdkmetric.WithReader(m.readers[name])), nil
}

// sample is one series: the value of a counter or gauge, or of a histogram how
// many values it took and their sum.
type sample struct {
	value float64
	count uint64
}

// readings are all series of a process: by `name{v1,v2}`, values in the order of
// the table's labels.
type readings map[string]sample

func (m *meters) read(t *testing.T, name string) readings {
	t.Helper()
	m.mu.Lock()
	reader := m.readers[name]
	names := slices.Sorted(maps.Keys(m.readers))
	m.mu.Unlock()
	if reader == nil {
		t.Fatalf("no process %q measures; there are %v", name, names)
	}
	var all metricdata.ResourceMetrics
	if err := reader.Collect(context.Background(), &all); err != nil {
		t.Fatal(err)
	}
	out := readings{}
	for _, scope := range all.ScopeMetrics {
		for _, one := range scope.Metrics {
			row, ok := instrument.Lookup(one.Name)
			if !ok {
				t.Errorf("%s measures %s, which is not in the table", name, one.Name)
			}
			if row.Unit != one.Unit || row.Help != one.Description {
				t.Errorf("%s is measured in %q, the table says %q", one.Name, one.Unit, row.Unit)
			}
			out.take(t, row, one.Data)
		}
	}
	return out
}

func (r readings) take(t *testing.T, row instrument.Instrument, data metricdata.Aggregation) {
	t.Helper()
	key := func(set attribute.Set) string {
		values := make([]string, len(row.Labels))
		for i, l := range row.Labels {
			v, ok := set.Value(attribute.Key(l))
			if !ok {
				t.Errorf("%s has no label %s", row.Name, l)
			}
			values[i] = v.AsString()
		}
		if set.Len() != len(row.Labels) {
			t.Errorf("%s has labels %v, the table says %v", row.Name, set, row.Labels)
		}
		return row.Name + "{" + strings.Join(values, ",") + "}"
	}
	switch d := data.(type) {
	case metricdata.Sum[float64]:
		for _, p := range d.DataPoints {
			r[key(p.Attributes)] = sample{value: p.Value}
		}
	case metricdata.Gauge[float64]:
		for _, p := range d.DataPoints {
			r[key(p.Attributes)] = sample{value: p.Value}
		}
	case metricdata.Histogram[float64]:
		for _, p := range d.DataPoints {
			r[key(p.Attributes)] = sample{value: p.Sum, count: p.Count}
		}
	default:
		t.Errorf("%s is a %T", row.Name, data)
	}
}

// want checks values of counters and gauges, and counts of histograms.
func (r readings) want(t *testing.T, values map[string]float64) {
	t.Helper()
	for key, want := range values {
		got, ok := r[key]
		name, _, _ := strings.Cut(key, "{")
		row, _ := instrument.Lookup(name)
		have := got.value
		if row.Kind == instrument.Histogram {
			have = float64(got.count)
		}
		if !ok || have != want {
			t.Errorf("%s is %v (measured: %v), want %v; of that name: %v", key, have, ok, want, r.of(name))
		}
	}
}

func (r readings) of(name string) map[string]sample {
	out := map[string]sample{}
	for key, s := range r {
		if strings.HasPrefix(key, name+"{") {
			out[key] = s
		}
	}
	return out
}
