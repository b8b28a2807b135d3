package loadbalancer

import (
	"reflect"
	"slices"
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"

	"github.com/fxccm/fxccm/provider/openstack/internal/events"
	"github.com/fxccm/fxccm/provider/openstack/internal/loadbalancer/settings"
	"github.com/fxccm/fxccm/provider/openstack/openstacktest"
)

// published returns the addresses in a status.
func published(status *v1.LoadBalancerStatus) []string {
	var addresses []string
	for _, ingress := range status.Ingress {
		addresses = append(addresses, ingress.IP)
	}
	return addresses
}

// requests sets annotations of a Service.
func (s *site) requests(service *v1.Service, pairs ...string) *v1.Service {
	s.t.Helper()
	service = s.now(service)
	annotations(pairs...)(service)
	s.update(service)
	return service
}

// The annotation means the same as spec.loadBalancerIP, and more for the second family.
func TestAddress_ByAnnotation_IsPublished(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		address  string
		families []v1.IPFamily
		internal bool
		field    string
		want     []string
	}{
		"a floating IP of the project": {"203.0.113.77", []v1.IPFamily{v1.IPv4Protocol}, false, "", []string{"203.0.113.77"}},
		"the address of an internal Service": {
			"10.0.200.7", []v1.IPFamily{v1.IPv4Protocol}, true, "", []string{"10.0.200.7"},
		},
		"IPv6": {"fd00::77", []v1.IPFamily{v1.IPv6Protocol}, false, "", []string{"fd00::77"}},
		"a floating IP, and the second address": {
			"203.0.113.77,fd00::77", []v1.IPFamily{v1.IPv4Protocol, v1.IPv6Protocol}, false, "",
			[]string{"203.0.113.77", "fd00::77"},
		},
		"both addresses of an internal Service": {
			"fd00::77, 10.0.200.7", []v1.IPFamily{v1.IPv4Protocol, v1.IPv6Protocol}, true, "",
			[]string{"10.0.200.7", "fd00::77"},
		},
		"the second address beside the field": {
			"fd00::77", []v1.IPFamily{v1.IPv4Protocol, v1.IPv6Protocol}, false, "203.0.113.77",
			[]string{"203.0.113.77", "fd00::77"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c, node := newCluster(t)
			s := c.site
			v6 := s.AddSubnet(openstacktest.Subnet{NetworkID: s.network, CIDR: "fd00::/64"})
			s.AddFloatingIP(openstacktest.FloatingIP{
				NetworkID: s.external, Address: "203.0.113.77", Description: "mine",
			})
			service := s.addService("web", 80)
			service.Spec.IPFamilies, service.Spec.LoadBalancerIP = test.families, test.field
			annotations("address", test.address)(service)
			if test.internal {
				service.Annotations[annotationInternal] = "true"
			}
			if test.families[0] == v1.IPv6Protocol {
				annotations("subnet-id", v6)(service)
			}
			s.update(service)
			if got := published(c.ensure(service, node)); !slices.Equal(got, test.want) {
				t.Errorf("published is %q, want %q", got, test.want)
			}
			mark := s.mark()
			c.ensure(service, node)
			if writes := s.writes(mark); len(writes) > 0 {
				t.Errorf("the next pass sends %v", writes)
			}
			c.remove(service)
			ips := s.FloatingIPs()
			if len(ips) != 1 || ips[0].PortID != "" || ips[0].Description != "mine" ||
				len(ips[0].Tags) > 0 {
				t.Errorf("the user's floating IP is %+v, want it unused and as it was", ips)
			}
		})
	}
}

// A refusal is one sentence that names both settings, and nothing is requested from the cloud.
func TestAddress_ContradictsTheService_IsRefusedInOneSentence(t *testing.T) {
	t.Parallel()
	const address = settings.Prefix + "address"
	for name, test := range map[string]struct {
		prepare func(*site, *v1.Service)
		want    []string
	}{
		"the field requests another": {
			func(_ *site, service *v1.Service) {
				service.Spec.LoadBalancerIP = "203.0.113.78"
				annotations("address", "203.0.113.77")(service)
			},
			[]string{address, "203.0.113.77", "spec.loadBalancerIP requests 203.0.113.78"},
		},
		"a family that the Service does not have": {
			func(_ *site, service *v1.Service) { annotations("address", "fd00::77")(service) },
			[]string{address, "fd00::77", "spec.ipFamilies has only IPv4"},
		},
		"the annotation is not allowed": {
			func(s *site, service *v1.Service) {
				s.defaults.LoadBalancer.AllowedAnnotations = "load-balancer-ip"
				annotations("address", "203.0.113.77")(service)
			},
			[]string{address, "allowed-annotations of cloud.conf does not list address"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newSite(t)
			service := s.addService("web", 80)
			test.prepare(s, service)
			c, node := s.begin("cluster-1", s.kube), s.addNode("a")
			mark := s.mark()
			c.wantRefused(events.InvalidAnnotation, service, node)
			if writes := s.writes(mark); len(writes) > 0 {
				t.Errorf("these requests change something: %q", writes)
			}
			said := s.said("Warning " + string(events.InvalidAnnotation))
			for _, want := range test.want {
				if len(said) != 1 || !strings.Contains(said[0], want) {
					t.Errorf("the events are %q, want one with %q", said, want)
				}
			}
		})
	}
}

// An address of the second family outside of the network is refused before anything is created.
func TestAddress_OfTheSecondFamilyIsElsewhere_IsRefused(t *testing.T) {
	t.Parallel()
	c, node := newCluster(t)
	s := c.site
	s.AddSubnet(openstacktest.Subnet{NetworkID: s.network, CIDR: "fd00::/64"})
	service := s.addService("web", 80)
	service.Spec.IPFamilies = []v1.IPFamily{v1.IPv4Protocol, v1.IPv6Protocol}
	annotations("address", "fd01::77")(service)
	mark := s.mark()
	c.wantRefused(events.Unsupported, service, node)
	if writes := s.writes(mark); len(writes) > 0 {
		t.Errorf("these requests change something: %q", writes)
	}
	if said := s.said("annotation loadbalancer.openstack.org/address requests fd01::77"); len(
		said) != 1 {
		t.Errorf("the events are %q", said)
	}
}

// reserve adds floating IPs that another owner uses or has marked, by what shows the owner.
func (s *site) reserve(tags ...string) map[string]openstacktest.FloatingIP {
	s.t.Helper()
	server := s.AddServer(openstacktest.Server{Name: "another's"})
	port := s.AddPort(openstacktest.Port{
		NetworkID: s.network, DeviceID: server, DeviceOwner: openstacktest.OwnerCompute,
		FixedIPs: []openstacktest.FixedIP{{SubnetID: s.subnet, Address: "10.0.9.9"}},
	})
	all := map[string]openstacktest.FloatingIP{
		"in use":            {PortID: port},
		"another Service's": {Tags: []string{"fxccm-cluster=cluster-1", "fxccm-service=other"}},
		"another cluster's": {Tags: []string{"fxccm-cluster=cluster-9", "fxccm-service=other"}},
		"another fleet's":   {Tags: []string{"fxccm-owner=0123456789abcdef0123456789abcdef"}},
		"OCCM's":            {Description: "Floating IP for Kubernetes external service a/b from cluster c"},
		"Cluster API's":     {Description: "Created by cluster-api-provider-openstack cluster a"},
	}
	for name, ip := range all {
		ip.NetworkID, ip.Tags = s.external, append(ip.Tags, tags...)
		id := s.AddFloatingIP(ip)
		at := slices.IndexFunc(s.FloatingIPs(),
			func(made openstacktest.FloatingIP) bool { return made.ID == id })
		all[name] = s.FloatingIPs()[at]
	}
	return all
}

func TestFloatingIP_OfAnotherOwner_IsNeverTaken(t *testing.T) {
	t.Parallel()
	for name, request := range map[string]func(openstacktest.FloatingIP) (annotation, value string){
		"by address": func(ip openstacktest.FloatingIP) (string, string) {
			return "address", ip.Address
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c, node := newCluster(t)
			s := c.site
			reserved := s.reserve()
			before := s.FloatingIPs()
			for owner, ip := range reserved {
				service := s.addService("web-"+strings.ReplaceAll(ip.Address, ".", "-"), 80)
				annotations(request(ip))(service)
				c.wantRefused(events.FloatingIPUnavailable, service, node)
				if after := s.FloatingIPs(); !reflect.DeepEqual(after, before) {
					t.Fatalf("%s: the floating IPs are %+v, were %+v", owner, after, before)
				}
			}
		})
	}
}
