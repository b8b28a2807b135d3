package loadbalancer

import (
	"reflect"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clocktesting "k8s.io/utils/clock/testing"

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
			"203.0.113.77,fd00::77",
			[]v1.IPFamily{v1.IPv4Protocol, v1.IPv6Protocol},
			false, "",
			[]string{"203.0.113.77", "fd00::77"},
		},
		"both addresses of an internal Service": {
			"fd00::77, 10.0.200.7",
			[]v1.IPFamily{v1.IPv4Protocol, v1.IPv6Protocol},
			true, "",
			[]string{"10.0.200.7", "fd00::77"},
		},
		"the second address beside the field": {
			"fd00::77",
			[]v1.IPFamily{v1.IPv4Protocol, v1.IPv6Protocol},
			false, "203.0.113.77",
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
		"an internal Service with a floating IP": {
			func(_ *site, service *v1.Service) {
				annotations("floating-ip-id", "99999999-9999-4999-8999-999999999999")(service)
				service.Annotations[annotationInternal] = "true"
			},
			[]string{settings.Prefix + "floating-ip-id", "together with " + annotationInternal},
		},
		"the ID is not allowed": {
			func(s *site, service *v1.Service) {
				s.defaults.LoadBalancer.AllowedAnnotations = "address"
				annotations("floating-ip-id", "99999999-9999-4999-8999-999999999999")(service)
			},
			[]string{"allowed-annotations of cloud.conf does not list floating-ip-id"},
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

// A load balancer is not recreated for an address that it cannot get, and its members are updated.
func TestAddress_OfTheSecondFamilyIsElsewhereLater_TheLoadBalancerStaysAndIsUpdated(t *testing.T) {
	t.Parallel()
	c, node := newCluster(t)
	s := c.site
	s.AddSubnet(openstacktest.Subnet{NetworkID: s.network, CIDR: "fd00::/64"})
	service := s.addService("web", 80)
	service.Spec.IPFamilies = []v1.IPFamily{v1.IPv4Protocol, v1.IPv6Protocol}
	s.update(service)
	before := published(c.ensure(service, node))
	id := s.LoadBalancers()[0].ID
	s.requests(service, "recreate", "true", "address", "fd01::77")
	other := s.addNode("b")
	after := published(c.ensure(service, node, other))
	if lbs := s.LoadBalancers(); len(lbs) != 1 || lbs[0].ID != id || len(before) != 2 ||
		!slices.Equal(after, before) {
		t.Errorf("published is %q, was %q, by %+v", after, before, lbs)
	}
	s.wantMembers(node.Status.Addresses[0].Address+":30080",
		other.Status.Addresses[0].Address+":30080")
	said := s.said("Warning " + string(events.Unsupported))
	if len(said) != 1 || !strings.Contains(said[0], "requests fd01::77, but the load balancer "+
		"keeps its addresses: no subnet of network "+s.network) {
		t.Errorf("the events are %q", said)
	}
}

// A guest prevents the recreation that would add the second address. Octavia then refuses ::/0.
func TestAddress_OfTheSecondFamilyNeedsAPreventedRecreation_ClientsAreOfTheFirst(t *testing.T) {
	t.Parallel()
	c, node := newCluster(t)
	s := c.site
	six := s.AddSubnet(openstacktest.Subnet{NetworkID: s.network, CIDR: "fd00::/64"})
	service := s.addService("web", 80)
	c.ensure(service, node)
	id := s.LoadBalancers()[0].ID
	c.ensure(s.addGuest(id, "guest", 9000), node)
	service = s.now(service)
	service.Spec.IPFamilies = []v1.IPFamily{v1.IPv4Protocol, v1.IPv6Protocol}
	service.Spec.Ports = append(service.Spec.Ports, v1.ServicePort{
		Name: "p81", Protocol: v1.ProtocolTCP, Port: 81, NodePort: 30081,
	})
	s.update(service)
	s.requests(service, "recreate", "true", "additional-subnet-id", six)
	c.ensure(service, node)
	mark := s.mark()
	c.ensure(service, node)
	if writes := s.writes(mark); len(writes) > 0 {
		t.Errorf("the second reconcile sends %q", writes)
	}
	lb := s.LoadBalancers()[0]
	if lb.ID != id || len(lb.Listeners) != 3 {
		t.Errorf("the load balancer is %+v", lb)
	}
	for _, l := range lb.Listeners {
		if !slices.Equal(l.AllowedCIDRs, []string{"0.0.0.0/0"}) {
			t.Errorf("listener %d admits %q", l.ProtocolPort, l.AllowedCIDRs)
		}
	}
}

// anotherSubnet adds a subnet for load balancers with a router to the external network.
func (s *site) anotherSubnet() string {
	s.t.Helper()
	subnet := s.AddSubnet(openstacktest.Subnet{NetworkID: s.network, CIDR: "10.9.0.0/24"})
	s.AddRouter(openstacktest.Router{
		Name: "second", Subnets: []string{subnet}, ExternalNetworkID: s.external,
	})
	return subnet
}

// one returns the floating IP with the ID.
func (s *site) one(id string) openstacktest.FloatingIP {
	s.t.Helper()
	all := s.FloatingIPs()
	i := slices.IndexFunc(all, func(ip openstacktest.FloatingIP) bool { return ip.ID == id })
	if i < 0 {
		s.t.Fatalf("floating IP %s does not exist", id)
	}
	return all[i]
}

// wantUnused fails the test unless a floating IP is unused, and has these tags alone.
func (s *site) wantUnused(id string, tags ...string) {
	s.t.Helper()
	if ip := s.one(id); ip.PortID != "" || !slices.Equal(ip.Tags, tags) {
		s.t.Errorf("floating IP %s is at port %q with the tags %q, want it unused with %q",
			ip.Address, ip.PortID, ip.Tags, tags)
	}
}

func TestFloatingIP_ByID_IsUsedAndStaysTheUsers(t *testing.T) {
	t.Parallel()
	c, node := newCluster(t)
	s := c.site
	first := s.AddFloatingIP(openstacktest.FloatingIP{NetworkID: s.external, Description: "mine"})
	second := s.AddFloatingIP(openstacktest.FloatingIP{NetworkID: s.external})
	service := s.addService("web", 80)
	annotations("floating-ip-id", first)(service)
	s.update(service)
	serves := func(id string) {
		t.Helper()
		got := published(c.ensure(service, node))
		if want := s.one(id).Address; !slices.Equal(got, []string{want}) {
			t.Errorf("published is %q, want %s", got, want)
		}
		mark := s.mark()
		c.ensure(service, node)
		if writes := s.writes(mark); len(writes) > 0 {
			t.Errorf("the next pass sends %v", writes)
		}
	}
	serves(first)
	// The address may be requested, too.
	s.requests(service, "floating-ip-id", second, "address", s.one(second).Address)
	serves(second)
	s.wantUnused(first)
	// A recreation keeps it.
	old := s.LoadBalancers()[0].ID
	s.requests(service, "recreate", "true", "subnet-id", s.anotherSubnet())
	serves(second)
	if s.LoadBalancers()[0].ID == old {
		t.Error("the load balancer was not recreated")
	}
	c.remove(service)
	s.wantUnused(second)
	if ip := s.one(first); ip.Description != "mine" || len(s.FloatingIPs()) != 2 {
		t.Errorf("the floating IPs are %+v", s.FloatingIPs())
	}
}

// A floating IP that the Service cannot have leaves the one that it has.
func TestFloatingIP_ByIDCannotBeUsed_ThePreviousOneStays(t *testing.T) {
	t.Parallel()
	c, node := newCluster(t)
	s := c.site
	service := s.addService("web", 80)
	before := published(c.ensure(service, node))
	users := s.AddFloatingIP(openstacktest.FloatingIP{NetworkID: s.external})
	for _, test := range []struct {
		pairs []string
		want  string
	}{
		{
			[]string{"floating-ip-id", "99999999-9999-4999-8999-999999999999"},
			"does not exist in the project",
		},
		{
			[]string{"floating-ip-id", users, "address", "203.0.113.99"},
			"annotation loadbalancer.openstack.org/floating-ip-id names floating IP " + users +
				", whose address is not 203.0.113.99, which annotation " +
				"loadbalancer.openstack.org/address requests",
		},
	} {
		service = s.now(service)
		annotations(test.pairs...)(service)
		c.wantRefused(events.FloatingIPUnavailable, service, node)
		if said := s.said(test.want); len(said) != 1 {
			t.Errorf("the events are %q, want one with %q", s.said("FloatingIP"), test.want)
		}
		for _, ip := range s.FloatingIPs() {
			if leads := ip.PortID != ""; leads != (ip.Address == before[0]) {
				t.Errorf("floating IP %s is at port %q", ip.Address, ip.PortID)
			}
		}
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
	for name, request := range map[string]func(*v1.Service, openstacktest.FloatingIP){
		"by address": func(service *v1.Service, ip openstacktest.FloatingIP) {
			annotations("address", ip.Address)(service)
		},
		"by spec.loadBalancerIP": func(service *v1.Service, ip openstacktest.FloatingIP) {
			service.Spec.LoadBalancerIP = ip.Address
		},
		"by the tag of a pool": func(service *v1.Service, _ openstacktest.FloatingIP) {
			annotations("floating-ip-tag", "reserved")(service)
		},
		"by ID": func(service *v1.Service, ip openstacktest.FloatingIP) {
			annotations("floating-ip-id", ip.ID)(service)
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c, node := newCluster(t)
			s := c.site
			reserved := s.reserve("reserved")
			before := s.FloatingIPs()
			for owner, ip := range reserved {
				service := s.addService("web-"+strings.ReplaceAll(ip.Address, ".", "-"), 80)
				request(service, ip)
				c.wantRefused(events.FloatingIPUnavailable, service, node)
				if after := s.FloatingIPs(); !reflect.DeepEqual(after, before) {
					t.Fatalf("%s: the floating IPs are %+v, were %+v", owner, after, before)
				}
			}
		})
	}
}

// Another cluster marks the Service's floating IP between two requests of a reconcile.
func TestFloatingIP_MarkedByAnotherBeforeAStep_StaysAsItIs(t *testing.T) {
	t.Parallel()
	remove := func(c *cluster, service *v1.Service, _ *v1.Node) error {
		now := metav1.Now()
		service.DeletionTimestamp = &now
		return c.EnsureLoadBalancerDeleted(c.site.t.Context(), "kubernetes", service)
	}
	makeInternal := func(c *cluster, service *v1.Service, node *v1.Node) error {
		service.Annotations[annotationInternal] = "true"
		c.site.update(service)
		_, err := c.EnsureLoadBalancer(c.site.t.Context(), "kubernetes", c.site.now(service),
			[]*v1.Node{node})
		return err
	}
	for name, test := range map[string]struct {
		keep       string
		isDetached bool
		// after is the request after which the floating IP is marked.
		after     string
		reconcile func(*cluster, *v1.Service, *v1.Node) error
	}{
		"deletion":    {"false", false, "floating_ip_list", remove},
		"detachment":  {"true", false, "floating_ip_list", makeInternal},
		"tags":        {"true", false, "floating_ip_update", makeInternal},
		"description": {"true", true, "floating_ip_list", remove},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var s *site
			var now *clocktesting.FakeClock
			var isArmed atomic.Bool
			var marked openstacktest.FloatingIP
			change := func(id string, edit func(*openstacktest.FloatingIP)) {
				if err := s.UpdateFloatingIP(id, edit); err != nil {
					t.Error(err)
				}
			}
			s, now = newTickingSite(t, openstacktest.WithObserver(func(call openstacktest.Call) {
				if call.Operation == test.after && isArmed.CompareAndSwap(true, false) {
					change(s.FloatingIPs()[0].ID, func(ip *openstacktest.FloatingIP) {
						ip.Tags = []string{"fxccm-cluster=cluster-9", "fxccm-service=other"}
					})
					marked = s.FloatingIPs()[0]
				}
			}))
			s.defaults.LoadBalancer.DriftPeriod = 0 // a repair would also list
			c, node := s.begin("cluster-1", s.kube), s.addNode("a")
			service := s.addService("web", 80)
			annotations("keep-floatingip", test.keep)(service)
			s.update(service)
			c.ensure(service, node)
			if test.isDetached {
				change(s.FloatingIPs()[0].ID,
					func(ip *openstacktest.FloatingIP) { ip.PortID = "" })
			}
			now.Step(time.Hour) // lists are read again
			before := s.mark()
			isArmed.Store(true)
			if err := test.reconcile(c, s.now(service), node); !isWait(err) {
				t.Errorf("the error is %v, want a wait", err)
			}
			if isArmed.Load() || s.counts(before)["floating_ip_get"] == 0 {
				t.Fatalf("the step did not read the marked floating IP; the calls are %v",
					s.counts(before))
			}
			if ips := s.FloatingIPs(); len(ips) != 1 || !reflect.DeepEqual(ips[0], marked) {
				t.Errorf("the floating IPs are %+v, want %+v", ips, marked)
			}
		})
	}
}
