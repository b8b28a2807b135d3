package openstack_test

import (
	"net/http"
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/fxccm/fxccm/provider/openstack/openstacktest"
)

// The ID of the second port sorts before that of the first one.
func TestMembers_ServedNodeGetsASecondPort_StayAndNothingIsWritten(t *testing.T) {
	for name, isNamed := range map[string]bool{
		"the subnet is named": true, "the nodes decide": false,
	} {
		t.Run(name, func(t *testing.T) {
			q := newQuotaSite(t)
			if !isNamed {
				q.service.Annotations = nil
			}
			node := q.addNodes(1)[0]
			add := func(id, network string) {
				q.AddPort(openstacktest.Port{
					ID: id, NetworkID: network, DeviceID: q.Servers()[0].ID,
					DeviceOwner: openstacktest.OwnerCompute,
				})
			}
			serve := func() []openstacktest.Member {
				t.Helper()
				instances, _ := q.cloud.InstancesV2()
				metadata, err := instances.InstanceMetadata(t.Context(), node)
				if err != nil {
					t.Fatal(err)
				}
				node.Status.Addresses = metadata.NodeAddresses
				if err := q.ensure(node); err != nil {
					t.Fatal(err)
				}
				return q.LoadBalancers()[0].Pools[0].Members
			}
			add("ffffffff-0000-4000-8000-000000000001", q.network)
			before := serve()
			if len(before) != 1 {
				t.Fatalf("the members are %+v, want one", before)
			}

			other := q.AddNetwork(openstacktest.Network{Name: "storage"})
			q.AddSubnet(openstacktest.Subnet{NetworkID: other, CIDR: "10.7.0.0/16"})
			add("00000000-0000-4000-8000-000000000001", other)
			q.clock.Step(time.Hour)
			q.ForgetCalls()
			after := serve()
			if addresses := node.Status.Addresses; len(addresses) != 2 {
				t.Fatalf("the addresses of the node are %v, want two", addresses)
			}
			if !slices.EqualFunc(after, before, func(a, b openstacktest.Member) bool {
				return a.ID == b.ID && a.Address == b.Address && a.SubnetID == b.SubnetID
			}) {
				t.Errorf("the members are %+v, want %+v", after, before)
			}
			for _, call := range q.Calls() {
				if call.Method != http.MethodGet && call.Service != openstacktest.ServiceIdentity {
					t.Errorf("%s %s was sent", call.Method, call.Path)
				}
			}
		})
	}
}

// A kubelet may write the addresses of its node, and so get the traffic to another server.
func TestMembers_NodeReportsAnotherServersAddress_ItIsNoMember(t *testing.T) {
	q := newQuotaSite(t)
	node := q.addNodes(1)[0]
	for i := range 2 {
		// The second server is no node.
		id := q.Servers()[0].ID
		if i == 1 {
			id = q.AddServer(openstacktest.Server{Name: "database"})
		}
		q.AddPort(openstacktest.Port{
			NetworkID: q.network, DeviceID: id, DeviceOwner: openstacktest.OwnerCompute,
		})
	}
	instances, _ := q.cloud.InstancesV2()
	refresh := func() {
		t.Helper()
		metadata, err := instances.InstanceMetadata(t.Context(), node)
		if err != nil {
			t.Fatal(err)
		}
		node.Status.Addresses = metadata.NodeAddresses
	}
	members := func() (addresses []string) {
		t.Helper()
		err := untilDone(q.clock, func() error {
			_, err := q.balancers.EnsureLoadBalancer(t.Context(), "kubernetes", q.service,
				[]*corev1.Node{node})
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
		for _, member := range q.LoadBalancers()[0].Pools[0].Members {
			addresses = append(addresses, member.Address)
		}
		return addresses
	}
	refresh()
	own := node.Status.Addresses
	others := slices.DeleteFunc(q.Ports(), func(p openstacktest.Port) bool {
		return p.DeviceID == q.Servers()[0].ID || p.DeviceOwner != openstacktest.OwnerCompute
	})
	if len(own) != 1 || len(others) != 1 {
		t.Fatalf("the node has %v, and the other server %v", own, others)
	}
	if got := members(); !slices.Equal(got, []string{own[0].Address}) {
		t.Fatalf("the members are %q, want %s", got, own[0].Address)
	}

	foreign := corev1.NodeAddress{
		Type: corev1.NodeInternalIP, Address: others[0].FixedIPs[0].Address,
	}
	node.Status.Addresses = []corev1.NodeAddress{foreign}
	if got := members(); len(got) > 0 {
		t.Errorf("the members are %q, want none", got)
	}
	node.Status.Addresses = []corev1.NodeAddress{foreign, own[0]}
	if got := members(); !slices.Equal(got, []string{own[0].Address}) {
		t.Errorf("the members are %q, want %s", got, own[0].Address)
	}

	// An address that the server got is used once the node controller has read it.
	q.AddPort(openstacktest.Port{
		NetworkID: q.network, DeviceID: q.Servers()[0].ID, DeviceOwner: openstacktest.OwnerCompute,
	})
	q.clock.Step(time.Hour)
	refresh()
	added := node.Status.Addresses[1:]
	if len(added) != 1 {
		t.Fatalf("the addresses of the node are %v, want two", node.Status.Addresses)
	}
	node.Status.Addresses = added
	if got := members(); !slices.Equal(got, []string{added[0].Address}) {
		t.Errorf("the members are %q, want %s", got, added[0].Address)
	}
}

// The node controller then keeps the addresses of the nodes.
func TestMembers_NoNetworkHasTheInternalNetworkName_NodesStayMembers(t *testing.T) {
	r := newTwoRegions(t)
	r.conf += "[Networking]\ninternal-network-name = gone\n"
	node := r.add(r.one, "node-1", regional("one"))
	r.open()
	found, err := r.instances().InstanceMetadata(t.Context(), node)
	if err != nil || len(found.NodeAddresses) > 0 {
		t.Fatalf("the metadata are %+v, %v, want no address", found, err)
	}
	if err := r.ensure(r.service("web", nil)); err != nil {
		t.Fatal(err)
	}
	want := []string{node.Status.Addresses[0].Address}
	if got := r.one.members(); !slices.Equal(got, want) {
		t.Errorf("the members are %q, want %q", got, want)
	}
}
