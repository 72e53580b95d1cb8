package worker

import (
	"context"

	"go.opentelemetry.io/otel/metric"

	"github.com/crumbmesh/crumbmesh/pkg/crumbs"
	"github.com/crumbmesh/crumbmesh/pkg/telemetry/instrument"
)

// operation is gen_ai.operation.name of every request of this gateway.
const operation = "chat"

// measured is what a gateway measures, by the GenAI conventions of OpenTelemetry.
type measured struct {
	took, tokens *instrument.Values
}

func newMeasured(m metric.Meter) *measured {
	return &measured{took: instrument.NewHistogram(m, instrument.ModelDuration), tokens: instrument.NewHistogram(m, instrument.ModelTokens)}
}

// answered records one request to a provider.
func (m *measured) answered(ctx context.Context, c crumbs.ModelCall, r crumbs.ModelResult) {
	failure := ""
	switch {
	case r.Error != nil:
		failure = string(r.Error.Code)
	case r.Status == crumbs.StatusCancelled:
		failure = crumbs.StatusCancelled
	}
	m.took.Record(ctx, float64(r.DurationMs)/1000, operation, c.Model.Provider, c.Model.Model, failure)
	if u := r.Usage; u != nil {
		m.tokens.Record(ctx, float64(u.InputTokens), operation, c.Model.Provider, c.Model.Model, "input")
		m.tokens.Record(ctx, float64(u.OutputTokens), operation, c.Model.Provider, c.Model.Model, "output")
	}
}
