package openstack_test

import (
	"net/http"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/fxccm/fxccm/provider/openstack/openstacktest"
)

func TestAddress_WhatNeutronChanges_ReachesTheNode(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	r := ready(t, s, refreshed)
	m := s.addServer("moved-1")
	tainted(t, m.name)
	initialised(t, m.name)
	waitAddress(t, m.name, corev1.NodeInternalIP, s.address(m, 4))

	s.must(s.UpdatePort(m.port, func(p *openstacktest.Port) {
		p.FixedIPs = []openstacktest.FixedIP{{SubnetID: s.subnets[4], Address: "10.0.77.7"}}
	}))
	waitAddress(t, m.name, corev1.NodeInternalIP, "10.0.77.7")
	floating := s.AddFloatingIP(
		openstacktest.FloatingIP{NetworkID: s.public, PortID: m.port, Address: "192.0.2.77"})
	waitAddress(t, m.name, corev1.NodeExternalIP, "192.0.2.77")

	// While Neutron cannot be asked, the node keeps what it has.
	remove := s.Inject(openstacktest.Fault{
		Service: openstacktest.ServiceNetwork,
		Status:  http.StatusInternalServerError,
	})
	s.must(s.DeleteFloatingIP(floating))
	before := s.mark()
	s.waitCalls(before, 4, operations("port_list"), "ports are listed")
	addresses := getNode(t, m.name).Status.Addresses
	if len(addresses) != 3 {
		t.Errorf("the addresses are %v, want those of before: InternalIP, ExternalIP and Hostname",
			addresses)
	}
	remove()
	waitNoAddress(t, m.name, corev1.NodeExternalIP)
	r.unbroken()
}

// The flavor of a server may be gone while the server lives. In new clouds the server tells its
// name; in old ones only its id is left.
func TestFlavor_Deleted_DoesNotKeepANodeFromBeingInitialised(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		minor int
		want  string
	}{"new": {96, "m1.gone"}, "old": {40, "flavor-id"}} {
		t.Run(name, func(t *testing.T) {
			s := newSite(t, openstacktest.WithComputeMicroversion(test.minor))
			ready(t, s, refreshed)
			s.AddFlavor(openstacktest.Flavor{ID: "flavor-id", Name: "m1.gone"})
			m := s.addServer("flavor-"+name, func(i *openstacktest.Server) { i.Flavor = "m1.gone" })
			s.must(s.DeleteFlavor("m1.gone"))
			tainted(t, m.name)
			if got := initialised(t,
				m.name).Labels[corev1.LabelInstanceTypeStable]; got != test.want {
				t.Errorf("the instance type is %q, want %q", got, test.want)
			}
			s.must(s.UpdateServer(m.id,
				func(i *openstacktest.Server) { i.AccessIPv4 = "203.0.113.5" }))
			waitAddress(t, m.name, corev1.NodeExternalIP, "203.0.113.5")
		})
	}
}

// A kubelet's --hostname-override may make the server's id the node's name, or anything.
func TestHostname_Overridden(t *testing.T) {
	t.Parallel()
	t.Run("by the id", func(t *testing.T) {
		s := newSite(t)
		ready(t, s)
		m := s.addServer("overridden-1")
		tainted(t, m.id)
		if got := initialised(t, m.id).Spec.ProviderID; got != m.providerID() {
			t.Errorf("provider ID %q, want %q", got, m.providerID())
		}
		waitAddress(t, m.id, corev1.NodeInternalIP, s.address(m, 4))
	})
	t.Run("by anything", func(t *testing.T) {
		s := newSite(t)
		r := ready(t, s)
		m := s.addServer("overridden-2")
		node := tainted(t, "some-name", systemUUID(m.id))
		s.waitCalls(0, 4, operations("server_*"), "it is looked for")
		if !isNew(getNode(t, node.Name)) {
			t.Error(
				"a node was taken for that of a server, of which only the machine's firmware speaks")
		}
		// It is kept, for its server lives; and it is initialised when the server has its name.
		setReady(t, node.Name, corev1.ConditionFalse)
		before := s.mark()
		s.waitCalls(before, 10, operations("server_*"), "it is asked about")
		wantUntouched(t, node)
		s.must(s.UpdateServer(m.id, func(i *openstacktest.Server) { i.Name = "some-name" }))
		if got := initialised(t, node.Name).Spec.ProviderID; got != m.providerID() {
			t.Errorf("provider ID %q, want %q", got, m.providerID())
		}
		r.unbroken()
	})
}
