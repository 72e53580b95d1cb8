//go:build slim

package observe

import (
	"context"
	"os"

	"github.com/crumbmesh/crumbmesh/pkg/fault"
	"github.com/crumbmesh/crumbmesh/pkg/secret"
)

// Start refuses what a build without the exporters cannot do. `make demo` is
// built so.
func Start(context.Context, string, *secret.Book) (Process, error) {
	none := Process{Stop: func() {}}
	for _, name := range []string{"OTEL_EXPORTER_OTLP_ENDPOINT", "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "OTEL_EXPORTER_OTLP_METRICS_ENDPOINT"} {
		if os.Getenv(name) != "" && os.Getenv("OTEL_SDK_DISABLED") != "true" {
			return none, fault.New(fault.NotAvailable, "%s is set, and this binary was built without the exporters (-tags slim): build it with `make build`", name)
		}
	}
	return none, nil
}
