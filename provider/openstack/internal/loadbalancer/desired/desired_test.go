package desired

import (
	"reflect"
	"testing"

	v1 "k8s.io/api/core/v1"

	"github.com/fxccm/fxccm/provider/openstack/internal/loadbalancer/neutron"
	"github.com/fxccm/fxccm/provider/openstack/internal/loadbalancer/octavia"
	"github.com/fxccm/fxccm/provider/openstack/internal/loadbalancer/settings"
)

func TestBuild_PlainService_IsAsOCCMMakesIt(t *testing.T) {
	t.Parallel()
	d, notices := build(t, withProtocols(v1.ProtocolTCP, v1.ProtocolUDP))
	wantTold(t, notices)
	id := given().Identity
	description := "Kubernetes external service shop/web from cluster kubernetes"
	tags := []string{
		"kube_service_kubernetes_shop_web", "fxccm-cluster=" + clusterUID,
		"fxccm-service=" + serviceUID,
	}
	port := func(name, index, protocol string, number, nodePort int) octavia.Port {
		return octavia.Port{
			Name: name,
			Listener: octavia.Listener{
				Name: "listener_" + index + "_kube_service_kubernetes_shop_web", Tags: tags,
				Protocol: protocol, Port: number,
				ConnectionLimit: -1,
				Timeouts: &octavia.Timeouts{
					ClientData: 50000, MemberConnect: 5000,
					MemberData: 50000,
				},
				AllowedCIDRs: []string{"0.0.0.0/0"},
			},
			Pool: octavia.Pool{
				Name: "pool_" + index + "_kube_service_kubernetes_shop_web", Protocol: protocol,
				Algorithm: "ROUND_ROBIN",
				Members: []octavia.Member{
					{Name: "n1", Address: "10.0.0.1", Port: nodePort, SubnetID: "member subnet", Weight: 1},
					{Name: "n2", Address: "10.0.0.2", Port: nodePort, SubnetID: "member subnet", Weight: 1},
				},
			},
		}
	}
	want := State{
		Identity: id,
		LoadBalancer: octavia.LoadBalancer{
			Name: "kube_service_kubernetes_shop_web", Description: description, Tags: tags,
			VIP: octavia.VIP{SubnetID: "vip subnet"},
		},
		Ports: []octavia.Port{
			port("80/TCP", "0", "TCP", 80, 30080),
			port("81/UDP", "1", "UDP", 81, 30081),
		},
		FloatingIP: &neutron.WantedFloatingIP{
			NetworkID: "public", Description: "Floating IP for " + description, Tags: tags[1:],
		},
		Backends: []Backend{
			{Node: "n1", Address: "10.0.0.1", SubnetID: "member subnet", ServerID: serverOf("n1")},
			{Node: "n2", Address: "10.0.0.2", SubnetID: "member subnet", ServerID: serverOf("n2")},
		},
		Features: latest(),
		Cascade:  true,
	}
	if !reflect.DeepEqual(d, want) {
		t.Errorf("desired\n%+v, want\n%+v", d, want)
	}
}

func TestBuild_WhatTheOperatorAndTheUserSayOfTheWhole(t *testing.T) {
	t.Parallel()
	d, _ := build(t, withSettings(func(s *settings.Settings) {
		s.KeepFloatingIP, s.Recreate, s.CascadeDelete = true, true, false
	}))
	if !d.KeepFloatingIP || !d.Recreate || d.Cascade {
		t.Errorf("keep, recreate, cascade: %t, %t, %t", d.KeepFloatingIP, d.Recreate, d.Cascade)
	}
}

func TestBuild_NoPorts_IsRefused(t *testing.T) { refused(t, withPorts()) }

// The features follow from the load balancer's real provider, not from the configured one.
func TestRealProvider_Decides(t *testing.T) {
	t.Parallel()
	asked := withSettings(func(s *settings.Settings) { s.Provider, s.Monitor = "amphora", true })
	d, _ := build(t, asked, withFeatures(ovn()), withLocal)
	port := d.Ports[0]
	if port.Listener.AllowedCIDRs != nil || port.Listener.Timeouts != nil ||
		port.Pool.Algorithm != "SOURCE_IP_PORT" || port.Pool.Monitor.Type != "TCP" {
		t.Errorf("an ovn load balancer uses features that ovn lacks: %+v", port)
	}
	if d.LoadBalancer.Provider != "amphora" {
		t.Errorf("provider %q is not compared with the real one", d.LoadBalancer.Provider)
	}
	asked = withSettings(func(s *settings.Settings) { s.Provider, s.Monitor = "ovn", true })
	d, _ = build(t, asked, withLocal)
	if port = d.Ports[0]; port.Listener.AllowedCIDRs == nil || port.Listener.Timeouts == nil ||
		port.Pool.Algorithm != "ROUND_ROBIN" || port.Pool.Monitor.Type != "HTTP" {
		t.Errorf("an amphora does not use its features: %+v", port)
	}
}

func TestBuild_OldAPI_UnknownFieldsAreOmitted(t *testing.T) {
	t.Parallel()
	d, _ := build(t, withFeatures(FeaturesOf("amphora", 0, false)))
	l := d.Ports[0].Listener
	if d.LoadBalancer.Tags != nil || l.Tags != nil || l.Timeouts != nil || l.AllowedCIDRs != nil {
		t.Errorf("%+v, %+v", d.LoadBalancer, l)
	}
	if l.Protocol != "TCP" || d.Ports[0].Pool.Members[0].Weight != 1 {
		t.Errorf("%+v", d.Ports[0])
	}
}

// The owner's load balancer may have been created under another cluster name. A guest's children
// are named after its own Service: OCCM recognizes its own by that, and would rename the monitors.
func TestBuild_ExistingLoadBalancer_ItsChildrenBearTheOwnersNameOrTheGuests(t *testing.T) {
	t.Parallel()
	const elsewhere, own = "kube_service_former_shop_web", "kube_service_kubernetes_shop_web"
	for _, guest := range []bool{false, true} {
		d, _ := build(t, withMonitor,
			func(in *Input) { in.LoadBalancerName, in.Guest = elsewhere, guest })
		name := elsewhere
		if guest {
			name = own
		}
		port := d.Ports[0]
		if port.Listener.Name != "listener_0_"+name || port.Pool.Name != "pool_0_"+name ||
			port.Pool.Monitor.Name != "monitor_0_"+name {
			t.Errorf("guest %t: children %q, %q, %q", guest, port.Listener.Name, port.Pool.Name,
				port.Pool.Monitor.Name)
		}
		if tag := port.Listener.Tags[0]; tag != own {
			t.Errorf("guest %t: the listener has the tag %q instead of the Service's own",
				guest, tag)
		}
	}
}

func TestBuild_Guest_HasNoSayInTheLoadBalancer(t *testing.T) {
	t.Parallel()
	d, notices := build(t, withFeatures(ovn()), withFamilies(v1.IPv4Protocol, v1.IPv6Protocol),
		func(in *Input) {
			in.Guest, in.LoadBalancerName, in.Places.FloatingNetworkID = true, "x", ""
			in.Settings.FlavorID, in.Settings.AvailabilityZone = "f", "z"
		})
	wantTold(t, notices)
	if d.FloatingIP != nil {
		t.Errorf("a guest wants floating IP %+v", d.FloatingIP)
	}
	_, notices = build(t, withFamilies(v1.IPv6Protocol), withNodes(node("n1", "fd00::1")),
		func(in *Input) { in.Guest, in.LoadBalancerName = true, "x" })
	wantTold(t, notices)
}
