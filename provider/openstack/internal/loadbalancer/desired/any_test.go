package desired

import (
	"fmt"
	"math/rand/v2"
	"net/netip"
	"reflect"
	"slices"
	"strconv"
	"testing"

	v1 "k8s.io/api/core/v1"

	"github.com/fxccm/fxccm/provider/openstack/internal/loadbalancer/neutron"
	"github.com/fxccm/fxccm/provider/openstack/internal/loadbalancer/octavia"
	"github.com/fxccm/fxccm/provider/openstack/internal/loadbalancer/settings"
)

// choices builds an Input from bytes: each byte chooses one of some values. After the last byte the
// first value is chosen.
type choices []byte

func (c *choices) below(n int) int {
	if len(*c) == 0 {
		return 0
	}
	chosen := int((*c)[0]) % n
	*c = (*c)[1:]
	return chosen
}

func (c *choices) yes() bool { return c.below(2) == 1 }

// rarely is for choices that usually lead to an error, so that most Inputs have none.
func (c *choices) rarely() bool { return c.below(16) == 15 }

func one[T any](c *choices, of ...T) T { return of[c.below(len(of))] }

func some[T any](c *choices, of ...T) (chosen []T) {
	for range c.below(5) {
		chosen = append(chosen, one(c, of...))
	}
	return chosen
}

func anyInput(data []byte) Input {
	c := choices(data)
	in := given()
	in.Features = FeaturesOf(one(&c, "amphora", "amphora", "f5", octavia.ProviderOVN),
		one(&c, 27, 15, 11, 0), c.yes())
	in.LoadBalancerName = one(&c, "", "kube_service_kubernetes_shop_web", "my own")
	in.Guest, in.HasFloatingIP = c.yes(), c.yes()
	anySpec(&c, &in.Service.Spec)
	in.Settings = anySettings(&c, in.Settings)
	in.Places.VIP = one(&c, octavia.VIP{SubnetID: "s"}, octavia.VIP{NetworkID: "n"},
		octavia.VIP{})
	if c.yes() {
		in.Places.AdditionalVIPs = []octavia.VIP{{SubnetID: "second"}}
	}
	in.Places.Member.Subnet = one(&c, in.Places.Member.Subnet,
		neutron.Subnet{ID: "s6", CIDR: "fd00::/64"})
	if c.rarely() {
		in.Places.Member.Subnet = one(&c, neutron.Subnet{}, neutron.Subnet{ID: "x", CIDR: "x"})
	}
	in.Places.FloatingNetworkID = one(&c, "public", "")
	in.Nodes = nil
	for i := range c.below(8) {
		in.Nodes = append(in.Nodes, Node{Node: anyNode(&c, i), Draining: c.yes()})
	}
	return in
}

func anySpec(c *choices, spec *v1.ServiceSpec) {
	spec.IPFamilies = one(c, []v1.IPFamily{v1.IPv4Protocol}, []v1.IPFamily{v1.IPv6Protocol},
		[]v1.IPFamily{v1.IPv4Protocol, v1.IPv6Protocol},
		[]v1.IPFamily{v1.IPv6Protocol, v1.IPv4Protocol}, nil)
	if c.yes() {
		policy := v1.IPFamilyPolicyRequireDualStack
		spec.IPFamilyPolicy = &policy
	}
	spec.SessionAffinity = one(c, v1.ServiceAffinityNone, v1.ServiceAffinityClientIP, "x")
	spec.ExternalTrafficPolicy = one(c, v1.ServiceExternalTrafficPolicyCluster,
		v1.ServiceExternalTrafficPolicyLocal)
	spec.HealthCheckNodePort = one(c, int32(0), 31000, -1)
	spec.Ports = nil
	for i := range 1 + c.below(4) {
		spec.Ports = append(spec.Ports, v1.ServicePort{
			Name:     fmt.Sprint("p", i),
			Protocol: one(c, v1.ProtocolTCP, v1.ProtocolUDP, v1.ProtocolSCTP, ""),
			Port:     int32(80 + i), NodePort: one(c, int32(30080+i), 0),
		})
	}
	if c.rarely() {
		spec.Ports[0].Protocol = "x"
	}
	if c.rarely() {
		spec.Ports = nil
	}
}

func anySettings(c *choices, s settings.Settings) settings.Settings {
	s.Internal, s.Monitor, s.ManageSecurityGroups = c.yes(), c.yes(), c.yes()
	s.XForwardedFor, s.XForwardedPort, s.XForwardedProto = c.yes(), c.rarely(), c.rarely()
	if c.rarely() {
		s.Address = one(c, "10.0.0.9", "fd00::9", "x")
	}
	s.ProxyProtocol = one(c, "", octavia.Proxy, octavia.ProxyV2)
	s.TLSContainer = one(c, "", certificate)
	s.PortID, s.SubnetID, s.NetworkID = one(c, "", "p"), one(c, "", "s"), one(c, "", "n")
	s.FlavorID, s.AvailabilityZone = one(c, "", "f"), one(c, "", "z")
	s.Algorithm = one(c, "", "LEAST_CONNECTIONS", "SOURCE_IP_PORT")
	s.SourceRanges = some(c, "10.0.0.0/8", "192.0.2.0/24", "0.0.0.0/0", "fd00::/8", "::/0")
	if c.rarely() {
		s.SourceRanges = append(s.SourceRanges, "x")
	}
	s.NodeSelector = settings.ParseNodeSelector(one(c, "", "", "edge", "edge=yes"))
	s.ListenerProtocols = settings.ListenerProtocols{}
	if c.below(4) == 3 {
		s.ListenerProtocols[one(c, "p0", "p1", "p2")] = one(c, "TCP", "HTTP", "HTTPS",
			"TERMINATED_HTTPS", "UDP", "x")
	}
	return s
}

func anyNode(c *choices, i int) *v1.Node {
	n := node(one(c, "n", "m")+strconv.Itoa(i),
		some(c, "10.0.0.1", "10.0.0.2", "10.0.0.3", "fd00::1", "FD00:0::1", "fd00::2",
			"ExternalIP:192.0.2.1", "Hostname:x", "x", "")...)
	n.Spec.ProviderID = one(c, n.Spec.ProviderID, "", "x")
	if c.yes() {
		n.Labels = map[string]string{"edge": one(c, "yes", "no")}
	}
	return n
}

func shuffled(in Input, seed uint64) Input {
	in.Nodes = slices.Clone(in.Nodes)
	rand.New(rand.NewPCG(seed, 0)).Shuffle(len(in.Nodes),
		func(i, j int) { in.Nodes[i], in.Nodes[j] = in.Nodes[j], in.Nodes[i] })
	return in
}

func TestBuild_WhateverTheInput(t *testing.T) {
	t.Parallel()
	random := rand.New(rand.NewPCG(1, 2))
	data, served := make([]byte, 120), 0
	for range 2000 {
		for i := range data {
			data[i] = byte(random.Uint32())
		}
		if checkBuild(t, data) {
			served++
		}
	}
	if served < 500 {
		t.Errorf("only %d of the inputs could be served: too few for a test", served)
	}
}

func FuzzBuild(f *testing.F) {
	f.Add([]byte{})
	f.Add([]byte("a load balancer of many kinds of bytes, to begin with something"))
	f.Fuzz(func(t *testing.T, data []byte) { checkBuild(t, data) })
}

// checkBuild checks the properties of every Input, and reports whether it could be served.
func checkBuild(t *testing.T, data []byte) bool {
	in := anyInput(data)
	d, notices, err := Build(in)
	if !reflect.DeepEqual(in, anyInput(data)) {
		t.Errorf("the input was changed: %+v", in)
	}
	again, noticesAgain, errAgain := Build(shuffled(in, uint64(len(data))))
	if !reflect.DeepEqual(d, again) || !reflect.DeepEqual(notices, noticesAgain) ||
		fmt.Sprint(err) != fmt.Sprint(errAgain) || d.Hash() != again.Hash() {
		t.Errorf("the second result differs: %+v, %+v, %v\n%+v, %+v, %v", d, notices, err, again,
			noticesAgain, errAgain)
	}
	if err != nil {
		if !reflect.DeepEqual(d, State{}) {
			t.Errorf("error %v with a result %+v", err, d)
		}
		return false
	}
	checkMembers(t, d)
	checkProtocols(t, in, d)
	checkAccess(t, in, d)
	return true
}

func checkMembers(t *testing.T, d State) {
	backends := map[string]string{}
	served := 0
	for _, b := range d.Backends {
		backends[b.Address] = b.Node
		if !b.Draining || d.Features.Weights {
			served++
		}
	}
	for _, port := range d.Ports {
		keys := map[octavia.MemberKey]bool{}
		for _, m := range port.Pool.Members {
			address, err := netip.ParseAddr(m.Address)
			key := octavia.MemberKey{Address: address.String(), Port: m.Port}
			if err != nil || keys[key] || backends[m.Address] == "" || m.Port == 0 ||
				m.Weight < 0 || m.Weight > 1 {
				t.Errorf("%s: member %+v among %+v", port.Name, m, port.Pool.Members)
			}
			keys[key] = true
		}
		if n := len(port.Pool.Members); n != 0 && n != served {
			t.Errorf("%s: %d members of %d backends", port.Name, n, served)
		}
	}
	if !slices.IsSortedFunc(d.Backends, func(a, b Backend) int {
		return slices.Compare([]string{a.Node, a.Address}, []string{b.Node, b.Address})
	}) {
		t.Errorf("backends out of order: %+v", d.Backends)
	}
}

// checkProtocols checks the pairs of protocols that Octavia accepts
// (VALID_LISTENER_POOL_PROTOCOL_MAP of octavia/common/constants.py), and the protocols that ovn
// accepts.
func checkProtocols(t *testing.T, in Input, d State) {
	pools := map[string][]string{
		"TCP": {"TCP", "PROXY", "PROXYV2"}, "HTTP": {"HTTP", "PROXY", "PROXYV2"}, "TERMINATED_HTTPS": {"HTTP", "PROXY", "PROXYV2"},
		"HTTPS": {"HTTPS", "PROXY", "PROXYV2"}, "UDP": {"UDP"}, "SCTP": {"SCTP"},
	}
	for i, port := range d.Ports {
		l, p := port.Listener, port.Pool
		if !slices.Contains(pools[l.Protocol], p.Protocol) {
			t.Errorf("%s: a %s pool for a %s listener", port.Name, p.Protocol, l.Protocol)
		}
		if (l.TLSContainer != "") != (l.Protocol == "TERMINATED_HTTPS") {
			t.Errorf("%s: a %s listener with certificate %q", port.Name, l.Protocol, l.TLSContainer)
		}
		if len(l.InsertHeaders) > 0 && !isHTTP(l.Protocol) {
			t.Errorf("%s: a %s listener with headers", port.Name, l.Protocol)
		}
		of := in.Service.Spec.Ports[i]
		if asked := in.Settings.ListenerProtocols.Of(of); in.Settings.TLSContainer != "" &&
			asked == "" && l.Key().Transport == "TCP" && l.Protocol != "TERMINATED_HTTPS" {
			t.Errorf("%s: %s in clear, want encryption", port.Name, l.Protocol)
		}
		if !in.Features.HTTP && !slices.Contains([]string{"TCP", "UDP", "SCTP"}, p.Protocol) {
			t.Errorf("%s: ovn gets %s", port.Name, p.Protocol)
		}
	}
}

func checkAccess(t *testing.T, in Input, d State) {
	asked := in.Settings.SourceRanges
	for _, port := range d.Ports {
		cidrs := port.Listener.AllowedCIDRs
		if (len(cidrs) > 0) != in.Features.AllowedCIDRs {
			t.Errorf("%s: allowed_cidrs %q, supported: %t", port.Name, cidrs,
				in.Features.AllowedCIDRs)
		}
		for _, cidr := range cidrs {
			if asked != nil && !slices.Contains(asked, cidr) {
				t.Errorf("%s: %s is admitted, want only %q", port.Name, cidr, asked)
			}
		}
	}
	if d.SecurityGroup == nil || !in.Features.KeepsClientAddress {
		return
	}
	for _, rule := range d.SecurityGroup.Rules {
		if asked != nil && !slices.Contains(asked, rule.RemotePrefix) &&
			rule.PortMin != int(in.Service.Spec.HealthCheckNodePort) {
			t.Errorf("rule %+v, want only %q admitted", rule, asked)
		}
	}
}
