// Package otlp exports the program's spans, as OpenTelemetry's environment variables say.
package otlp

import (
	"context"
	"fmt"
	"os"
	"strings"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace"
	"go.opentelemetry.io/otel/sdk/resource"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
)

// Start returns a provider that exports spans. It is nil if no variable asks for that: an exporter,
// or an endpoint. The error names a variable that is wrong.
//
// The SDK reads the variables of samplers, limits and batches itself.
func Start(ctx context.Context, version string) (*sdktrace.TracerProvider, error) {
	isOn, err := isOn()
	if err != nil || !isOn {
		return nil, err
	}
	client, err := newClient()
	if err != nil {
		return nil, err
	}
	described, err := resource.New(ctx, resource.WithTelemetrySDK(),
		resource.WithAttributes(attribute.String("service.name", "fxccm"),
			attribute.String("service.version", version)),
		resource.WithFromEnv())
	if err != nil {
		return nil, fmt.Errorf("OTEL_RESOURCE_ATTRIBUTES: %w", err)
	}
	exporter, err := otlptrace.New(ctx, client)
	if err != nil {
		return nil, err
	}
	return sdktrace.NewTracerProvider(sdktrace.WithBatcher(exporter),
		sdktrace.WithResource(described)), nil
}

// isOn reports whether spans are exported. In difference to OpenTelemetry's specification, nothing
// is exported if nothing is set.
func isOn() (bool, error) {
	if strings.EqualFold(os.Getenv("OTEL_SDK_DISABLED"), "true") {
		return false, nil
	}
	switch exporter := os.Getenv("OTEL_TRACES_EXPORTER"); exporter {
	case "otlp":
		return true, nil
	case "none":
		return false, nil
	case "":
		_, endpoint := ofTraces("ENDPOINT")
		return endpoint != "", nil
	default:
		return false, fmt.Errorf("OTEL_TRACES_EXPORTER=%s is not supported: want otlp or none",
			exporter)
	}
}

// ofTraces returns a variable of the exporter. The one for traces alone has precedence.
func ofTraces(setting string) (name, value string) {
	name = "OTEL_EXPORTER_OTLP_TRACES_" + setting
	if value = strings.TrimSpace(os.Getenv(name)); value != "" {
		return name, value
	}
	name = "OTEL_EXPORTER_OTLP_" + setting
	return name, strings.TrimSpace(os.Getenv(name))
}
