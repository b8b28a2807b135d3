package openstack_test

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"

	"github.com/fxccm/fxccm/ccm/ccmtest"
)

func TestLoadBalancer_External_IsServedByAFloatingIP_AndLeavesNothing(t *testing.T) {
	besideOthers(t)
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
	for i, l := range lb.Listeners {
		if want := fmt.Sprintf("listener_%d_%s", i, lb.Name); l.Name != want ||
			!hasTags(l.Tags, lb.Name) {
			t.Errorf("listener %d is named %q with the tags %q, want the name %q and the tag %q", i,
				l.Name, l.Tags, want, lb.Name)
		}
	}
	for i, p := range lb.Pools {
		if want := fmt.Sprintf("pool_%d_%s", i, lb.Name); p.Name != want {
			t.Errorf("pool %d is named %q, want %q", i, p.Name, want)
		}
		for _, m := range p.Members {
			if m.Name != "external-1" && m.Name != "external-2" {
				t.Errorf("a member is named %q, want the name of its node", m.Name)
			}
		}
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
	if more := s.since(0,
		operations("loadbalancer_*_create", "loadbalancer_*update", "loadbalancer_*delete")); len(
		more) > 0 {
		t.Errorf("the load balancer was not created by one request:\n%s", describe(more))
	}
	deleteService(t, shared.Client(t), "external")
	s.wantNothingLeft()
	wantNoWarnings(t, service)
	wantToldOnce(t, service)
	r.unbroken()
}

// bearers are the ports with the security group.
func (s *site) bearers(group string) []string {
	var ports []string
	for _, p := range s.Ports() {
		if slices.Contains(p.SecurityGroups, group) {
			ports = append(ports, p.ID)
		}
	}
	slices.Sort(ports)
	return ports
}

// waitGroup waits until the Service's security group opens its node ports, and exactly the
// machines' ports have it.
func (s *site) waitGroup(service *corev1.Service, machines ...machine) {
	s.t.Helper()
	var opens, bears []string
	for _, port := range service.Spec.Ports {
		opens = append(opens,
			strings.ToLower(string(port.Protocol))+strconv.Itoa(int(port.NodePort)))
	}
	for _, m := range machines {
		bears = append(bears, m.port)
	}
	slices.Sort(opens)
	slices.Sort(bears)
	ccmtest.Eventually(s.t, fmt.Sprintf("the security group of %s opens %q", service.Name, opens),
		func(context.Context) (bool, error) {
			groups := s.groups()
			if len(groups) != 1 {
				return false, fmt.Errorf("there are the groups %v", groups)
			}
			var open []string
			for _, r := range s.SecurityGroupRules() {
				if r.SecurityGroupID == groups[0].ID && r.PortMin != nil {
					open = append(open, r.Protocol+strconv.Itoa(*r.PortMin))
				}
			}
			slices.Sort(open)
			if got := s.bearers(groups[0].ID); !slices.Equal(open, opens) ||
				!slices.Equal(got, bears) {
				return false, fmt.Errorf("it opens %q at %q, want the ports %q", open, got, bears)
			}
			return true, nil
		})
}
