package openstack_test

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/fxccm/fxccm/ccm/ccmtest"
	"github.com/fxccm/fxccm/provider/openstack/cloudconf"
	"github.com/fxccm/fxccm/provider/openstack/openstacktest"
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
	// No second pass changes anything, and waiting was no trouble.
	s.waitQuiet(loadBalancerChanges)
	if made := s.since(0, operations("loadbalancer_create", "floating_ip_create")); len(made) != 2 {
		t.Errorf("there were %d creations, want a load balancer and a floating IP:\n%s", len(made),
			describe(made))
	}
	if more := s.since(0,
		operations("loadbalancer_*_create", "loadbalancer_*update", "loadbalancer_*delete")); len(
		more) > 0 {
		t.Errorf("the load balancer was not made at once:\n%s", describe(more))
	}
	deleteService(t, shared.Client(t), "external")
	s.wantNothingLeft()
	wantNoWarnings(t, service)
	wantToldOnce(t, service)
	r.unbroken()
}

func TestLoadBalancer_Internal_IsServedByItsOwnAddress(t *testing.T) {
	besideOthers(t)
	s := newBalancedSite(t)
	machines := s.addNodes(shared.Client(t), "internal-1")
	serving(t, s)
	service := served(t, "internal", internal())
	lb := s.waitShape(service, s.usual(service, machines...))
	if got := service.Status.LoadBalancer.Ingress[0].IP; got != lb.VIPAddress ||
		service.Annotations[annotationAddress] != got {
		t.Errorf("the address is %s, and %q in the annotation; want the load balancer's own %s",
			got, service.Annotations[annotationAddress], lb.VIPAddress)
	}
	if ips := s.FloatingIPs(); len(ips) > 0 {
		t.Errorf("there are floating IPs: %v", ips)
	}
	deleteService(t, shared.Client(t), "internal")
	s.wantNothingLeft()
}

// Nothing is configured: the subnet is that of the nodes, and the network of floating IPs the one
// that is external.
func TestLoadBalancer_WithNothingConfigured_IsWhereTheNodesAre(t *testing.T) {
	besideOthers(t)
	s := newBalancedSite(t)
	machines := s.addNodes(shared.Client(t), "auto-1")
	serving(t, s,
		balancing(s, func(c *cloudconf.LoadBalancer) { c.SubnetID, c.FloatingNetworkID = "", "" }))
	service := served(t, "auto")
	lb := s.waitShape(service, s.usual(service, machines...))
	if ips := s.floatingIPs(lb); lb.VIPSubnetID != s.subnets[4] || len(ips) != 1 ||
		ips[0].NetworkID != s.public {
		t.Errorf("the load balancer is in subnet %s with %v", lb.VIPSubnetID, ips)
	}
}

func TestLoadBalancer_BeforeTheFirstNode_IsMade(t *testing.T) {
	besideOthers(t)
	s := newBalancedSite(t)
	serving(t, s)
	service := served(t, "nodeless")
	s.waitShape(service, s.usual(service))
	wantNoWarnings(t, service, "UnAvailableLoadBalancer")
}

func TestLoadBalancer_OfBothFamilies_HasTwoAddresses(t *testing.T) {
	besideOthers(t)
	s := newBalancedSite(t)
	s.dualStack()
	s.addNodes(shared.Client(t), "dual-lb-1")
	serving(t, s)
	service := served(t, "dual-lb", internal(), func(s *corev1.Service) {
		s.Spec.IPFamilyPolicy = ptr.To(corev1.IPFamilyPolicyPreferDualStack)
	})
	if len(service.Spec.IPFamilies) < 2 {
		t.Skipf("the cluster has the families %v alone", service.Spec.IPFamilies)
	}
	lb := s.balancerOf(service)
	if len(lb.AdditionalVIPs) != 1 || len(service.Status.LoadBalancer.Ingress) != 2 {
		t.Errorf("the load balancer has the addresses %s and %v, the status %+v", lb.VIPAddress,
			lb.AdditionalVIPs, service.Status.LoadBalancer.Ingress)
	}
}

func TestLoadBalancer_PortsComeGoAndChange(t *testing.T) {
	besideOthers(t)
	s := newBalancedSite(t)
	machines := s.addNodes(shared.Client(t), "ports-1", "ports-2")
	r := serving(t, s)
	service := served(t, "ports", ccmtest.ServicePorts(80))
	id := s.balancerOf(service).ID
	for _, step := range []struct {
		what string
		edit func(*corev1.Service)
	}{
		{"a port is added", ccmtest.ServicePorts(80, 443)},
		{"a UDP port of the same number", udpPort(443)},
		{"a port is removed", func(s *corev1.Service) { s.Spec.Ports = s.Spec.Ports[1:] }},
		{"a port has another number", func(s *corev1.Service) { s.Spec.Ports[0].Port = 8443 }},
		{"a port has another node port", func(s *corev1.Service) { s.Spec.Ports[0].NodePort = 30007 }},
		{"a port is UDP now", func(s *corev1.Service) { s.Spec.Ports[0].Protocol = corev1.ProtocolUDP }},
		{"two ports change places", func(s *corev1.Service) { slices.Reverse(s.Spec.Ports) }},
		{"there are others altogether", ccmtest.ServicePorts(1, 2, 3)},
	} {
		after := editService(t, "ports", step.edit)
		lb := s.waitShape(after, s.usual(after, machines...))
		if lb.ID != id {
			t.Fatalf("when %s the load balancer was made anew", step.what)
		}
	}
	wantNoWarnings(t, service)
	r.unbroken()
}

// Each annotation and field that can be changed is, and comes back, without another load balancer.
func TestLoadBalancer_WhatCanBeChangedIsChanged(t *testing.T) {
	besideOthers(t)
	onListener := func(has func(openstacktest.Listener) bool) func(openstacktest.LoadBalancer) bool {
		return func(lb openstacktest.LoadBalancer) bool {
			return len(lb.Listeners) == 1 && has(lb.Listeners[0])
		}
	}
	onPool := func(has func(openstacktest.Pool) bool) func(openstacktest.LoadBalancer) bool {
		return func(lb openstacktest.LoadBalancer) bool {
			return len(lb.Pools) == 1 && len(lb.Listeners) == 1 &&
				lb.Listeners[0].DefaultPoolID == lb.Pools[0].ID && has(lb.Pools[0])
		}
	}
	onMonitor := func(has func(openstacktest.HealthMonitor) bool) func(openstacktest.LoadBalancer) bool {
		return onPool(func(p openstacktest.Pool) bool {
			return p.Monitor != nil && has(*p.Monitor)
		})
	}
	monitored := func(name, value string) map[string]string {
		return map[string]string{
			annotation + "enable-health-monitor": "true",
			annotation + name:                    value,
		}
	}
	single := func(name, value string) map[string]string {
		return map[string]string{annotation + name: value}
	}
	s := newBalancedSite(t)
	container := s.AddContainer(openstacktest.Container{Name: "web", Secrets: map[string]string{
		"certificate": s.AddSecret(openstacktest.Secret{Name: "certificate"}),
		"private_key": s.AddSecret(openstacktest.Secret{Name: "key"}),
	}})
	s.addNodes(shared.Client(t), "changes-1", "changes-2")
	serving(t, s)
	for name, test := range map[string]struct {
		annotations map[string]string
		edit        func(*corev1.Service)
		has         func(openstacktest.LoadBalancer) bool
	}{
		"connection-limit": {single("connection-limit", "77"), nil, onListener(func(l openstacktest.Listener) bool { return l.ConnectionLimit == 77 })},
		"timeout-client-data": {
			single("timeout-client-data", "1001"), nil,
			onListener(func(l openstacktest.Listener) bool { return l.TimeoutClientData == 1001 }),
		},
		"timeout-member-connect": {
			single("timeout-member-connect", "1002"), nil,
			onListener(func(l openstacktest.Listener) bool {
				return l.TimeoutMemberConnect == 1002
			}),
		},
		"timeout-member-data": {
			single("timeout-member-data", "1003"), nil,
			onListener(func(l openstacktest.Listener) bool { return l.TimeoutMemberData == 1003 }),
		},
		"timeout-tcp-inspect": {
			single("timeout-tcp-inspect", "1004"), nil,
			onListener(func(l openstacktest.Listener) bool { return l.TimeoutTCPInspect == 1004 }),
		},
		"lb-method": {
			single("lb-method", "LEAST_CONNECTIONS"), nil,
			onPool(func(p openstacktest.Pool) bool {
				return p.LBAlgorithm == "LEAST_CONNECTIONS"
			}),
		},
		"proxy-protocol":    {single("proxy-protocol", "true"), nil, onPool(func(p openstacktest.Pool) bool { return p.Protocol == "PROXY" })},
		"proxy-protocol-v2": {single("proxy-protocol", "v2"), nil, onPool(func(p openstacktest.Pool) bool { return p.Protocol == "PROXYV2" })},
		"x-forwarded-for": {
			single("x-forwarded-for", "true"), nil,
			onListener(func(l openstacktest.Listener) bool {
				return l.Protocol == "HTTP" && l.InsertHeaders["X-Forwarded-For"] == "true"
			}),
		},
		"x-forwarded-port": {
			single("x-forwarded-port", "true"), nil,
			onListener(func(l openstacktest.Listener) bool {
				return l.InsertHeaders["X-Forwarded-Port"] == "true"
			}),
		},
		"x-forwarded-proto": {
			single("x-forwarded-proto", "true"), nil,
			onListener(func(l openstacktest.Listener) bool {
				return l.InsertHeaders["X-Forwarded-Proto"] == "true"
			}),
		},
		"listener-protocols": {single("listener-protocols", "80=HTTPS"), nil, onListener(func(l openstacktest.Listener) bool { return l.Protocol == "HTTPS" })},
		"default-tls-container-ref": {
			single("default-tls-container-ref", container), nil,
			onListener(func(l openstacktest.Listener) bool {
				return l.Protocol == "TERMINATED_HTTPS" && l.DefaultTLSContainerRef == container
			}),
		},
		"enable-health-monitor": {
			single("enable-health-monitor", "true"), nil,
			onMonitor(func(m openstacktest.HealthMonitor) bool { return m.Type == "TCP" }),
		},
		"health-monitor-delay": {
			monitored("health-monitor-delay", "9"), nil,
			onMonitor(func(m openstacktest.HealthMonitor) bool { return m.Delay == 9 }),
		},
		"health-monitor-timeout": {
			monitored("health-monitor-timeout", "4"), nil,
			onMonitor(func(m openstacktest.HealthMonitor) bool { return m.Timeout == 4 }),
		},
		"health-monitor-max-retries": {
			monitored("health-monitor-max-retries", "4"), nil,
			onMonitor(func(m openstacktest.HealthMonitor) bool { return m.MaxRetries == 4 }),
		},
		"health-monitor-max-retries-down": {
			monitored("health-monitor-max-retries-down", "5"), nil,
			onMonitor(func(m openstacktest.HealthMonitor) bool { return m.MaxRetriesDown == 5 }),
		},
		"node-selector": {single("node-selector",
			"kubernetes.io/hostname=changes-2"), nil, onPool(func(p openstacktest.Pool) bool {
			return len(p.Members) == 1 && p.Members[0].Name == "changes-2"
		})},
		"source-ranges-annotation": {
			map[string]string{annotationRanges: "198.51.100.0/24"},
			nil,
			onListener(func(l openstacktest.Listener) bool {
				return slices.Equal(l.AllowedCIDRs, []string{"198.51.100.0/24"})
			}),
		},
		"source-ranges": {nil, func(s *corev1.Service) {
			s.Spec.LoadBalancerSourceRanges = []string{"203.0.113.0/24"}
		}, onListener(func(l openstacktest.Listener) bool {
			return slices.Equal(l.AllowedCIDRs, []string{"203.0.113.0/24"})
		})},
		"session-affinity": {nil, func(s *corev1.Service) {
			s.Spec.SessionAffinity = corev1.ServiceAffinityClientIP
		}, onPool(func(p openstacktest.Pool) bool {
			return p.SessionPersistence != nil && p.SessionPersistence.Type == "SOURCE_IP"
		})},
		"traffic-policy": {single("enable-health-monitor", "true"), func(s *corev1.Service) {
			s.Spec.ExternalTrafficPolicy = corev1.ServiceExternalTrafficPolicyLocal
		}, onMonitor(func(m openstacktest.HealthMonitor) bool {
			return m.Type == "HTTP" && m.URLPath == "/healthz"
		})},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := s.in(t)
			service := served(t, "change-"+name)
			before := s.balancerOf(service)
			if test.has(before) {
				t.Fatal("it is so without having been asked for")
			}
			editService(t, service.Name, func(s *corev1.Service) {
				for key, value := range test.annotations {
					annotated(key, value)(s)
				}
				if test.edit != nil {
					test.edit(s)
				}
			})
			after := s.waitBalancer(before.ID, "the load balancer is changed",
				func(lb openstacktest.LoadBalancer) error {
					if !test.has(lb) {
						return fmt.Errorf("it is %s\n%+v", shape(lb), lb)
					}
					return nil
				})
			if len(s.floatingIPs(after)) != 1 {
				t.Errorf("%d floating IPs lead to the load balancer", len(s.floatingIPs(after)))
			}
			editService(t, service.Name, func(s *corev1.Service) {
				for key := range test.annotations {
					delete(s.Annotations, key)
				}
				s.Spec.LoadBalancerSourceRanges = nil
				s.Spec.SessionAffinity, s.Spec.SessionAffinityConfig = corev1.ServiceAffinityNone,
					nil
				s.Spec.ExternalTrafficPolicy = corev1.ServiceExternalTrafficPolicyCluster
			})
			s.waitBalancer(before.ID, "the change is taken back",
				func(lb openstacktest.LoadBalancer) error {
					if got, want := shape(lb), shape(before); got != want {
						return fmt.Errorf("it is\n%s\nand was\n%s", got, want)
					}
					return nil
				})
			wantNoWarnings(t, service)
		})
	}
}

func TestLoadBalancer_WhatIsShownOfIt_FollowsTheAnnotations(t *testing.T) {
	besideOthers(t)
	s := newBalancedSite(t)
	s.addNodes(shared.Client(t), "shown-1")
	serving(t, s)
	service := served(t, "shown")
	address := service.Status.LoadBalancer.Ingress[0].IP
	for _, step := range []struct {
		name, value string
		want        corev1.LoadBalancerIngress
	}{
		{"hostname", "web.example.org", corev1.LoadBalancerIngress{Hostname: "web.example.org"}},
		{"hostname", "", corev1.LoadBalancerIngress{IP: address, IPMode: ptr.To(corev1.LoadBalancerIPModeVIP)}},
		{"proxy-protocol", "v2", corev1.LoadBalancerIngress{IP: address, IPMode: ptr.To(corev1.LoadBalancerIPModeProxy)}},
	} {
		annotateService(t, service.Name, annotation+step.name, step.value)
		ccmtest.WaitService(t, shared.Client(t), "default", service.Name,
			fmt.Sprintf("the status with %s %q is %+v", step.name, step.value, step.want),
			func(s *corev1.Service) error {
				in := s.Status.LoadBalancer.Ingress
				if len(in) != 1 || in[0].Hostname != step.want.Hostname ||
					in[0].IP != step.want.IP ||
					!ptr.Equal(in[0].IPMode, step.want.IPMode) {
					return fmt.Errorf("it is %+v", in)
				}
				return nil
			})
	}
}

func TestLoadBalancer_FromExternalToInternalAndBack(t *testing.T) {
	besideOthers(t)
	s := newBalancedSite(t)
	s.addNodes(shared.Client(t), "inout-1")
	serving(t, s)
	service := served(t, "inout")
	lb := s.balancerOf(service)
	waitAddress := func(want func(string) bool) {
		t.Helper()
		ccmtest.WaitService(t, shared.Client(t), "default", "inout", "the address follows",
			func(s *corev1.Service) error {
				if in := s.Status.LoadBalancer.Ingress; len(in) != 1 || !want(in[0].IP) ||
					s.Annotations[annotationAddress] != in[0].IP {
					return fmt.Errorf("the status is %+v, the annotations %v", in, s.Annotations)
				}
				return nil
			})
	}
	annotateService(t, "inout", annotationInternal, "true")
	waitAddress(func(ip string) bool { return ip == lb.VIPAddress })
	if ips := s.FloatingIPs(); len(ips) > 0 {
		t.Errorf("an internal load balancer has %v", ips)
	}
	annotateService(t, "inout", annotationInternal, "false")
	waitAddress(func(ip string) bool { return strings.HasPrefix(ip, "192.0.2.") })
	if s.balancerOf(getService(t, shared.Client(t), "inout")).ID != lb.ID {
		t.Error("the load balancer was made anew")
	}
}

func TestLoadBalancer_WhenItsTypeChanges_IsDeletedAndMadeAnew(t *testing.T) {
	besideOthers(t)
	s := newBalancedSite(t)
	machines := s.addNodes(shared.Client(t), "typed-1")
	serving(t, s, balancing(s, func(c *cloudconf.LoadBalancer) { c.ManageSecurityGroups = true }))
	service := served(t, "typed")
	first := s.waitShape(service, s.usual(service, machines...))
	editService(t, "typed", func(s *corev1.Service) { s.Spec.Type = corev1.ServiceTypeClusterIP })
	ccmtest.WaitService(t, shared.Client(t), metav1.NamespaceDefault, "typed",
		"the finalizer and the annotations are gone", func(s *corev1.Service) error {
			if hasFinalizer(s) || s.Annotations[annotationID] != "" ||
				s.Annotations[annotationAddress] != "" || len(s.Status.LoadBalancer.Ingress) > 0 {
				return fmt.Errorf("it has %v, %v and %+v", s.Finalizers, s.Annotations, s.Status)
			}
			return nil
		})
	s.wantNothingLeft()
	editService(t, "typed",
		func(s *corev1.Service) { s.Spec.Type = corev1.ServiceTypeLoadBalancer })
	service = waitServed(t, shared.Client(t), "typed")
	if second := s.waitShape(service, s.usual(service, machines...)); second.ID == first.ID {
		t.Error("the load balancer is the old one")
	}
	deleteService(t, shared.Client(t), "typed")
	s.wantNothingLeft()
}

// The load balancer is deleted by somebody else before the Service is: what belongs to it goes all
// the same.
func TestLoadBalancer_DeletedBeforeItsService_LeavesNothing(t *testing.T) {
	besideOthers(t)
	s := newBalancedSite(t)
	s.addNodes(shared.Client(t), "gone-before-1")
	serving(t, s, balancing(s, func(c *cloudconf.LoadBalancer) { c.ManageSecurityGroups = true }))
	service := served(t, "gone-before")
	if len(s.groups()) != 1 {
		t.Fatalf("there are the security groups %v", s.groups())
	}
	s.must(s.DeleteLoadBalancer(s.balancerOf(service).ID))
	deleteService(t, shared.Client(t), "gone-before")
	s.wantNothingLeft()
}

func TestLoadBalancer_KeptFloatingIP_IsOnlyDetached(t *testing.T) {
	besideOthers(t)
	s := newBalancedSite(t)
	s.addNodes(shared.Client(t), "kept-1")
	serving(t, s)
	service := served(t, "kept", annotated(annotation+"keep-floatingip", "true"))
	address := service.Status.LoadBalancer.Ingress[0].IP
	deleteService(t, shared.Client(t), "kept")
	ips := s.FloatingIPs()
	if len(ips) != 1 || ips[0].Address != address || ips[0].PortID != "" {
		t.Fatalf("the floating IPs are %+v, want %s, without a port", ips, address)
	}
	if len(s.LoadBalancers()) > 0 {
		t.Errorf("there are load balancers: %v", s.LoadBalancers())
	}
	// Another Service may ask for it.
	next := served(t, "kept-again", func(s *corev1.Service) { s.Spec.LoadBalancerIP = address })
	if got := next.Status.LoadBalancer.Ingress[0].IP; got != address {
		t.Errorf("the address is %s, want %s, which was asked for", got, address)
	}
}

// A security group opens the node ports, on the ports of the members alone.
func TestLoadBalancer_SecurityGroup_FollowsThePorts(t *testing.T) {
	besideOthers(t)
	s := newBalancedSite(t)
	machines := s.addNodes(shared.Client(t), "group-1", "group-2")
	bystander := s.addServer("group-bystander")
	serving(t, s, balancing(s, func(c *cloudconf.LoadBalancer) { c.ManageSecurityGroups = true }))
	service := served(t, "group", ccmtest.ServicePorts(80))
	s.waitGroup(service, machines...)
	if want := "lb-sg-" + string(service.UID) + "-default-group"; s.groups()[0].Name != want {
		t.Errorf("the security group is named %q, want %q", s.groups()[0].Name, want)
	}
	after := editService(t, "group", ccmtest.ServicePorts(80, 443))
	s.waitGroup(after, machines...)
	if bears := s.bearers(s.groups()[0].ID); slices.Contains(bears, bystander.port) {
		t.Error("a server that is no member bears the security group")
	}
	deleteService(t, shared.Client(t), "group")
	s.wantNothingLeft()
}

// bearers are the ports that bear the security group.
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

// waitGroup waits until the Service's security group opens its node ports, and just the machines'
// ports bear it.
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
