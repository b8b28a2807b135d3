package loadbalancer

import (
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/fxccm/fxccm/provider/openstack/internal/events"
	"github.com/fxccm/fxccm/provider/openstack/internal/loadbalancer/settings"
	"github.com/fxccm/fxccm/provider/openstack/openstacktest"
)

// addOCCMs adds a load balancer as OCCM creates it for the Service web of a cluster with the name
// kubernetes, with its floating IP.
func (s *site) addOCCMs(name, subnet string, members ...string) (id string) {
	s.t.Helper()
	const pool = "99999999-0000-4000-8000-000000000001"
	lb := openstacktest.LoadBalancer{
		OctaviaResource: openstacktest.OctaviaResource{Name: name, Tags: []string{name}},
		VIPSubnetID:     subnet,
		Listeners: []openstacktest.Listener{{
			OctaviaResource: openstacktest.OctaviaResource{
				Name: "listener_0_" + name, Tags: []string{name},
			},
			Protocol: "TCP", ProtocolPort: 80, ConnectionLimit: -1, DefaultPoolID: pool,
		}},
		Pools: []openstacktest.Pool{{
			OctaviaResource: openstacktest.OctaviaResource{ID: pool, Name: "pool_0_" + name},
			Protocol:        "TCP", LBAlgorithm: "ROUND_ROBIN",
		}},
	}
	for _, address := range members {
		lb.Pools[0].Members = append(lb.Pools[0].Members, openstacktest.Member{
			Address: address, ProtocolPort: 30080, Weight: 1, SubnetID: subnet,
		})
	}
	id = s.AddLoadBalancer(lb)
	made, err := s.LoadBalancer(id)
	if err != nil {
		s.t.Fatal(err)
	}
	s.AddFloatingIP(openstacktest.FloatingIP{
		NetworkID: s.external, PortID: made.VIPPortID,
		Description: "Floating IP for Kubernetes external service default/web from cluster " +
			"kubernetes",
	})
	return id
}

// leftAlone returns what another cluster has: its load balancer and floating IPs.
func (s *site) leftAlone(id string) []any {
	s.t.Helper()
	lb, err := s.LoadBalancer(id)
	if err != nil {
		s.t.Error(err)
	}
	found := []any{lb}
	for _, ip := range s.FloatingIPs() {
		if ip.PortID == lb.VIPPortID {
			found = append(found, ip)
		}
	}
	return found
}

// Two clusters of one name share a project. One of them is served by OCCM; the other has never
// been served. A user of the other one writes the annotations.
func TestOCCMsOfAnotherCluster_LooksLikeTheServices_IsLeftAlone(t *testing.T) {
	t.Parallel()
	elsewhere := func(s *site) string {
		network := s.AddNetwork(openstacktest.Network{Name: "theirs"})
		subnet := s.AddSubnet(openstacktest.Subnet{NetworkID: network, CIDR: "10.0.0.0/16"})
		s.AddRouter(openstacktest.Router{
			Name: "theirs", Subnets: []string{subnet}, ExternalNetworkID: s.external,
		})
		return subnet
	}
	const restored = "ac0ffee0000004000800000000000000000"
	named := func(_ *site, service *v1.Service, theirs string) {
		service.Annotations[settings.AnnotationLoadBalancerID] = theirs
	}
	for name, test := range map[string]struct {
		name    string
		subnet  func(*site) string
		members []string
		change  func(s *site, service *v1.Service, theirs string)
		// refused: the Service gets no load balancer.
		refused events.Reason
	}{
		"other nodes": {name: webName, members: []string{"10.0.9.1", "10.0.9.2"}},
		"other nodes, the name that holds the UID": {
			name: restored, members: []string{"10.0.9.1"},
		},
		"a node of the same address in another network": {
			name: webName, subnet: elsewhere, members: []string{"10.0.1.1", "10.0.9.2"},
		},
		"the Service requests its floating IP": {
			name: webName, members: []string{"10.0.9.1"},
			change: func(s *site, service *v1.Service, _ string) {
				service.Spec.LoadBalancerIP = s.FloatingIPs()[0].Address
			},
			refused: events.FloatingIPUnavailable,
		},
		"its ID is in the annotation": {
			name: webName, members: []string{"10.0.9.1"}, change: named,
			refused: events.OfOtherCluster,
		},
		"its ID is in the annotation, and none is allowed": {
			name: webName, members: []string{"10.0.9.1"},
			change: func(s *site, service *v1.Service, theirs string) {
				named(s, service, theirs)
				s.defaults.LoadBalancer.AllowedAnnotations = "none"
			},
			refused: events.OfOtherCluster,
		},
		"its ID is in the annotation, it is older and has no members": {
			name: webName,
			change: func(s *site, service *v1.Service, theirs string) {
				named(s, service, theirs)
				service.CreationTimestamp = metav1.NewTime(s.clock.Now().Add(time.Hour))
			},
			refused: events.OfOtherCluster,
		},
		"its ID is in the annotation, and it has a Service of the name as guest": {
			name: "kube_service_kubernetes_default_api", members: []string{"10.0.9.1"},
			change: func(s *site, service *v1.Service, theirs string) {
				named(s, service, theirs)
				if err := s.ChangeLoadBalancer(theirs, func(lb *openstacktest.LoadBalancer) {
					lb.Tags = append(lb.Tags, webName)
					lb.Listeners[0].Tags = []string{webName}
				}); err != nil {
					s.t.Fatal(err)
				}
			},
			refused: events.OfOtherCluster,
		},
		"its address is in the annotation": {
			name: webName, members: []string{"10.0.9.1"},
			change: func(s *site, service *v1.Service, _ string) {
				annotations("load-balancer-address", s.LoadBalancers()[0].VIPAddress)(service)
			},
		},
		"the address of its floating IP is in the annotation, and none is allowed": {
			name: webName, members: []string{"10.0.9.1"},
			change: func(s *site, service *v1.Service, _ string) {
				annotations("load-balancer-address", s.FloatingIPs()[0].Address)(service)
				s.defaults.LoadBalancer.AllowedAnnotations = "none"
			},
		},
	} {
		for _, nodes := range []string{"nodes are known", "no node is known"} {
			t.Run(name+", "+nodes, func(t *testing.T) {
				t.Parallel()
				s := newSite(t)
				node := s.addNode("a")
				service := s.addService("web", 80)
				occms := test.name
				if occms == restored {
					occms = identity("kubernetes", "", service).LegacyName()
				}
				subnet := s.subnet
				if test.subnet != nil {
					subnet = test.subnet(s)
				}
				theirs := s.addOCCMs(occms, subnet, test.members...)
				if test.change != nil {
					test.change(s, service, theirs)
					s.update(service)
				}
				want := s.leftAlone(theirs)
				if len(want) != 2 {
					t.Fatalf("the other cluster has %+v", want)
				}
				c := s.begin("cluster-1", s.kube)
				if nodes == "nodes are known" {
					s.register(node)
					c, _ = watched(t, s)
				}
				if test.refused != "" {
					c.wantRefused(test.refused, service, node)
				} else {
					c.ensure(service, node)
				}
				if got := s.leftAlone(theirs); !reflect.DeepEqual(got, want) {
					t.Errorf("the Service is served: the other cluster has %+v, want %+v", got, want)
				}
				wantOneWarning(t, s, theirs)
				c.remove(service)
				if got := s.leftAlone(theirs); !reflect.DeepEqual(got, want) {
					t.Errorf("the Service is deleted: the other cluster has %+v, want %+v", got,
						want)
				}
				if lbs := s.LoadBalancers(); len(lbs) != 1 {
					t.Errorf("%d load balancers are left, want that of the other cluster", len(lbs))
				}
			})
		}
	}
}

func wantOneWarning(t *testing.T, s *site, id string) {
	t.Helper()
	said := s.said("Warning " + string(events.OfOtherCluster))
	if len(said) != 1 || !strings.Contains(said[0], id) ||
		!strings.Contains(said[0], "add the tags") {
		t.Errorf("the warnings are %q, want one with the ID and the tags", said)
	}
}

// A Service that has a load balancer cannot take another cluster's by its ID, although both have
// the same address in different networks.
func TestOCCMsOfAnotherCluster_HasTheAddressOfTheServices_IsLeftAlone(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	node, service := s.addNode("a"), s.addService("web", 80)
	annotations("subnet-id", s.subnet)(service)
	service.Annotations["service.beta.kubernetes.io/openstack-internal-load-balancer"] = "true"
	s.update(service)
	c := s.begin("cluster-1", s.kube)
	status := c.ensure(service, node)
	network := s.AddNetwork(openstacktest.Network{Name: "theirs"})
	subnet := s.AddSubnet(openstacktest.Subnet{NetworkID: network, CIDR: "10.0.0.0/16"})
	theirs := s.AddLoadBalancer(openstacktest.LoadBalancer{
		OctaviaResource: openstacktest.OctaviaResource{Name: webName, Tags: []string{webName}},
		VIPSubnetID:     subnet, VIPAddress: status.Ingress[0].IP,
	})
	if err := c.forgetList(service.UID); err != nil {
		t.Fatal(err)
	}
	want := s.leftAlone(theirs)
	service = s.now(service)
	service.Annotations[settings.AnnotationLoadBalancerID] = theirs
	c.wantRefused(events.OfOtherCluster, service, node)
	c.remove(service)
	if got := s.leftAlone(theirs); !reflect.DeepEqual(got, want) {
		t.Errorf("the other cluster has %+v, want %+v", got, want)
	}
	if lbs := s.LoadBalancers(); len(lbs) != 1 {
		t.Errorf("%d load balancers are left, want that of the other cluster", len(lbs))
	}
}

// OCCM of the other cluster has kept a floating IP, or recreates its load balancer.
func TestOCCMsDetachedFloatingIP_OfAnotherCluster_IsNotDeleted(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		change func(service *v1.Service, address string)
		isUsed bool
	}{
		"nothing names it": {change: func(*v1.Service, string) {}},
		"its address is in the annotation": {change: func(service *v1.Service, address string) {
			annotations("load-balancer-address", address)(service)
		}},
		// Any Service may request an address that is not in use.
		"the Service requests its address": {func(service *v1.Service, address string) {
			service.Spec.LoadBalancerIP = address
		}, true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c, node := newCluster(t)
			s := c.site
			service := s.addService("web", 80)
			id := s.AddFloatingIP(openstacktest.FloatingIP{
				NetworkID:   s.external,
				Description: identity("kubernetes", "", service).FloatingIPDescription(),
			})
			theirs := s.FloatingIPs()[0]
			test.change(service, theirs.Address)
			s.update(service)
			status := c.ensure(service, node)
			if isUsed := status.Ingress[0].IP == theirs.Address; isUsed != test.isUsed {
				t.Errorf("the Service is served at %s, the other cluster has %s",
					status.Ingress[0].IP, theirs.Address)
			}
			c.ensure(service, node)
			c.remove(service)
			ips := s.FloatingIPs()
			if len(ips) != 1 || ips[0].ID != id || ips[0].PortID != "" || len(ips[0].Tags) > 0 {
				t.Errorf("the floating IPs are %+v, want a detached one without tags", ips)
			}
		})
	}
}

// The Service is deleted before it was served.
func TestOCCMsOfAnotherCluster_ServiceIsOnlyDeleted_StaysAndIsNamed(t *testing.T) {
	t.Parallel()
	for name, isWatched := range map[string]bool{
		"no node is known": false, "the nodes are others": true,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newSite(t)
			service := s.addService("web", 80)
			c := s.begin("cluster-1", s.kube)
			if isWatched {
				s.register(s.addNode("a"))
				c, _ = watched(t, s)
			}
			theirs := s.addOCCMs(webName, s.subnet, "10.0.9.1")
			want, mark := s.leftAlone(theirs), s.mark()
			c.remove(service)
			if err := c.EnsureLoadBalancerDeleted(t.Context(), "kubernetes", service); err != nil {
				t.Error(err)
			}
			if writes := s.writes(mark); len(writes) > 0 {
				t.Errorf("these requests change something: %q", writes)
			}
			if got := s.leftAlone(theirs); !reflect.DeepEqual(got, want) {
				t.Errorf("the other cluster has %+v, want %+v", got, want)
			}
			if said := s.said("Warning " + string(events.OfOtherCluster)); len(said) == 0 ||
				!strings.Contains(said[0], theirs) {
				t.Errorf("the warnings are %q, want one with the ID", said)
			}
		})
	}
}

// OCCM was stopped before it wrote the annotation, or after that.
func TestOCCMs_OfThisCluster_IsTakenOver(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		members []string
		change  func(*site, *v1.Service, *v1.Node)
	}{
		"no member yet":               {},
		"all nodes":                   {members: []string{"10.0.1.1"}},
		"one node of several is left": {members: []string{"10.0.9.1", "10.0.1.1"}},
		"the node is excluded from load balancers": {
			members: []string{"10.0.1.1"},
			change: func(_ *site, _ *v1.Service, node *v1.Node) {
				node.Labels = map[string]string{v1.LabelNodeExcludeBalancers: "true"}
			},
		},
		"no node is left, but the status has the floating IP": {
			members: []string{"10.0.9.1"},
			change: func(s *site, service *v1.Service, _ *v1.Node) {
				service.Status.LoadBalancer.Ingress = []v1.LoadBalancerIngress{
					{IP: s.FloatingIPs()[0].Address},
				}
			},
		},
		"no node is left, but the status has the VIP": {
			members: []string{"10.0.9.1"},
			change: func(s *site, service *v1.Service, _ *v1.Node) {
				service.Status.LoadBalancer.Ingress = []v1.LoadBalancerIngress{
					{IP: s.LoadBalancers()[0].VIPAddress},
				}
			},
		},
		"no node is left, but the operator has added the tags": {
			members: []string{"10.0.9.1"},
			change: func(s *site, service *v1.Service, _ *v1.Node) {
				if err := s.ChangeLoadBalancer(s.LoadBalancers()[0].ID,
					func(lb *openstacktest.LoadBalancer) {
						lb.Tags = append(lb.Tags,
							identity("kubernetes", "cluster-1", service).NetworkTags()...)
					}); err != nil {
					s.t.Fatal(err)
				}
			},
		},
	} {
		for annotation, isNamed := range map[string]bool{"": false, ", its ID is named": true} {
			t.Run(name+annotation, func(t *testing.T) {
				t.Parallel()
				s := newSite(t)
				node := s.addNode("a")
				service := s.addService("web", 80)
				ours := s.addOCCMs(webName, s.subnet, test.members...)
				if test.change != nil {
					test.change(s, service, node)
				}
				if isNamed {
					service.Annotations[settings.AnnotationLoadBalancerID] = ours
				}
				s.update(service)
				if _, err := s.kube.CoreV1().Services("default").UpdateStatus(t.Context(), service,
					metav1.UpdateOptions{}); err != nil {
					t.Fatal(err)
				}
				s.register(node)
				other := s.register(s.addNode("b"))
				c, _ := watched(t, s)
				c.ensure(service, other)
				if lbs := s.LoadBalancers(); len(lbs) != 1 || lbs[0].ID != ours {
					t.Errorf("the load balancers are %+v, want only OCCM's", lbs)
				}
				c.remove(service)
				if lbs, ips := s.LoadBalancers(), s.FloatingIPs(); len(lbs)+len(ips) > 0 {
					t.Errorf("%+v and %+v are left", lbs, ips)
				}
			})
		}
	}
}

// A load balancer that is being deleted has neither members nor a floating IP that prove anything.
func TestOCCMs_ServiceIsDeletedBeforeTheTakeover_NothingIsLeft(t *testing.T) {
	t.Parallel()
	s, _ := newTickingSite(t)
	service := s.addService("web", 80)
	ours := s.addOCCMs(webName, s.subnet, "10.0.9.1")
	service.Annotations[settings.AnnotationLoadBalancerID] = ours
	service.Status.LoadBalancer.Ingress = []v1.LoadBalancerIngress{
		{IP: s.FloatingIPs()[0].Address},
	}
	s.update(service)
	s.Provision(openstacktest.ProvisioningRule{
		LoadBalancer: webName, Times: 1, Duration: 2 * deleteTimeout,
	})
	s.begin("cluster-1", s.kube).remove(service)
	if lbs, ips := s.LoadBalancers(), s.FloatingIPs(); len(lbs)+len(ips) > 0 {
		t.Errorf("%+v and %+v are left", lbs, ips)
	}
	if said := s.said("Warning"); len(said) > 0 {
		t.Errorf("the warnings are %q", said)
	}
}

// While OCCM of the other cluster creates it, a load balancer has no members that show the cluster.
func TestOCCMsOfAnotherCluster_GetsItsMembersLate_IsLeftAlone(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	node, service := s.addNode("a"), s.addService("web", 80)
	c := s.begin("cluster-1", s.kube)
	theirs := s.addOCCMs(webName, s.subnet)
	if err := s.SetProvisioningStatus(theirs, openstacktest.StatusPendingCreate); err != nil {
		t.Fatal(err)
	}
	mark := s.mark()
	_, err := c.EnsureLoadBalancer(t.Context(), "kubernetes", service, []*v1.Node{node})
	if !isWait(err) {
		t.Errorf("while it is created, the error is %v, want one that waits", err)
	}
	if writes := s.writes(mark); len(writes) > 0 {
		t.Errorf("these requests change something: %q", writes)
	}
	if err := s.ChangeLoadBalancer(theirs, func(lb *openstacktest.LoadBalancer) {
		lb.Pools[0].Members = []openstacktest.Member{{
			Address: "10.0.9.1", ProtocolPort: 30080, Weight: 1, SubnetID: s.subnet,
		}}
	}); err != nil {
		t.Fatal(err)
	}
	if err := s.SetProvisioningStatus(theirs, openstacktest.StatusActive); err != nil {
		t.Fatal(err)
	}
	if err := c.forgetList(service.UID); err != nil {
		t.Fatal(err)
	}
	want := s.leftAlone(theirs)
	c.ensure(service, node)
	if got := s.leftAlone(theirs); !reflect.DeepEqual(got, want) {
		t.Errorf("the other cluster has %+v, want %+v", got, want)
	}
	if lbs := s.LoadBalancers(); len(lbs) != 2 || !slices.ContainsFunc(lbs,
		func(lb openstacktest.LoadBalancer) bool {
			return slices.Contains(lb.Tags, "fxccm-cluster=cluster-1")
		}) {
		t.Errorf("the load balancers are %+v, want another one", lbs)
	}
}
