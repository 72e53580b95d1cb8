//go:build !slim

package export

import (
	"context"

	"github.com/crumbmesh/crumbmesh/pkg/secret"
	"github.com/crumbmesh/crumbmesh/pkg/telemetry"
	"github.com/crumbmesh/crumbmesh/pkg/telemetry/metrics"
	"github.com/crumbmesh/crumbmesh/pkg/telemetry/otlp"
)

// Start begins as the environment says; what is exported has no secret in it.
// Service is the process's service.name unless OTEL_SERVICE_NAME gives another. It
// fails with INVALID_CONFIG when a variable cannot be honoured.
func Start(ctx context.Context, service string, secrets *secret.Book) (telemetry.Process, error) {
	traced, flush, err := otlp.Start(ctx, service, secrets)
	if err != nil {
		return telemetry.Process{Stop: func() {}}, err
	}
	page, push, err := metrics.Start(ctx, service)
	if err != nil {
		return telemetry.Process{Stop: flush}, err
	}
	return telemetry.Process{Traced: traced, Metrics: page, Stop: func() { push(); flush() }}, nil
}
