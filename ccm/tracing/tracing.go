// Package tracing makes the spans of a Manager with OpenTelemetry. It links OpenTelemetry's API for
// traces, without SDK and exporter: the host has these.
package tracing

import (
	"context"
	"log/slog"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/trace"

	"github.com/fxccm/fxccm/ccm"
)

// scope is the name of the instrumentation scope.
const scope = "github.com/fxccm/fxccm"

// New returns a Tracer for [ccm.Params], which starts spans with the provider. Several Managers may
// share it. In an fx app with a trace.TracerProvider, fx.Provide(tracing.New) is enough.
//
// The caller ends the provider after the Managers, so that the last spans are exported. A nil
// provider is a nil Tracer: there are no spans.
func New(provider trace.TracerProvider) ccm.Tracer {
	if provider == nil {
		return nil
	}
	return tracer{provider.Tracer(scope)}
}

type tracer struct{ otel trace.Tracer }

// StartSpan implements ccm.Tracer.
func (t tracer) StartSpan(ctx context.Context, name string, attributes []slog.Attr) (
	_ context.Context, end func(err error, attributes []slog.Attr),
) {
	ctx, span := t.otel.Start(ctx, name, trace.WithSpanKind(kindOf(attributes)),
		trace.WithAttributes(convert(attributes)...))
	return ctx, func(err error, attributes []slog.Attr) {
		span.SetAttributes(convert(attributes)...)
		if err != nil {
			span.SetStatus(codes.Error, err.Error())
		}
		span.End()
	}
}

// kindOf returns the kind of a span: a request that is sent is a client's.
func kindOf(attributes []slog.Attr) trace.SpanKind {
	for _, a := range attributes {
		if a.Key == "http.request.method" {
			return trace.SpanKindClient
		}
	}
	return trace.SpanKindInternal
}

func convert(attributes []slog.Attr) []attribute.KeyValue {
	converted := make([]attribute.KeyValue, 0, len(attributes))
	for _, a := range attributes {
		if a.Value.Kind() == slog.KindInt64 {
			converted = append(converted, attribute.Int64(a.Key, a.Value.Int64()))
		} else if text := a.Value.String(); text != "" {
			converted = append(converted, attribute.String(a.Key, text))
		}
	}
	return converted
}
