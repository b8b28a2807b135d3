package openstack_test

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"

	"github.com/fxccm/fxccm/ccm/ccmtest"
)

func TestLoadBalancer_External_IsServedByAFloatingIP_AndLeavesNothing(t *testing.T) {
	t.Parallel()
	s := newBalancedSite(t)
	machines := s.addNodes(shared.Client(t), "external-1", "external-2")
	r := serving(t, s)
	service := served(t, "external", ccmtest.ServicePorts(80, 443))

	lb := s.waitShape(service, s.usual(service, machines...))
	if lb.Name != balancerName("external") || lb.Description != balancerDescription("external") {
		t.Errorf("the load balancer is named %q and described as %q", lb.Name, lb.Description)
	}
	if want := append(ownTags(t, shared.Client(t), service), lb.Name); !hasTags(lb.Tags, want...) {
		t.Errorf("the load balancer's tags are %q, want %q among them", lb.Tags, want)
	}
	ips := s.floatingIPs(lb)
	if len(ips) != 1 {
		t.Fatalf("%d floating IPs lead to the load balancer", len(ips))
	}
	if want := "Floating IP for " + balancerDescription("external"); ips[0].Description != want ||
		!hasTags(ips[0].Tags, ownTags(t, shared.Client(t), service)...) {
		t.Errorf("the floating IP is described as %q with the tags %q", ips[0].Description,
			ips[0].Tags)
	}
	if got := service.Status.LoadBalancer.Ingress; len(got) != 1 || got[0].IP != ips[0].Address ||
		ptr.Deref(got[0].IPMode, "") != corev1.LoadBalancerIPModeVIP {
		t.Errorf("the status is %+v, want %s of the mode VIP", got, ips[0].Address)
	}
	if service.Annotations[annotationID] != lb.ID ||
		service.Annotations[annotationAddress] != ips[0].Address || !hasFinalizer(service) {
		t.Errorf("the Service has the annotations %v and the finalizers %v", service.Annotations,
			service.Finalizers)
	}
	// A second pass changes nothing, and the wait caused no warning.
	s.waitQuiet(loadBalancerChanges)
	if made := s.since(0, operations("loadbalancer_create", "floating_ip_create")); len(made) != 2 {
		t.Errorf("there were %d creations, want a load balancer and a floating IP:\n%s", len(made),
			describe(made))
	}
	deleteService(t, shared.Client(t), "external")
	s.wantNothingLeft()
	wantNoWarnings(t, service)
	wantToldOnce(t, service)
	r.unbroken()
}
