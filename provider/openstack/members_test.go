package openstack_test

import (
	"net/http"
	"slices"
	"testing"
	"time"

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
