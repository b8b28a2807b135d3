package openstack_test

import (
	"net/http"
	"slices"
	"strings"
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

// members returns the addresses of the members when the Service is served.
func (q *quotaSite) members(nodes ...*corev1.Node) (addresses []string) {
	q.t.Helper()
	if err := untilDone(q.clock, func() error {
		_, err := q.balancers.EnsureLoadBalancer(q.t.Context(), "kubernetes", q.service, nodes)
		return err
	}); err != nil {
		q.t.Fatal(err)
	}
	for _, member := range q.LoadBalancers()[0].Pools[0].Members {
		addresses = append(addresses, member.Address)
	}
	slices.Sort(addresses)
	return addresses
}

// addPort adds a port of a server, and returns its address.
func (q *quotaSite) addPort(server string) (address string) {
	q.t.Helper()
	id := q.AddPort(openstacktest.Port{
		NetworkID: q.network, DeviceID: server, DeviceOwner: openstacktest.OwnerCompute,
	})
	for _, port := range q.Ports() {
		if port.ID == id {
			address = port.FixedIPs[0].Address
		}
	}
	return address
}

// addMembers adds nodes whose servers have an address, which they report.
func (q *quotaSite) addMembers(count int) []*corev1.Node {
	q.t.Helper()
	nodes := q.addNodes(count)
	for _, node := range nodes {
		reports(node, q.addPort(strings.TrimPrefix(node.Spec.ProviderID, "openstack:///")))
	}
	return nodes
}

func reports(node *corev1.Node, addresses ...string) {
	node.Status.Addresses = nil
	for _, address := range addresses {
		node.Status.Addresses = append(node.Status.Addresses,
			corev1.NodeAddress{Type: corev1.NodeInternalIP, Address: address})
	}
}

func addressOf(node *corev1.Node) string { return node.Status.Addresses[0].Address }

// A kubelet may write the addresses of its node, and so get the traffic to another server.
func TestMembers_NodeReportsAnotherServersAddress_ItIsNoMember(t *testing.T) {
	q := newQuotaSite(t)
	node := q.addMembers(1)[0]
	server, own := q.Servers()[0].ID, addressOf(node)
	// This server is no node.
	foreign := q.addPort(q.AddServer(openstacktest.Server{Name: "database"}))
	if got := q.members(node); !slices.Equal(got, []string{own}) {
		t.Fatalf("the members are %q, want %s", got, own)
	}

	reports(node, foreign)
	if got := q.members(node); len(got) > 0 {
		t.Errorf("the members are %q, want none", got)
	}
	reports(node, foreign, own)
	if got := q.members(node); !slices.Equal(got, []string{own}) {
		t.Errorf("the members are %q, want %s", got, own)
	}

	// An address that the server got is used once an answer of OpenStack has it.
	added := q.addPort(server)
	q.clock.Step(time.Hour)
	reports(node, added)
	if got := q.members(node); !slices.Equal(got, []string{added}) {
		t.Errorf("the members are %q, want %s", got, added)
	}
}

// A kubelet writes the provider ID of its node when it registers it, and may do so without the
// taint of new nodes.
func TestMembers_NodeHasNoUsableProviderID_AnotherServersAddressIsNoMember(t *testing.T) {
	for name, id := range map[string]string{
		"none": "", "of another cloud": "aws:///x", "not of a server": "openstack:///detail",
		"of no server": "openstack:///00000000-0000-4000-8000-000000000000",
	} {
		t.Run(name, func(t *testing.T) {
			q := newQuotaSite(t)
			node := q.addMembers(1)[0]
			stranger := &corev1.Node{}
			stranger.Name, stranger.Spec.ProviderID = "a-stranger", id
			stranger.Status.Conditions = []corev1.NodeCondition{{
				Type: corev1.NodeReady, Status: corev1.ConditionTrue,
			}}
			foreign := q.addPort(q.AddServer(openstacktest.Server{Name: "database"}))
			for what, addresses := range map[string][]string{
				"another server's": {foreign}, "the other node's": {addressOf(node)},
			} {
				reports(stranger, addresses...)
				for range 3 {
					want := []string{addressOf(node)}
					if got := q.members(node, stranger); !slices.Equal(got, want) {
						t.Errorf("it reports %s address: the members are %q, want %q", what, got,
							want)
					}
					q.clock.Step(time.Minute)
				}
			}
			if got := q.LoadBalancers()[0].Pools[0].Members[0].Name; got != node.Name {
				t.Errorf("the member is that of %s, want %s", got, node.Name)
			}
		})
	}
}

// The new leader has no answer about any server yet.
func TestMembers_NovaDoesNotAnswerANewLeader_MembersStayAndNewNodesWait(t *testing.T) {
	for name, fault := range map[string]openstacktest.Fault{
		"503":     {Status: http.StatusServiceUnavailable},
		"404":     {Status: http.StatusNotFound, Body: "<html>no such page</html>"},
		"no line": {Drop: true},
	} {
		t.Run(name, func(t *testing.T) {
			q := newQuotaSite(t)
			nodes := q.addMembers(3)
			want := []string{addressOf(nodes[0]), addressOf(nodes[1]), addressOf(nodes[2])}
			slices.Sort(want)
			if got := q.members(nodes...); !slices.Equal(got, want) {
				t.Fatalf("the members are %q, want %q", got, want)
			}
			fault.Service = openstacktest.ServiceCompute
			q.Inject(fault)
			q.lead()
			// Nothing has initialized this node yet.
			bare := &corev1.Node{}
			bare.Name = "bare"
			reports(bare, q.addPort(q.AddServer(openstacktest.Server{Name: "bare"})))
			if got := q.members(append(nodes, bare)...); !slices.Equal(got, want) {
				t.Errorf("Nova does not answer: the members are %q, want %q", got, want)
			}
			if got := q.members(nodes[:2]...); len(got) != 2 {
				t.Errorf("a node has left: the members are %q", got)
			}

			q.RemoveFaults()
			want = append(want, addressOf(bare))
			slices.Sort(want)
			if got := q.members(append(nodes, bare)...); !slices.Equal(got, want) {
				t.Errorf("Nova answers: the members are %q, want %q", got, want)
			}
		})
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
