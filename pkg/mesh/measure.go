package mesh

import (
	"context"
	"sync"
	"time"

	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/metric"

	"github.com/crumbmesh/crumbmesh/pkg/fault"
	"github.com/crumbmesh/crumbmesh/pkg/telemetry"
	"github.com/crumbmesh/crumbmesh/pkg/telemetry/instrument"
)

// What became of a message, in crumbmesh.consumer.messages.
const (
	outcomeDone     = "done"
	outcomeRetry    = "retry"
	outcomeReturned = "returned"
	outcomeDead     = "dead"
)

// measured is what a connection measures of itself.
type measured struct {
	messages, redelivered, dead *instrument.Counter
	wait                        *instrument.Values
	stop                        func()

	mu    sync.Mutex
	loops map[*Loop]bool
}

// observe begins to measure. What cfg leaves open is the global providers'.
func (c *Conn) observe(cfg ConnectConfig) {
	if cfg.Meters == nil {
		cfg.Meters = otel.GetMeterProvider()
	}
	if cfg.Traces == nil {
		cfg.Traces = otel.GetTracerProvider()
	}
	c.Meter, c.Tracer = cfg.Meters.Meter(telemetry.Scope, metric.WithInstrumentationVersion(Version)), cfg.Traces.Tracer(telemetry.Scope)
	m := &measured{
		messages: instrument.NewCounter(c.Meter, instrument.Messages), redelivered: instrument.NewCounter(c.Meter, instrument.Redeliveries),
		dead: instrument.NewCounter(c.Meter, instrument.DeadLetters), wait: instrument.NewHistogram(c.Meter, instrument.QueueWait),
		loops: map[*Loop]bool{},
	}
	m.stop = instrument.Observe(c.Meter, func(_ context.Context, set instrument.Set) error {
		set(instrument.Violations, float64(c.violations.Load()))
		for l, healthy := range m.health() {
			set(instrument.LoopHealthy, healthy, l.Stream, l.Consumer)
		}
		return nil
	}, instrument.Violations, instrument.LoopHealthy)
	c.measured = m
}

func (m *measured) close() { m.stop() }

// watch includes a loop that exists, forget leaves out one that has ended.
func (m *measured) watch(l *Loop) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.loops[l] = true
}

func (m *measured) forget(l *Loop) {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.loops, l)
}

// health is 1 for a consumer whose loop hears from the server, else 0.
func (m *measured) health() map[ConsumeConfig]float64 {
	m.mu.Lock()
	defer m.mu.Unlock()
	out := make(map[ConsumeConfig]float64, len(m.loops))
	for l := range m.loops {
		out[l.cfg] = 1
		if l.Health() != nil {
			out[l.cfg] = 0
		}
	}
	return out
}

// came counts a delivery.
func (m *measured) came(ctx context.Context, cfg ConsumeConfig, stored time.Time, count int) {
	if count > 1 {
		m.redelivered.Add(ctx, 1, cfg.Stream, cfg.Consumer)
		return
	}
	m.wait.Record(ctx, max(0, time.Since(stored).Seconds()), cfg.Stream, cfg.Consumer)
}

// settled counts what became of a message.
func (m *measured) settled(ctx context.Context, cfg ConsumeConfig, outcome string) {
	m.messages.Add(ctx, 1, cfg.Stream, cfg.Consumer, outcome)
}

// buried counts a dead letter that was not there before.
func (m *measured) buried(ctx context.Context, stream string, code fault.Code) {
	m.dead.Add(ctx, 1, stream, string(code))
}
