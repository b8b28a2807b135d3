package tracing_test

import (
	"errors"
	"log/slog"
	"testing"

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

func TestNew_NoProvider_IsNoTracer(t *testing.T) {
	if tracer := tracing.New(nil); tracer != nil {
		t.Errorf("New(nil) is %v, want nil", tracer)
	}
}
