package guard

import (
	"context"
	"log/slog"
	"strings"

	"github.com/fxccm/fxccm/internal/inflight"
	"github.com/fxccm/fxccm/internal/tracing"
)

// startSpan starts the span of a call. Upstream's route controller calls with a context of its own,
// which has no tracer.
func (c caller) startSpan(
	ctx context.Context, what inflight.Activity,
) (context.Context, tracing.Span) {
	if c.tracer == nil {
		return ctx, tracing.Span{}
	}
	return tracing.Start(tracing.With(ctx, c.tracer, c.common...), what.Name, objectOf(what)...)
}

// objectOf names the Service or the node of a call.
func objectOf(what inflight.Activity) []slog.Attr {
	if what.Object == "" {
		return nil
	}
	switch iface, _ := split(what.Name); iface {
	case "LoadBalancer":
		namespace, name, _ := strings.Cut(what.Object, "/")
		return []slog.Attr{
			slog.String(tracing.Namespace, namespace), slog.String(tracing.Service, name),
		}
	case "InstancesV2", "Routes":
		return []slog.Attr{slog.String(tracing.Node, what.Object)}
	}
	return nil
}

// endSpan ends the span of a call. Waiting and absence are answers, not failures.
func (c caller) endSpan(ctx context.Context, span tracing.Span, err error) {
	if c.tracer == nil {
		return
	}
	result := resultOf(ctx, err)
	switch result {
	case Retry, NotFound, NotImplemented:
		err = nil
	}
	span.End(err, slog.String(tracing.Result, string(result)))
}
