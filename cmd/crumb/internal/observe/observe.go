//go:build !slim

package observe

import (
	"context"

	"github.com/crumbmesh/crumbmesh/pkg/secret"
	"github.com/crumbmesh/crumbmesh/pkg/telemetry/metrics"
	"github.com/crumbmesh/crumbmesh/pkg/telemetry/otlp"
)

// Start begins as the environment says; what is exported has no secret in it. It fails with INVALID_CONFIG when a
// variable cannot be honoured.
func Start(ctx context.Context, service string, secrets *secret.Book) (Process, error) {
	traced, flush, err := otlp.Start(ctx, service, secrets)
	if err != nil {
		return Process{Stop: func() {}}, err
	}
	page, push, err := metrics.Start(ctx, service)
	if err != nil {
		return Process{Stop: flush}, err
	}
	return Process{Traced: traced, Metrics: page, Stop: func() { push(); flush() }}, nil
}
