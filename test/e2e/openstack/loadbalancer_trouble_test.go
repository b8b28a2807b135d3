package openstack_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/fxccm/fxccm/ccm/ccmtest"
	"github.com/fxccm/fxccm/ccm/status"
	"github.com/fxccm/fxccm/provider/openstack/openstacktest"
)

func TestLoadBalancer_BadValues_AreReportedOnceByNameAndValue(t *testing.T) {
	t.Parallel()
	s := newBalancedSite(t)
	machines := s.addNodes(shared.Client(t), "bad-1")
	r := serving(t, s, balancing(s, drifting), named("bad"))
	told := func(service *corev1.Service, name, value string) {
		t.Helper()
		e := waitServiceEvent(t, service, corev1.EventTypeWarning, name, value)
		if e.Count > 1 {
			t.Errorf("it was reported %d times: %s", e.Count, e.Message)
		}
	}
	t.Run("with a default", func(t *testing.T) {
		s := s.in(t)
		service := served(t, "bad-default", annotated(annotation+"connection-limit", "many"))
		s.waitShape(service, s.usual(service, machines...))
		told(service, annotation+"connection-limit", "many")
		service = annotateService(t, service.Name, annotation+"timeout-client-data", "7000")
		s.waitBalancer(service.Annotations[annotationID], "the next change is done",
			func(lb openstacktest.LoadBalancer) error {
				if got := lb.Listeners[0].TimeoutClientData; got != 7000 {
					return fmt.Errorf("the timeout is %d", got)
				}
				return nil
			})
		service = annotateService(t, service.Name, annotation+"connection-limit", "lots")
		told(service, annotation+"connection-limit", "lots")
		told(service, annotation+"connection-limit", "many")
		wantNoWarnings(t, service, "connection-limit")
	})
	t.Run("refused", func(t *testing.T) {
		const refused = annotation + "floating-network-id"
		s := s.in(t)
		service := createService(t, shared.Client(t), "bad-refused", annotated(refused, "nowhere"))
		told(service, refused, "nowhere")
		waitCondition(t, service.Name, "InvalidAnnotation", "nowhere")
		r.wantLoadBalancer(t, service.Name, status.LoadBalancerRefused, "InvalidAnnotation")
		annotateService(t, service.Name, "example.org/touched", "yes")
		neighbor := served(t, "bad-neighbor")
		s.waitShape(neighbor, s.usual(neighbor, machines...))
		told(service, refused, "nowhere")
		wantNoWarnings(t, service, refused)
		if _, err := s.LoadBalancer(balancerName(service.Name)); err == nil {
			t.Error("a load balancer was created nevertheless")
		}
		annotateService(t, service.Name, refused, s.public)
		waitServed(t, shared.Client(t), service.Name)
		waitCondition(t, service.Name, "", "")
		r.wantLoadBalancer(t, service.Name, status.LoadBalancerReady, "Served")
		if n := metric(t, r.metrics, "fxccm_openstack_service_to_address_seconds",
			"manager", "bad"); n == 0 {
			t.Error("no time from a Service to its address was measured")
		}
	})
}

// wantLoadBalancer waits until the status shows a Service's load balancer in a state, and compares
// the metrics with the status.
func (r *replica) wantLoadBalancer(
	t *testing.T, service string, state status.LoadBalancerState, reason string,
) {
	t.Helper()
	current := ccmtest.Eventually(t,
		fmt.Sprintf("the load balancer of %s is %s: %s", service, state, reason),
		ccmtest.Status(r.Manager, func(s status.Manager) bool {
			return slices.ContainsFunc(s.LoadBalancers, func(lb status.LoadBalancer) bool {
				ready := lb.State == status.LoadBalancerReady
				return lb.Namespace == metav1.NamespaceDefault && lb.Service == service &&
					lb.State == state && lb.Reason == reason && !lb.Since.IsZero() &&
					(lb.Message == "") == ready && (len(lb.Addresses) == 1) == ready &&
					(lb.ProvisioningStatus == "ACTIVE") == ready
			})
		}))
	count := 0
	for _, lb := range current.LoadBalancers {
		if lb.State == state {
			count++
		}
	}
	if got := metric(t, r.metrics, "fxccm_load_balancers",
		"manager", "bad", "state", string(state)); got != float64(count) {
		t.Errorf("%v load balancers are %s by the metrics, and %d by the status", got, state, count)
	}
}

// waitCondition waits until the Service has the condition with the reason and the text. An empty
// reason means no condition.
func waitCondition(t *testing.T, name, reason, text string) {
	t.Helper()
	ccmtest.Eventually(t, fmt.Sprintf("Service %s has the condition %q", name, reason),
		ccmtest.Object(shared.Client(t).CoreV1().Services(metav1.NamespaceDefault).Get,
			name, func(s *corev1.Service) error {
				got := meta.FindStatusCondition(s.Status.Conditions,
					"fxccm.dev/LoadBalancerReady")
				if got == nil && reason == "" || got != nil && got.Reason == reason &&
					got.Status == metav1.ConditionFalse && strings.Contains(got.Message, text) {
					return nil
				}
				return fmt.Errorf("the condition is %+v", got)
			}))
}
