//go:build slim

package local

import (
	"context"
	"os"

	"github.com/crumbmesh/crumbmesh/pkg/fault"
)

// startTracing refuses what a build without the OTLP exporter cannot do. `make
// demo` is built so: the exporter costs a third of a cold build.
func startTracing(context.Context) (on bool, flush func(), err error) {
	for _, name := range []string{"OTEL_EXPORTER_OTLP_ENDPOINT", "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT"} {
		if os.Getenv(name) != "" && os.Getenv("OTEL_SDK_DISABLED") != "true" {
			return false, func() {}, fault.New(fault.NotAvailable, "%s is set, and this binary was built without the exporter (-tags slim): build it with `make build`", name)
		}
	}
	return false, func() {}, nil
}
