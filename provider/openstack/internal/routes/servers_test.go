package routes

import (
	"slices"
	"testing"

	v1 "k8s.io/api/core/v1"

	"github.com/fxccm/fxccm/provider/openstack/internal/instances"
	"github.com/fxccm/fxccm/provider/openstack/openstacktest"
)

// knowServer begins a term in which the server of node a is known, with these InternalIPs.
func (c *cluster) knowServer(addresses ...string) {
	c.t.Helper()
	c.servers = map[string]instances.Server{"a": {
		ID: "server-of-a", Addresses: node("a", addresses).Status.Addresses,
	}}
	c.start()
}

// A kubelet writes the addresses of its node, and may write those of a database.
func TestCreateRoute_NodeReportsAnotherServersAddress_IsRefusedAndNothingIsWritten(t *testing.T) {
	const pods, own, databases = "10.244.1.0/24", "10.0.0.11", "10.0.0.66"
	for name, test := range map[string]struct {
		know func(*cluster)
		// elsewhere: the server of the node has the address in another network.
		elsewhere bool
		reported  []string
		want      string
		refused   string
	}{
		"its server has another address": {
			know:     func(c *cluster) { c.knowServer(own) },
			reported: []string{databases},
			refused:  "node a reports 10.0.0.66, which its server does not have",
		},
		"its server is unknown": {
			know:     func(c *cluster) { c.servers = map[string]instances.Server{}; c.start() },
			reported: []string{databases},
			refused:  instances.ErrUnmatched.Error(),
		},
		"its server has the address in another network": {
			know: func(c *cluster) { c.knowServer(databases) }, elsewhere: true,
			reported: []string{databases},
			refused:  "the next hop 10.0.0.66 of node a is the address of another server",
		},
		"it reports its own address, too": {
			know:     func(c *cluster) { c.knowServer(own) },
			reported: []string{databases, own},
			want:     pods + via + own,
		},
	} {
		for extension, hasPairs := range map[string]bool{"": true, ", without pairs": false} {
			t.Run(name+extension, func(t *testing.T) {
				s := newSite(t)
				c := newCluster(t, s, nil)
				c.must(s.SetExtension(extensionAddressPairs, hasPairs))
				s.addPort("server-of-a", own)
				s.addPort("database", databases)
				if test.elsewhere {
					other := s.AddNetwork(openstacktest.Network{Name: "other"})
					subnet := s.AddSubnet(openstacktest.Subnet{
						NetworkID: other, CIDR: "10.0.0.0/16",
					})
					s.AddPort(openstacktest.Port{
						NetworkID: other, DeviceID: "server-of-a",
						DeviceOwner: openstacktest.OwnerCompute,
						FixedIPs: []openstacktest.FixedIP{{
							SubnetID: subnet, Address: databases,
						}},
					})
				}
				c.setNode(node("a", test.reported, pods))
				test.know(c)
				err := c.create("a", pods)
				if (err == nil) != (test.refused == "") || err != nil && !says(err, test.refused) {
					t.Errorf("the error is %v, want %q", err, test.refused)
				}
				var want []string
				if test.want != "" {
					want = []string{test.want}
				}
				s.wantRoutes(want...)
				if got := s.pairs(databases); len(got) > 0 {
					t.Errorf("the database may send from %q", got)
				}
			})
		}
	}
}

// Another cluster or owner has routes in the router.
func TestRoutesOfAnother_NodeReportsTheirNextHop_AreLeftAlone(t *testing.T) {
	const theirs, ours = "10.244.9.0/24 via 10.0.0.66", "10.244.1.0/24 via 10.0.0.11"
	for name, know := range map[string]func(*cluster){
		"its server has another address": func(c *cluster) { c.knowServer("10.0.0.11") },
		"its server is unknown": func(c *cluster) {
			c.servers = map[string]instances.Server{}
			c.start()
		},
	} {
		for _, kind := range []v1.NodeAddressType{v1.NodeInternalIP, v1.NodeExternalIP} {
			t.Run(name+", "+string(kind), func(t *testing.T) {
				s := newSite(t)
				c := newCluster(t, s, nil)
				c.must(s.SetExtension(extensionAddressPairs, false))
				s.addPort("server-of-a", "10.0.0.11")
				s.addPort("other", "10.0.0.66")
				s.setRoutes(theirs, ours)
				a := node("a", []string{"10.0.0.11"}, "10.244.1.0/24")
				a.Status.Addresses = append(a.Status.Addresses,
					v1.NodeAddress{Type: kind, Address: "10.0.0.66"})
				c.setNode(a)
				know(c)
				listed := c.list()
				if listed[theirs] != nil {
					t.Errorf("the route is listed as %+v", listed[theirs])
				}
				// The node keeps its route while its server is unknown.
				if route := listed[ours]; route == nil || route.Blackhole {
					t.Errorf("the route of the node is listed as %+v", route)
				}
				one := mustRoute(t, theirs)
				if o := c.ownerOf(one); o.standing != foreign {
					t.Errorf("the owner of the route is %+v", o)
				}
				s.wantRoutes(theirs, ours)
			})
		}
	}
}

func TestRoutesOfANode_ItsServerHasItsAddress_AreItsOwn(t *testing.T) {
	s := newSite(t)
	c := newCluster(t, s, nil)
	c.addNode("a", []string{"10.0.0.11"}, "10.244.1.0/24")
	c.knowServer("10.0.0.11")
	c.must(c.create("a", "10.244.1.0/24"))
	if got := s.pairs("10.0.0.11"); !slices.Equal(got, []string{"10.244.1.0/24"}) {
		t.Errorf("the port may send from %q, want the pod CIDR", got)
	}
	// The pod CIDR of the node has changed.
	s.setRoutes("10.244.1.0/24 via 10.0.0.11", "10.244.7.0/24 via 10.0.0.11")
	c.start()
	if listed := c.list(); len(listed) != 2 {
		t.Errorf("the listed routes are %v, want both", listed)
	}
}
