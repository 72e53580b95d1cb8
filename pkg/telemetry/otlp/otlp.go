// Package otlp turns tracing on for a process when the standard OTEL_* variables
// ask for it: OTLP over HTTP, off otherwise. It is apart from pkg/telemetry so
// that workers and libraries do not link an exporter.
package otlp

import (
	"context"
	"os"
	"strings"
	"time"

	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracehttp"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/sdk/resource"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"

	"github.com/crumbmesh/crumbmesh/pkg/fault"
	"github.com/crumbmesh/crumbmesh/pkg/secret"
	"github.com/crumbmesh/crumbmesh/pkg/telemetry"
)

const (
	// FlushMax bounds how long a stopping process waits for a slow collector.
	FlushMax = 3 * time.Second
	// attributeBytesMax bounds each attribute, so that one large value cannot make
	// a batch be refused.
	attributeBytesMax = 4 << 10
	exportTimeout     = 5 * time.Second
)

// Start begins tracing when the environment asks for it: an OTLP endpoint, or
// OTEL_TRACES_EXPORTER=otlp, and not OTEL_SDK_DISABLED=true. On says whether it
// did. Stop flushes for at most FlushMax; a collector that is down never fails
// the process. It fails with INVALID_CONFIG when a variable cannot be honoured.
//
// Spans are exported without the process's secrets, which what the exporter
// authenticates with becomes one of.
func Start(ctx context.Context, service string, secrets *secret.Book) (on bool, stop func(), err error) {
	none := func() {}
	if err := conceal(os.Getenv, secrets); err != nil {
		return false, none, err
	}
	on, err = wanted(os.Getenv)
	if err != nil || !on {
		return false, none, err
	}
	exporter, err := otlptracehttp.New(ctx, otlptracehttp.WithTimeout(exportTimeout))
	if err != nil {
		return false, none, fault.Wrap(fault.InvalidConfig, err, "OTLP exporter: %s", secrets.Masker().Text(err.Error()))
	}
	// replicas differ by service.instance.id, random unless the environment names it
	res, err := resource.New(ctx, resource.WithService(), resource.WithAttributes(attribute.String("service.name", service)), resource.WithFromEnv(), resource.WithTelemetrySDK())
	if err != nil {
		return false, none, fault.Wrap(fault.InvalidConfig, err, "OTEL_RESOURCE_ATTRIBUTES: %v", err)
	}
	limits := sdktrace.NewSpanLimits()
	limits.AttributeValueLengthLimit = attributeBytesMax
	provider := sdktrace.NewTracerProvider(sdktrace.WithBatcher(masking{exporter, secrets}), sdktrace.WithResource(res),
		sdktrace.WithIDGenerator(telemetry.IDGenerator{}), sdktrace.WithRawSpanLimits(limits))
	otel.SetTracerProvider(provider)
	otel.SetTextMapPropagator(propagation.TraceContext{})
	otel.SetErrorHandler(otel.ErrorHandlerFunc(func(error) {})) // a collector that is down is no concern of the run
	return true, func() {
		flush, cancel := context.WithTimeout(context.WithoutCancel(ctx), FlushMax)
		defer cancel()
		_ = provider.Shutdown(flush) // spans that could not be flushed in time are given up
	}, nil
}

// wanted reads the standard variables.
func wanted(env func(string) string) (bool, error) {
	if strings.EqualFold(env("OTEL_SDK_DISABLED"), "true") {
		return false, nil
	}
	endpoint := env("OTEL_EXPORTER_OTLP_ENDPOINT") != "" || env("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT") != ""
	switch exporter := env("OTEL_TRACES_EXPORTER"); exporter {
	case "":
		if !endpoint {
			return false, nil
		}
	case "none":
		return false, nil
	case "otlp":
	default:
		return false, fault.New(fault.InvalidConfig, "OTEL_TRACES_EXPORTER=%q: expected otlp or none", exporter)
	}
	for _, name := range []string{"OTEL_EXPORTER_OTLP_TRACES_PROTOCOL", "OTEL_EXPORTER_OTLP_PROTOCOL"} {
		if p := env(name); p != "" && p != "http/protobuf" {
			return false, fault.New(fault.InvalidConfig, "%s=%q: expected http/protobuf, the one this build speaks", name, p)
		}
	}
	return true, nil
}
