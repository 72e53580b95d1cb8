// Package observe turns on what a process tells of itself: traces when the
// standard OTEL_* variables ask for them, and its metrics. A build with the tag
// slim has neither exporter: they are a third of a cold build of the demo.
package observe

import "net/http"

// Process is what a process tells of itself; Stop flushes it.
type Process struct {
	Traced  bool         // spans are exported
	Metrics http.Handler // the page of /metrics; nil in a slim build
	Stop    func()
}
