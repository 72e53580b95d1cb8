// Package metrics gives a process its OpenTelemetry meter provider: a Prometheus
// page always, OTLP pushes when the standard OTEL_* variables ask for them. It is
// apart from pkg/telemetry so that workers and libraries do not link an exporter.
package metrics

import (
	"context"
	"net/http"
	"os"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/exporters/otlp/otlpmetric/otlpmetrichttp"
	prometheusexporter "go.opentelemetry.io/otel/exporters/prometheus"
	"go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/resource"

	"github.com/crumbmesh/crumbmesh/pkg/fault"
)

const (
	// FlushMax bounds how long a stopping process waits for a slow collector.
	FlushMax = 3 * time.Second
	// scrapesMax bounds the pages that are rendered at once.
	scrapesMax = 4
)

// Start makes the process's meter provider the global one. The handler renders
// what it measured, with the Go runtime's and the process's own numbers. Stop
// flushes pushes for at most FlushMax. It fails with INVALID_CONFIG when a
// variable cannot be honoured.
func Start(ctx context.Context, service string) (page http.Handler, stop func(), err error) {
	registry := prometheus.NewRegistry()
	registry.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	pull, err := prometheusexporter.New(prometheusexporter.WithRegisterer(registry))
	if err != nil {
		return nil, nil, fault.Wrap(fault.InternalError, err, "the Prometheus exporter does not start")
	}
	// replicas differ by service.instance.id, random unless the environment names it
	res, err := resource.New(ctx, resource.WithService(), resource.WithAttributes(attribute.String("service.name", service)), resource.WithFromEnv(), resource.WithTelemetrySDK())
	if err != nil {
		return nil, nil, fault.Wrap(fault.InvalidConfig, err, "OTEL_RESOURCE_ATTRIBUTES: %v", err)
	}
	opts := []metric.Option{metric.WithReader(pull), metric.WithResource(res)}
	push, err := wanted(os.Getenv)
	if err != nil {
		return nil, nil, err
	}
	if push {
		exporter, err := otlpmetrichttp.New(ctx)
		if err != nil {
			return nil, nil, fault.Wrap(fault.InvalidConfig, err, "OTLP exporter of metrics: %v", err)
		}
		opts = append(opts, metric.WithReader(metric.NewPeriodicReader(exporter)))
	}
	provider := metric.NewMeterProvider(opts...)
	otel.SetMeterProvider(provider)
	return promhttp.HandlerFor(registry, promhttp.HandlerOpts{MaxRequestsInFlight: scrapesMax}), func() {
		flush, cancel := context.WithTimeout(context.WithoutCancel(ctx), FlushMax)
		defer cancel()
		_ = provider.Shutdown(flush) // what a slow collector did not take in time is given up
	}, nil
}

// wanted reads the standard variables.
func wanted(env func(string) string) (bool, error) {
	if strings.EqualFold(env("OTEL_SDK_DISABLED"), "true") {
		return false, nil
	}
	switch exporter := env("OTEL_METRICS_EXPORTER"); exporter {
	case "otlp":
	case "none", "prometheus": // the page is there without asking
		return false, nil
	case "":
		if env("OTEL_EXPORTER_OTLP_ENDPOINT") == "" && env("OTEL_EXPORTER_OTLP_METRICS_ENDPOINT") == "" {
			return false, nil
		}
	default:
		return false, fault.New(fault.InvalidConfig, "OTEL_METRICS_EXPORTER=%q: expected otlp, prometheus or none", exporter)
	}
	for _, name := range []string{"OTEL_EXPORTER_OTLP_METRICS_PROTOCOL", "OTEL_EXPORTER_OTLP_PROTOCOL"} {
		if p := env(name); p != "" && p != "http/protobuf" {
			return false, fault.New(fault.InvalidConfig, "%s=%q: expected http/protobuf, the one this build speaks", name, p)
		}
	}
	return true, nil
}
