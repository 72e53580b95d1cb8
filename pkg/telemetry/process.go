package telemetry

import (
	"net/http"
	"strings"
)

// Process is what a process tells of itself.
type Process struct {
	Traced  bool         // spans are exported
	Metrics http.Handler // the page of /metrics; nil: there is none
	Stop    func()       // flushes what is left; never nil
}

// Wanted is the standard variable by which the environment asks for an export over
// OTLP, "" when none does.
func Wanted(getenv func(string) string) string {
	if strings.EqualFold(getenv("OTEL_SDK_DISABLED"), "true") {
		return ""
	}
	for _, name := range []string{"OTEL_EXPORTER_OTLP_ENDPOINT", "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "OTEL_EXPORTER_OTLP_METRICS_ENDPOINT"} {
		if getenv(name) != "" {
			return name
		}
	}
	return ""
}
