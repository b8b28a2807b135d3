package tracing_test

import (
	"errors"
	"log/slog"
	"strings"
	"testing"
	"unicode/utf8"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	"go.opentelemetry.io/otel/trace"

	"github.com/fxccm/fxccm/ccm/tracing"
)

func TestNew_SpansOfAManager_BecomeSpansOfTheProvider(t *testing.T) {
	spans := tracetest.NewSpanRecorder()
	tracer := tracing.New(sdktrace.NewTracerProvider(sdktrace.WithSpanProcessor(spans)))
	ctx, endParent := tracer.StartSpan(t.Context(), "sync Service",
		[]slog.Attr{slog.String("k8s.service.name", "web"), slog.String("empty", "")})
	_, endChild := tracer.StartSpan(ctx, "loadbalancer_get",
		[]slog.Attr{slog.String("http.request.method", "GET")})
	endChild(errors.New("Conflict"), []slog.Attr{slog.Int("http.response.status_code", 409)})
	endParent(nil, nil)

	ended := spans.Ended()
	if len(ended) != 2 {
		t.Fatalf("%d spans have ended, want 2", len(ended))
	}
	child, parent := ended[0], ended[1]
	if child.Parent().SpanID() != parent.SpanContext().SpanID() || parent.Parent().IsValid() {
		t.Error("the request is not the child of the sync, or the sync has a parent")
	}
	if child.SpanKind() != trace.SpanKindClient || parent.SpanKind() != trace.SpanKindInternal {
		t.Errorf("the kinds are %s and %s, want client and internal", child.SpanKind(),
			parent.SpanKind())
	}
	if got := child.Status(); got.Code != codes.Error || got.Description != "Conflict" {
		t.Errorf("the request has the status %+v, want the error", got)
	}
	if got := parent.Status(); got.Code != codes.Unset {
		t.Errorf("the sync has the status %+v, want none", got)
	}
	if got := attribute.NewSet(parent.Attributes()...); !got.Equals(new(attribute.NewSet(
		attribute.String("k8s.service.name", "web")))) {
		t.Errorf("the sync has the attributes %v", parent.Attributes())
	}
	if got := attribute.NewSet(child.Attributes()...); !got.Equals(new(attribute.NewSet(
		attribute.String("http.request.method", "GET"),
		attribute.Int("http.response.status_code", 409)))) {
		t.Errorf("the request has the attributes %v", child.Attributes())
	}
}

// The host's span has usually ended before the first sync.
func TestNew_StartedInASpanOfTheHost_SyncsAreTracesOfTheirOwn(t *testing.T) {
	spans := tracetest.NewSpanRecorder()
	provider := sdktrace.NewTracerProvider(sdktrace.WithSpanProcessor(spans))
	ctx, startup := provider.Tracer("host").Start(t.Context(), "startup")
	startup.End()
	ctx, end := tracing.New(provider).StartSpan(ctx, "sync Service", nil)
	_, endChild := tracing.New(provider).StartSpan(ctx, "loadbalancer_get", nil)
	endChild(nil, nil)
	end(nil, nil)
	ended := spans.Ended()
	if parent := ended[2].Parent(); parent.IsValid() {
		t.Errorf("the sync is a child of %s, want no parent", parent.SpanID())
	}
	if ended[1].Parent().SpanID() != ended[2].SpanContext().SpanID() {
		t.Error("the request is not the child of the sync")
	}
}

// An exporter drops a whole batch if a text in it is not valid UTF-8.
func TestNew_ErrorOrValueIsNoText_IsMadeOne(t *testing.T) {
	spans := tracetest.NewSpanRecorder()
	tracer := tracing.New(sdktrace.NewTracerProvider(sdktrace.WithSpanProcessor(spans)))
	_, end := tracer.StartSpan(t.Context(), "sync Service",
		[]slog.Attr{slog.String("key", "a\xff")})
	end(errors.New(strings.Repeat("x", 5000)+"\xff"), nil)
	span := spans.Ended()[0]
	if text := span.Status().Description; len(text) > 1100 || !utf8.ValidString(text) {
		t.Errorf("the status has %d bytes, valid UTF-8: %t", len(text), utf8.ValidString(text))
	}
	if got := span.Attributes()[0].Value.AsString(); got != "a\uFFFD" {
		t.Errorf("the attribute is %q, want a valid text", got)
	}
}

func TestNew_NoProvider_IsNoTracer(t *testing.T) {
	if tracer := tracing.New(nil); tracer != nil {
		t.Errorf("New(nil) is %v, want nil", tracer)
	}
}
