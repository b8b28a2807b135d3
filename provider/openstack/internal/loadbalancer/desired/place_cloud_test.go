package desired

import (
	"maps"
	"strings"
	"testing"
	"time"

	"github.com/go-logr/logr/testr"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clocktesting "k8s.io/utils/clock/testing"

	"github.com/fxccm/fxccm/provider/openstack/internal/events"
	"github.com/fxccm/fxccm/provider/openstack/internal/loadbalancer/neutron"
	"github.com/fxccm/fxccm/provider/openstack/internal/loadbalancer/octavia"
	"github.com/fxccm/fxccm/provider/openstack/internal/loadbalancer/settings"
	"github.com/fxccm/fxccm/provider/openstack/internal/simclient"
	"github.com/fxccm/fxccm/provider/openstack/openstacktest"
)

var _ Cloud = (*neutron.API)(nil)

// site is a cloud with a dual-stack network of nodes, another network for load balancers, and an
// external network.
type site struct {
	*openstacktest.Cloud
	t     *testing.T
	api   *neutron.API
	clock *clocktesting.FakePassiveClock

	nodes, v4, v6    string
	front, frontV4   string
	external, public string
}

func newSite(t *testing.T, options ...openstacktest.Option) *site {
	t.Helper()
	s := &site{
		Cloud: openstacktest.NewCloud(options...), t: t,
		clock: clocktesting.NewFakePassiveClock(time.Now()),
	}
	t.Cleanup(s.Close)
	s.nodes = s.AddNetwork(openstacktest.Network{Name: "nodes"})
	s.v4 = s.AddSubnet(openstacktest.Subnet{NetworkID: s.nodes, CIDR: "10.0.0.0/16"})
	s.v6 = s.AddSubnet(openstacktest.Subnet{NetworkID: s.nodes, CIDR: "fd00::/64"})
	s.front = s.AddNetwork(openstacktest.Network{Name: "front"})
	s.frontV4 = s.AddSubnet(openstacktest.Subnet{NetworkID: s.front, CIDR: "172.16.0.0/24"})
	s.external = s.AddNetwork(openstacktest.Network{Name: "public", External: true, Shared: true})
	s.public = s.AddSubnet(openstacktest.Subnet{
		Name: "public-1", NetworkID: s.external,
		CIDR: "203.0.113.0/24", Tags: []string{"alice", "bob"},
	})
	clients := simclient.Login(t, s.Credentials(), nil)
	s.api = neutron.New(neutron.Config{
		Client: clients.Network, Project: clients.Project, Clock: s.clock, Logger: testr.New(t),
	})
	t.Cleanup(s.api.Close)
	s.ForgetCalls()
	return s
}

// addNode adds a server with the addresses, and returns its node.
func (s *site) addNode(name string, addresses ...string) *v1.Node {
	s.t.Helper()
	p := openstacktest.Port{
		NetworkID: s.nodes, DeviceID: "server-of-" + name,
		DeviceOwner: openstacktest.OwnerCompute,
	}
	for _, address := range addresses {
		subnet := s.v4
		if strings.Contains(address, ":") {
			subnet = s.v6
		}
		p.FixedIPs = append(p.FixedIPs, openstacktest.FixedIP{SubnetID: subnet, Address: address})
	}
	s.AddPort(p)
	return serverNode(name, addresses...)
}

func serverNode(name string, addresses ...string) *v1.Node {
	n := &v1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{}},
		Spec:       v1.NodeSpec{ProviderID: "openstack:///server-of-" + name},
	}
	for _, address := range addresses {
		n.Status.Addresses = append(n.Status.Addresses,
			v1.NodeAddress{Type: v1.NodeInternalIP, Address: address})
	}
	return n
}

// service returns a Service of these families, dual-stack by preference if there are two.
func service(families ...v1.IPFamily) *v1.Service {
	policy := v1.IPFamilyPolicySingleStack
	if len(families) == 2 {
		policy = v1.IPFamilyPolicyPreferDualStack
	}
	return &v1.Service{Spec: v1.ServiceSpec{IPFamilies: families, IPFamilyPolicy: &policy}}
}

// lookup holds the arguments of [Resolve] and the parts of an Input that places depend on.
type lookup struct {
	Settings             settings.Settings
	Service              *v1.Service
	Nodes                []*v1.Node
	Existing             *octavia.LoadBalancer
	Guest                bool
	HasFloatingIP        bool
	IsFloatingIPAttached bool
	Features             Features
}

func (s *site) resolve(in lookup) (Places, []events.Notice, error) {
	s.t.Helper()
	if in.Service == nil {
		in.Service = service(v1.IPv4Protocol)
	}
	s.ForgetCalls()
	return Resolve(s.t.Context(), s.api, Input{
		Settings: in.Settings, Service: in.Service, Nodes: Candidates(in.Nodes, nil, nil, nil),
		Features: in.Features,
		Guest:    in.Guest, HasFloatingIP: in.HasFloatingIP,
		IsFloatingIPAttached: in.IsFloatingIPAttached,
	}, in.Existing)
}

func (s *site) mustResolve(in lookup) Places {
	s.t.Helper()
	found, notices, err := s.resolve(in)
	if err != nil || len(notices) > 0 {
		s.t.Fatalf("notices %v, error %v", notices, err)
	}
	return found
}

func (s *site) wantCalls(want map[string]int) {
	s.t.Helper()
	if got := s.Counts(); !maps.Equal(got, want) {
		s.t.Errorf("calls %v, want %v", got, want)
	}
}

// existingIn returns a load balancer in the subnet.
func existingIn(subnet, network string) *octavia.LoadBalancer {
	return &octavia.LoadBalancer{
		ID: "lb",
		VIP: octavia.VIP{
			Address: "10.0.0.99", PortID: "vip", SubnetID: subnet,
			NetworkID: network,
		},
	}
}
