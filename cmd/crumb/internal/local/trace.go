//go:build !slim

package local

import (
	"context"

	"github.com/crumbmesh/crumbmesh/pkg/telemetry/otlp"
)

// startTracing turns tracing on when the OTEL_* variables ask for it.
func startTracing(ctx context.Context) (on bool, flush func(), err error) {
	return otlp.Start(ctx, "crumbmesh")
}
