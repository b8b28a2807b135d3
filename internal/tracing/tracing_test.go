package tracing_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"slices"
	"strings"
	"testing"

	"k8s.io/cloud-provider/api"

	"github.com/fxccm/fxccm/internal/tracing"
)

// recorder is a Tracer that keeps a line for each span that has ended.
type recorder struct{ lines []string }

type nameKey struct{}

func (r *recorder) StartSpan(
	ctx context.Context, name string, attributes []slog.Attr,
) (context.Context, func(error, []slog.Attr)) {
	if parent, ok := ctx.Value(nameKey{}).(string); ok {
		name = parent + " > " + name
	}
	return context.WithValue(ctx, nameKey{}, name), func(err error, more []slog.Attr) {
		r.lines = append(r.lines, fmt.Sprint(name, " ", slices.Concat(attributes, more), " ", err))
	}
}

func TestStart_WithTracer_GivesATreeWithTheCommonAttributes(t *testing.T) {
	var r recorder
	ctx := tracing.With(t.Context(), &r, slog.String(tracing.Manager, "m"))
	if tracing.IsInside(ctx) {
		t.Error("the context is inside a span before the first one")
	}
	ctx, outer := tracing.Start(ctx, "outer", slog.String("a", "b"))
	if !tracing.IsInside(ctx) {
		t.Error("the context is not inside the span")
	}
	_, inner := tracing.Start(ctx, "inner")
	inner.End(errors.New("quota"), slog.Int("n", 1))
	outer.End(fmt.Errorf("wait: %w", api.NewRetryError("is PENDING_UPDATE", 1)))
	want := []string{
		"outer > inner [fxccm.manager=m n=1] quota",
		"outer [fxccm.manager=m a=b fxccm.result=retry] <nil>",
	}
	if !slices.Equal(r.lines, want) {
		t.Errorf("the spans are %q, want %q", r.lines, want)
	}
}

func TestWithTracerOf_ContextInASpan_IsOutsideOfIt(t *testing.T) {
	var r recorder
	ctx, parent := tracing.Start(tracing.With(t.Context(), &r, slog.String("a", "b")), "sync")
	later := tracing.WithTracerOf(t.Context(), ctx)
	if tracing.IsInside(later) {
		t.Error("the context is inside a span")
	}
	_, span := tracing.Start(later, "repair")
	span.End(nil)
	parent.End(nil)
	if want := []string{"repair [a=b] <nil>", "sync [a=b] <nil>"}; !slices.Equal(r.lines, want) {
		t.Errorf("the spans are %q, want %q", r.lines, want)
	}
}

func TestStartRequest_Request_HasNoSecrets(t *testing.T) {
	var r recorder
	ctx := tracing.With(t.Context(), &r)
	send := func(resp *http.Response, err error, resends int) {
		req, _ := http.NewRequestWithContext(ctx, http.MethodPut,
			"https://user:hidden@octavia.example:9876/v2/x?token=hidden", strings.NewReader("hidden"))
		req.Header.Set("X-Auth-Token", "hidden")
		_, span := tracing.StartRequest(req, "x_update", slog.String(tracing.Cloud, "lb"))
		span.EndRequest(resp, err, resends)
	}
	send(&http.Response{StatusCode: http.StatusAccepted}, nil, 0)
	send(&http.Response{StatusCode: http.StatusConflict}, nil, 2)
	send(nil, errors.New("connection refused"), 0)
	const common = "x_update [fxccm.openstack.service=lb http.request.method=PUT " +
		"server.address=octavia.example url.path=/v2/x "
	want := []string{
		common + "http.response.status_code=202] <nil>",
		common + "http.request.resend_count=2 http.response.status_code=409 error.type=409] Conflict",
		strings.TrimSuffix(common, " ") + "] connection refused",
	}
	if !slices.Equal(r.lines, want) {
		t.Errorf("the spans are %q, want %q", r.lines, want)
	}
}

func TestWith_ContextWithTracer_KeepsIt(t *testing.T) {
	var first, second recorder
	ctx, parent := tracing.Start(tracing.With(t.Context(), &first), "sync")
	err := tracing.Do(tracing.With(ctx, &second), "call",
		func(context.Context) error { return errors.New("quota") })
	parent.End(err)
	if want := []string{"sync > call [] quota", "sync [] quota"}; !slices.Equal(first.lines,
		want) || len(second.lines) > 0 {
		t.Errorf("the spans are %q and %q, want %q and none", first.lines, second.lines, want)
	}
}

func TestStart_WithoutTracer_AllocatesNothing(t *testing.T) {
	ctx := tracing.With(t.Context(), nil)
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "https://octavia.example/v2/x", nil)
	if err != nil {
		t.Fatal(err)
	}
	failure, resp := errors.New("quota"), &http.Response{StatusCode: http.StatusConflict}
	if n := testing.AllocsPerRun(100, func() {
		inside, span := tracing.Start(tracing.With(ctx, nil), "sync",
			slog.String(tracing.Namespace, "default"), slog.Int(tracing.Steps, 1000))
		if tracing.IsInside(inside) {
			t.Error("the context is inside a span")
		}
		_, request := tracing.StartRequest(req, "x_get", slog.String(tracing.Cloud, "lb"))
		request.EndRequest(resp, failure, 3)
		span.End(failure, slog.Int(tracing.Steps, 1000))
	}); n != 0 {
		t.Errorf("%v allocations for each span, want 0", n)
	}
}
