package guard_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"testing"
	"time"

	"github.com/go-logr/logr"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	cloudprovider "k8s.io/cloud-provider"
	"k8s.io/cloud-provider/api"
	"k8s.io/utils/clock"

	"github.com/fxccm/fxccm/internal/fence"
	"github.com/fxccm/fxccm/internal/guard"
	"github.com/fxccm/fxccm/internal/tracing"
)

// spans is a tracer that keeps a line for each span.
type spans struct{ lines []string }

func (s *spans) StartSpan(
	ctx context.Context, name string, attributes []slog.Attr,
) (context.Context, func(error, []slog.Attr)) {
	return ctx, func(err error, more []slog.Attr) {
		s.lines = append(s.lines, fmt.Sprint(name, " ", slices.Concat(attributes, more), " ", err))
	}
}

func TestGuard_WithTracer_HasASpanForEachCallThatTheFenceAdmits(t *testing.T) {
	var answer error
	var tracer spans
	isInside := false
	f := fence.New(nil, clock.RealClock{})
	g, _ := guard.New(everything{answer: func(ctx context.Context, _ string) error {
		isInside = tracing.IsInside(ctx)
		return answer
	}}, f, logr.Discard(), guard.WithTracer(&tracer, slog.String(tracing.Manager, "m")))
	lb, _ := g.LoadBalancer()
	i, _ := g.InstancesV2()
	service := &v1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "web"}}
	for _, answer = range []error{
		errors.New("quota"), fmt.Errorf("later: %w", api.NewRetryError("pending", time.Second)),
	} {
		_ = lb.UpdateLoadBalancer(t.Context(), "", service, nil)
	}
	if !isInside {
		t.Error("the provider gets no span in its context")
	}
	answer = cloudprovider.InstanceNotFound
	_, _ = i.InstanceMetadata(t.Context(), node())
	f.Close(errors.New("lost"))
	_, _ = i.InstanceMetadata(t.Context(), node())
	want := []string{
		"LoadBalancer.UpdateLoadBalancer [fxccm.manager=m k8s.namespace.name=default " +
			"k8s.service.name=web fxccm.result=error] quota",
		"LoadBalancer.UpdateLoadBalancer [fxccm.manager=m k8s.namespace.name=default " +
			"k8s.service.name=web fxccm.result=retry] <nil>",
		"InstancesV2.InstanceMetadata [fxccm.manager=m k8s.node.name=n1 " +
			"fxccm.result=not_found] <nil>",
	}
	if !slices.Equal(tracer.lines, want) {
		t.Errorf("the spans are %q, want %q", tracer.lines, want)
	}
}
