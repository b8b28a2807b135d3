// Package tracing starts the spans of a term. It links no tracing library: the host's [Tracer] is a
// value of the context. Without one, no function of this package allocates.
package tracing

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"slices"
	"strconv"

	"k8s.io/cloud-provider/api"
)

// Tracer is ccm.Tracer.
type Tracer interface {
	StartSpan(
		ctx context.Context, name string, attributes []slog.Attr,
	) (context.Context, func(err error, attributes []slog.Attr))
}

// Names of attributes. Those without the prefix "fxccm." are OpenTelemetry's semantic conventions.
const (
	Manager      = "fxccm.manager"
	Result       = "fxccm.result"
	Cloud        = "fxccm.openstack.service"
	LoadBalancer = "fxccm.openstack.load_balancer"
	Steps        = "fxccm.plan.steps"
	Step         = "fxccm.plan.step"

	Namespace = "k8s.namespace.name"
	Service   = "k8s.service.name"
	Node      = "k8s.node.name"

	Method    = "http.request.method"
	Resends   = "http.request.resend_count"
	Status    = "http.response.status_code"
	Server    = "server.address"
	Path      = "url.path"
	ErrorType = "error.type"
)

// scope is the tracer of a context, with the attributes of all its spans.
type scope struct {
	tracer Tracer
	common []slog.Attr
	// isInside: the context is inside a span.
	isInside bool
}

type scopeKey struct{}

func scopeOf(ctx context.Context) *scope {
	s, _ := ctx.Value(scopeKey{}).(*scope)
	return s
}

// With returns a context in which the tracer starts the spans, with the common attributes. It
// returns ctx itself if the tracer is nil, or if ctx has a tracer already.
func With(ctx context.Context, tracer Tracer, common ...slog.Attr) context.Context {
	if tracer == nil || scopeOf(ctx) != nil {
		return ctx
	}
	return context.WithValue(ctx, scopeKey{}, &scope{tracer: tracer, common: common})
}

// WithTracerOf returns a context with the tracer of another one, but outside its span: for work
// that the other one only has begun.
func WithTracerOf(ctx, other context.Context) context.Context {
	s := scopeOf(other)
	if s == nil {
		return ctx
	}
	return With(ctx, s.tracer, s.common...)
}

// Span is a started span. The zero value does nothing.
type Span struct {
	end func(err error, attributes []slog.Attr)
}

// Start starts a span, as a child of the context's span if there is one. The caller must end it.
func Start(
	ctx context.Context, name string, attributes ...slog.Attr,
) (context.Context, Span) {
	s := scopeOf(ctx)
	if s == nil {
		return ctx, Span{}
	}
	return s.start(ctx, name, attributes)
}

func (s *scope) start(
	ctx context.Context, name string, attributes []slog.Attr,
) (context.Context, Span) {
	// The copy keeps the caller's arguments on its stack, also if there is no tracer.
	ctx, end := s.tracer.StartSpan(ctx, name, slices.Concat(s.common, attributes))
	if !s.isInside {
		ctx = context.WithValue(ctx, scopeKey{},
			&scope{tracer: s.tracer, common: s.common, isInside: true})
	}
	return ctx, Span{end: end}
}

// End ends the span. An error that only asks for a later call, an [api.RetryError], does not mark
// the span as failed.
func (s Span) End(err error, attributes ...slog.Attr) {
	if s.end == nil {
		return
	}
	all := slices.Clone(attributes)
	if _, waits := errors.AsType[*api.RetryError](err); waits {
		err, all = nil, append(all, slog.String(Result, "retry"))
	}
	s.end(err, all)
}

var errPanicked = errors.New("panic")

// Do calls f in a span. After a panic the span has failed.
func Do(
	ctx context.Context, name string, f func(context.Context) error, attributes ...slog.Attr,
) (err error) {
	ctx, span := Start(ctx, name, attributes...)
	err = errPanicked // until f returns
	defer func() { span.End(err) }()
	err = f(ctx)
	return err
}

// StartRequest starts the span of an HTTP request, and returns the request with the span's context.
// The span has neither headers nor the query nor the body.
func StartRequest(
	req *http.Request, name string, attributes ...slog.Attr,
) (*http.Request, Span) {
	s := scopeOf(req.Context())
	if s == nil {
		return req, Span{}
	}
	ctx, span := s.start(req.Context(), name, append(slices.Clone(attributes),
		slog.String(Method, req.Method), slog.String(Server, req.URL.Hostname()),
		slog.String(Path, req.URL.Path)))
	return req.WithContext(ctx), span
}

// EndRequest ends the span of a request. A status of 400 or more marks the span as failed. resends
// is how often the request was repeated.
func (s Span) EndRequest(resp *http.Response, err error, resends int) {
	if s.end == nil {
		return
	}
	var attributes []slog.Attr
	if resends > 0 {
		attributes = append(attributes, slog.Int(Resends, resends))
	}
	if err == nil {
		attributes = append(attributes, slog.Int(Status, resp.StatusCode))
		if resp.StatusCode >= http.StatusBadRequest {
			err = errors.New(http.StatusText(resp.StatusCode))
			attributes = append(attributes,
				slog.String(ErrorType, strconv.Itoa(resp.StatusCode)))
		}
	}
	s.end(err, attributes)
}

// IsInside reports whether the context is inside a span.
func IsInside(ctx context.Context) bool {
	s := scopeOf(ctx)
	return s != nil && s.isInside
}
