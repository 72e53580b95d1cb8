// Package export turns on what a process tells of itself: traces when the
// standard OTEL_* variables ask for them, and its metrics. It is apart from
// pkg/telemetry so that workers and libraries do not link the exporters; whoever
// wants them gives Start to the process (process.Config.Telemetry,
// worker.Process.Telemetry).
//
// A build with the tag slim has no exporter: they are a third of a cold build of
// the demo.
package export
