package openstack_test

import (
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/fxccm/fxccm/ccm/ccmtest"
	"github.com/fxccm/fxccm/provider/openstack/openstacktest"
)

// The operator fills a pool. Two Services take from it, a third one waits, and a deletion gives its
// address to the one that waits when that is looked at again.
func TestLoadBalancer_FloatingIPOfAPool_IsTakenAndGivenBack(t *testing.T) {
	t.Parallel()
	s := newBalancedSite(t)
	client := shared.Client(t)
	s.addNodes(client, "pool-1")
	for range 2 {
		s.AddFloatingIP(openstacktest.FloatingIP{NetworkID: s.public, Tags: []string{"front"}})
	}
	addresses := func() []string {
		var all []string
		for _, ip := range s.FloatingIPs() {
			all = append(all, ip.Address)
		}
		slices.Sort(all)
		return all
	}
	pool := addresses()
	r := serving(t, s)
	fromPool := annotated(annotation+"floating-ip-tag", "front")
	addressOf := func(service *corev1.Service) string {
		t.Helper()
		if len(service.Status.LoadBalancer.Ingress) != 1 {
			t.Fatalf("the status of %s is %+v", service.Name, service.Status.LoadBalancer)
		}
		return service.Status.LoadBalancer.Ingress[0].IP
	}
	used := []string{
		addressOf(served(t, "pool-a", ccmtest.ServicePorts(80), fromPool)),
		addressOf(served(t, "pool-b", ccmtest.ServicePorts(80), fromPool)),
	}
	slices.Sort(used)
	if !slices.Equal(used, pool) {
		t.Errorf("the Services have %q, want each one of %q", used, pool)
	}
	waiting := createService(t, client, "pool-c", ccmtest.ServicePorts(80), fromPool)
	waitServiceEvent(t, waiting, corev1.EventTypeWarning, "FloatingIPUnavailable", "front",
		"release one, or create one and set the tag")
	freed := addressOf(getService(t, client, "pool-a"))
	deleteService(t, client, "pool-a")
	// A change of the Service starts a pass at once.
	editService(t, "pool-c", ccmtest.ServicePorts(80, 443))
	if got := addressOf(waitServed(t, client, "pool-c")); got != freed {
		t.Errorf("the Service that waited has %s, want %s", got, freed)
	}
	for _, name := range []string{"pool-b", "pool-c"} {
		deleteService(t, client, name)
	}
	if got := addresses(); !slices.Equal(got, pool) {
		t.Errorf("the floating IPs are %q, want %q", got, pool)
	}
	for _, ip := range s.FloatingIPs() {
		if ip.PortID != "" || !slices.Equal(ip.Tags, []string{"front"}) {
			t.Errorf("floating IP %s is at port %q with the tags %q", ip.Address, ip.PortID,
				ip.Tags)
		}
		s.must(s.DeleteFloatingIP(ip.ID))
	}
	s.wantNothingLeft()
	r.unbroken()
}

// A dual-stack Service requests an address of each family by annotation.
func TestLoadBalancer_AddressesByAnnotation_ArePublished(t *testing.T) {
	t.Parallel()
	s := newBalancedSite(t)
	s.dualStack()
	client := shared.Client(t)
	s.addNodes(client, "address-1")
	id := s.AddFloatingIP(openstacktest.FloatingIP{NetworkID: s.public, Address: "192.0.2.77"})
	r := serving(t, s)
	createService(t, client, "address", ccmtest.ServicePorts(80),
		annotated(annotation+"address", "192.0.2.77,fd00::77"), func(service *corev1.Service) {
			policy := corev1.IPFamilyPolicyPreferDualStack
			service.Spec.IPFamilyPolicy = &policy
			service.Spec.IPFamilies = []corev1.IPFamily{corev1.IPv4Protocol, corev1.IPv6Protocol}
		})
	service := waitServed(t, client, "address")
	var got []string
	for _, ingress := range service.Status.LoadBalancer.Ingress {
		got = append(got, ingress.IP)
	}
	if want := []string{"192.0.2.77", "fd00::77"}; !slices.Equal(got, want) {
		t.Errorf("the addresses are %q, want %q", got, want)
	}
	deleteService(t, client, "address")
	s.must(s.DeleteFloatingIP(id))
	s.wantNothingLeft()
	r.unbroken()
}
