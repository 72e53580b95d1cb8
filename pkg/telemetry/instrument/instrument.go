package instrument

import (
	"context"
	"fmt"
	"sync"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"
)

const (
	// seriesMax bounds the combinations of label values of one instrument in a
	// process; further ones are counted together, under Other.
	seriesMax = 1000
	// valueMax bounds a label value, in bytes.
	valueMax  = 96
	labelsMax = 4
)

// Other stands for label values beyond seriesMax.
const Other = "_other"

// series are the label values that an instrument has met, ready to be measured
// with: making an attribute set costs more than measuring.
type series struct {
	labels []string

	mu  sync.RWMutex
	met map[[labelsMax]string]metric.MeasurementOption
}

func newSeries(labels []string) *series {
	return &series{labels: labels, met: map[[labelsMax]string]metric.MeasurementOption{}}
}

// of returns the set of values, in the order of the labels.
func (s *series) of(values []string) metric.MeasurementOption {
	if len(values) != len(s.labels) {
		panic(fmt.Sprintf("instrument: %d values for the labels %v", len(values), s.labels))
	}
	var key [labelsMax]string
	for i, v := range values {
		key[i] = v[:min(len(v), valueMax)]
	}
	s.mu.RLock()
	o, ok := s.met[key]
	s.mu.RUnlock()
	if ok {
		return o
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.met) >= seriesMax {
		for i := range s.labels {
			key[i] = Other
		}
	}
	attrs := make([]attribute.KeyValue, len(s.labels))
	for i, l := range s.labels {
		attrs[i] = attribute.String(l, key[i])
	}
	o = metric.WithAttributeSet(attribute.NewSet(attrs...))
	s.met[key] = o
	return o
}

// must is the row of a name; a name that is not in the table is a fault of the
// program, and so is one that OpenTelemetry refuses.
func must(name string, kind Kind, err error) Instrument {
	i, ok := Lookup(name)
	if err != nil || !ok || i.Kind != kind {
		panic(fmt.Sprintf("instrument: %s is no %s of the table: %v", name, kind, err))
	}
	return i
}

// Counter counts.
type Counter struct {
	counter metric.Float64Counter
	series  *series
}

// NewCounter returns the counter of that name.
func NewCounter(m metric.Meter, name string) *Counter {
	i := must(name, Count, nil)
	c, err := m.Float64Counter(name, metric.WithUnit(i.Unit), metric.WithDescription(i.Help))
	must(name, Count, err)
	return &Counter{c, newSeries(i.Labels)}
}

// Add counts n, with a value for each label of the table.
func (c *Counter) Add(ctx context.Context, n float64, labels ...string) {
	if c.counter.Enabled(ctx) {
		c.counter.Add(ctx, n, c.series.of(labels))
	}
}

// Values records values by size.
type Values struct {
	histogram metric.Float64Histogram
	series    *series
}

// NewHistogram returns the histogram of that name.
func NewHistogram(m metric.Meter, name string) *Values {
	i := must(name, Histogram, nil)
	h, err := m.Float64Histogram(name, metric.WithUnit(i.Unit), metric.WithDescription(i.Help), metric.WithExplicitBucketBoundaries(i.Buckets...))
	must(name, Histogram, err)
	return &Values{h, newSeries(i.Labels)}
}

// Record takes a value in the unit of the table, with a value for each label.
func (v *Values) Record(ctx context.Context, value float64, labels ...string) {
	if v.histogram.Enabled(ctx) {
		v.histogram.Record(ctx, value, v.series.of(labels))
	}
}

// Set says what a gauge, or a counter that somebody else keeps, stands at.
type Set func(name string, value float64, labels ...string)

// Observe asks read for the values of names whenever somebody reads the metrics,
// and never else, until stop is called. A read that fails leaves its values out.
func Observe(m metric.Meter, read func(ctx context.Context, set Set) error, names ...string) (stop func()) {
	observables := make([]metric.Observable, 0, len(names))
	byName := map[string]metric.Float64Observable{}
	all := map[string]*series{}
	for _, name := range names {
		o := observable(m, name)
		observables, byName[name] = append(observables, o), o
		i, _ := Lookup(name)
		all[name] = newSeries(i.Labels)
	}
	r, err := m.RegisterCallback(func(ctx context.Context, o metric.Observer) error {
		return read(ctx, func(name string, value float64, labels ...string) {
			o.ObserveFloat64(byName[name], value, all[name].of(labels))
		})
	}, observables...)
	if err != nil {
		panic("instrument: " + err.Error())
	}
	return func() { _ = r.Unregister() } // fails only when it is unknown
}

func observable(m metric.Meter, name string) metric.Float64Observable {
	i, _ := Lookup(name)
	if i.Kind == Count {
		c, err := m.Float64ObservableCounter(name, metric.WithUnit(i.Unit), metric.WithDescription(i.Help))
		must(name, Count, err)
		return c
	}
	g, err := m.Float64ObservableGauge(name, metric.WithUnit(i.Unit), metric.WithDescription(i.Help))
	must(name, Gauge, err)
	return g
}
