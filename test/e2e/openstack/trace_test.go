package openstack_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	"go.opentelemetry.io/otel/trace"

	"github.com/fxccm/fxccm/ccm/ccmtest"
	"github.com/fxccm/fxccm/ccm/tracing"
)

// traced records the spans of a replica.
func traced(spans *tracetest.SpanRecorder) func(*launch) {
	provider := sdktrace.NewTracerProvider(sdktrace.WithSpanProcessor(spans))
	return func(l *launch) { l.Name, l.Tracer = "traced", tracing.New(provider) }
}

// paths are the names of the ended spans, each after those that it is in.
func paths(spans []sdktrace.ReadOnlySpan) map[string]sdktrace.ReadOnlySpan {
	byID := map[trace.SpanID]sdktrace.ReadOnlySpan{}
	for _, s := range spans {
		byID[s.SpanContext().SpanID()] = s
	}
	all := map[string]sdktrace.ReadOnlySpan{}
	for _, s := range spans {
		path := s.Name()
		for p := byID[s.Parent().SpanID()]; p != nil; p = byID[p.Parent().SpanID()] {
			path = p.Name() + " > " + path
		}
		all[path] = s
	}
	return all
}

func attributeOf(s sdktrace.ReadOnlySpan, key string) string {
	for _, a := range s.Attributes() {
		if a.Key == attribute.Key(key) {
			return a.Value.String()
		}
	}
	return ""
}

func TestTrace_ServiceAndNode_HaveSpansFromTheSyncToEachRequest(t *testing.T) {
	t.Parallel()
	s := newBalancedSite(t)
	s.addNodes(shared.Client(t), "traced-1")
	spans := tracetest.NewSpanRecorder()
	r := serving(t, s, traced(spans))
	served(t, "traced", ccmtest.ServicePorts(80))
	m := s.addServer("traced-2")
	ccmtest.CreateNode(t, shared.Client(t), ccmtest.TaintedNode(m.name))
	ccmtest.Eventually(t, "the node is initialized", ccmtest.Initialized(shared.Client(t), m.name))
	deleteService(t, shared.Client(t), "traced")
	r.stop()

	if open := len(spans.Started()) - len(spans.Ended()); open != 0 {
		t.Errorf("%d spans have not ended", open)
	}
	all := paths(spans.Ended())
	const ensure = "sync Service > LoadBalancer.EnsureLoadBalancer > "
	for path, want := range map[string]map[string]string{
		"sync Service": {"k8s.namespace.name": "default", "k8s.service.name": "traced"},
		ensure + "find > loadbalancer_list": {
			"http.request.method": "GET", "http.response.status_code": "200",
			"fxccm.openstack.service": "load-balancer", "server.address": "127.0.0.1",
		},
		ensure + "observe": nil,
		ensure + "plan":    nil,
		ensure + "CreateLoadBalancer > loadbalancer_create": {
			"http.request.method": "POST", "http.response.status_code": "201",
		},
		"sync Service > PATCH services/status": {"k8s.namespace.name": "default"},
		"sync Service > LoadBalancer.EnsureLoadBalancerDeleted > DeleteLoadBalancer > loadbalancer_delete": {
			"http.request.method": "DELETE", "http.response.status_code": "204",
		},
		"sync Node": {"k8s.node.name": m.name},
		"sync Node > InstancesV2.InstanceMetadata": {
			"k8s.node.name": m.name, "fxccm.result": "ok",
		},
		"sync Node > PATCH nodes": nil,
	} {
		span := all[path]
		if span == nil {
			t.Errorf("there is no span %q", path)
			continue
		}
		for key, value := range want {
			if got := attributeOf(span, key); got != value {
				t.Errorf("%s: %s is %q, want %q", path, key, got, value)
			}
		}
		if got := attributeOf(span, "fxccm.manager"); got != "traced" {
			t.Errorf("%s: it is of the Manager %q", path, got)
		}
	}
	// Octavia is slow, which is no failure.
	isWaiting := false
	for _, span := range spans.Ended() {
		if span.Name() != "sync Service" {
			continue
		}
		isWaiting = isWaiting || attributeOf(span, "fxccm.result") == "retry"
		if span.Status().Code == codes.Error {
			t.Errorf("a sync has failed: %s", span.Status().Description)
		}
	}
	if !isWaiting {
		t.Error("no sync says that the Service waits")
	}
	stubs := tracetest.SpanStubsFromReadOnlySpans(spans.Ended())
	for _, stub := range stubs {
		text := fmt.Sprint(stub.Name, stub.Attributes, stub.Status, stub.Events)
		s.secrets.scan("the span "+stub.Name, text)
		if slices.ContainsFunc(stub.Attributes,
			func(a attribute.KeyValue) bool { return strings.Contains(a.Value.String(), "?") }) {
			t.Errorf("a span has a query: %s", text)
		}
	}
	if t.Failed() {
		for path := range all {
			t.Log(path)
		}
	}
}
