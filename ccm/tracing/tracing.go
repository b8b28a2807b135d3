// Package tracing makes the spans of a Manager with OpenTelemetry. It links OpenTelemetry's API for
// traces, without SDK and exporter: the host has these.
package tracing

import (
	"context"
	"log/slog"
	"strings"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/trace"

	"github.com/fxccm/fxccm/ccm"
	"github.com/fxccm/fxccm/internal/printable"
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

// maxStatus limits the text of an error, in characters: exporters refuse long messages.
const maxStatus = 1024

type tracer struct{ otel trace.Tracer }

// inside is the key of contexts that are inside a span of a tracer.
type inside struct{}

// StartSpan implements ccm.Tracer.
func (t tracer) StartSpan(ctx context.Context, name string, attributes []slog.Attr) (
	_ context.Context, end func(err error, attributes []slog.Attr),
) {
	options := []trace.SpanStartOption{
		trace.WithSpanKind(kindOf(attributes)), trace.WithAttributes(convert(attributes)...),
	}
	if ctx.Value(inside{}) == nil {
		// The context may have the span in which the host has started the Manager.
		options = append(options, trace.WithNewRoot())
	}
	ctx, span := t.otel.Start(ctx, name, options...)
	return context.WithValue(ctx, inside{}, true), func(err error, attributes []slog.Attr) {
		span.SetAttributes(convert(attributes)...)
		if err != nil {
			span.SetStatus(codes.Error, printable.Text(err.Error(), maxStatus))
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
			text = strings.ToValidUTF8(text, "\uFFFD")
			converted = append(converted, attribute.String(a.Key, text))
		}
	}
	return converted
}
