package instances

import (
	"context"
	"fmt"
	"net/http"
	"runtime"
	"slices"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/fxccm/fxccm/internal/waittest"
	"github.com/fxccm/fxccm/provider/openstack/cloudconf"
	"github.com/fxccm/fxccm/provider/openstack/openstacktest"
)

func internalIP(a string) v1.NodeAddress {
	return v1.NodeAddress{Type: v1.NodeInternalIP, Address: a}
}

func externalIP(a string) v1.NodeAddress {
	return v1.NodeAddress{Type: v1.NodeExternalIP, Address: a}
}

func hostname(a string) v1.NodeAddress { return v1.NodeAddress{Type: v1.NodeHostName, Address: a} }

func activePort(ips ...string) port {
	p := port{Status: portActive}
	for _, ip := range ips {
		p.FixedIPs = append(p.FixedIPs, fixedIP{ip})
	}
	return p
}

func fixed(ips ...string) (all []address) {
	for _, ip := range ips {
		all = append(all, address{Address: ip, Type: addressFixed})
	}
	return all
}

func floating(ip string) address { return address{Address: ip, Type: addressFloating} }

// richServer has each kind of address.
func richServer() *server {
	return &server{
		AccessIPv4: "203.0.113.7", AccessIPv6: "2001:db8:7::7",
		Metadata: map[string]string{"hostname": "a1-yinvcez57-0-bvynoyawrhcg-kube-minion-fg5i4jw"},
		Addresses: map[string][]address{
			"private": append(fixed("10.0.0.32", "10.0.0.31"), floating("198.51.100.36")),
			"public":  fixed("198.51.100.35", "2001:db8:1::35"),
		},
	}
}

func TestNodeAddresses_EachOption_GivesTheAddressesOfOCCM(t *testing.T) {
	head := []v1.NodeAddress{
		internalIP("10.0.0.32"), internalIP("10.0.0.31"), externalIP("203.0.113.7"),
		externalIP("2001:db8:7::7"),
		hostname("a1-yinvcez57-0-bvynoyawrhcg-kube-minion-fg5i4jw"),
	}
	withoutHostname := head[:4:4]
	private := []port{activePort("10.0.0.32"), activePort("10.0.0.31")}
	for _, c := range []struct {
		name    string
		present []v1.NodeAddress
		change  func(*server)
		ports   []port
		options cloudconf.Networking
		want    []v1.NodeAddress
	}{
		{
			name:  "order: ports, access addresses, hostname, then the rest by network",
			ports: private, options: cloudconf.Networking{PublicNetworkNames: []string{"public"}},
			want: append(slices.Clone(head), externalIP("198.51.100.36"),
				externalIP("198.51.100.35"), externalIP("2001:db8:1::35")),
		},
		{
			name:  "without a public network all but floating addresses are internal",
			ports: private,
			want: append(slices.Clone(head), externalIP("198.51.100.36"),
				internalIP("198.51.100.35"), internalIP("2001:db8:1::35")),
		},
		{
			name: "CustomPublicNetwork",
			change: func(s *server) {
				s.Metadata = nil
				s.Addresses["pub-net"] = s.Addresses["public"]
				delete(s.Addresses, "public")
			},
			ports: private, options: cloudconf.Networking{PublicNetworkNames: []string{"pub-net"}},
			want: append(slices.Clone(withoutHostname), externalIP("198.51.100.36"),
				externalIP("198.51.100.35"), externalIP("2001:db8:1::35")),
		},
		{
			name:   "IntersectingFixedIP: a port's address in a public network is only external",
			change: func(s *server) { s.Metadata = nil },
			ports: append(slices.Clone(private), activePort("198.51.100.35"),
				activePort("2001:db8:1::35")),
			options: cloudconf.Networking{PublicNetworkNames: []string{"public"}},
			want: append(slices.Clone(withoutHostname), externalIP("198.51.100.36"),
				externalIP("198.51.100.35"), externalIP("2001:db8:1::35")),
		},
		{
			name: "MultipleCustomInternalNetworks: other networks are left out, floating " +
				"addresses are not",
			change: func(s *server) {
				s.Metadata = nil
				s.Addresses["also-private"] = fixed("10.0.0.64")
				s.Addresses["pub-net"] = s.Addresses["public"]
				delete(s.Addresses, "public")
			},
			ports: append(slices.Clone(private), activePort("10.0.0.64"),
				activePort("198.51.100.35")),
			options: cloudconf.Networking{InternalNetworkNames: []string{
				"private",
				"also-private",
			}},
			want: []v1.NodeAddress{
				internalIP("10.0.0.32"), internalIP("10.0.0.31"), internalIP("10.0.0.64"),
				externalIP("203.0.113.7"), externalIP("2001:db8:7::7"), externalIP("198.51.100.36"),
			},
		},
		{
			name: "the order of the internal networks precedes that of the ports",
			change: func(s *server) {
				*s = server{Addresses: map[string][]address{
					"a": append(fixed("10.0.0.1"), floating("198.51.100.1")),
					"b": fixed("10.0.1.1", "fd00::1"),
				}}
			},
			ports:   []port{activePort("10.0.0.1"), activePort("10.0.2.1"), activePort("10.0.1.1")},
			options: cloudconf.Networking{InternalNetworkNames: []string{"b", "a"}},
			want: []v1.NodeAddress{
				internalIP("10.0.1.1"), internalIP("fd00::1"), internalIP("10.0.0.1"),
				externalIP("198.51.100.1"), internalIP("10.0.2.1"),
			},
		},
		{
			name: "the order of the node precedes that of the internal networks",
			change: func(s *server) {
				*s = server{Addresses: map[string][]address{
					"a": fixed("10.0.0.1"), "b": fixed("10.0.1.1"),
				}}
			},
			ports:   []port{activePort("10.0.1.1"), activePort("10.0.0.1")},
			present: []v1.NodeAddress{internalIP("10.0.0.1"), internalIP("10.0.1.1")},
			options: cloudconf.Networking{InternalNetworkNames: []string{"b", "a"}},
			want:    []v1.NodeAddress{internalIP("10.0.0.1"), internalIP("10.0.1.1")},
		},
		{
			name: "OneInternalNetwork: the ports in others are removed",
			change: func(s *server) {
				s.Metadata = nil
				s.Addresses["also-private"] = fixed("10.0.0.64")
			},
			ports:   append(slices.Clone(private), activePort("10.0.0.64")),
			options: cloudconf.Networking{InternalNetworkNames: []string{"also-private"}},
			want: []v1.NodeAddress{
				internalIP("10.0.0.64"), externalIP("203.0.113.7"), externalIP("2001:db8:7::7"),
				externalIP("198.51.100.36"),
			},
		},
		{
			name: "a public network wins over an internal one of the same name",
			change: func(s *server) {
				*s = server{Addresses: map[string][]address{"both": fixed("10.0.0.1")}}
			},
			ports: []port{activePort("10.0.0.1")},
			options: cloudconf.Networking{
				PublicNetworkNames:   []string{"both"},
				InternalNetworkNames: []string{"both"},
			},
			want: []v1.NodeAddress{externalIP("10.0.0.1")},
		},
		{
			name:   "IPv6Disabled",
			change: func(s *server) { s.Metadata = nil },
			ports:  append(slices.Clone(private), activePort("2001:db8:2::1", "10.0.0.33")),
			options: cloudconf.Networking{
				PublicNetworkNames:  []string{"public"},
				IPv6SupportDisabled: true,
			},
			want: []v1.NodeAddress{
				internalIP("10.0.0.32"), internalIP("10.0.0.31"), internalIP("10.0.0.33"),
				externalIP("203.0.113.7"),
				externalIP("198.51.100.36"), externalIP("198.51.100.35"),
			},
		},
		{
			name:  "AddressSortOrder",
			ports: private,
			options: cloudconf.Networking{
				PublicNetworkNames: []string{"public"},
				AddressSortOrder: []string{
					"10.0.0.0/8", "198.51.100.0/24",
					"2001:db8::/32", "oops",
				},
			},
			want: []v1.NodeAddress{
				internalIP("10.0.0.31"), internalIP("10.0.0.32"), externalIP("198.51.100.35"),
				externalIP("198.51.100.36"),
				externalIP("2001:db8:1::35"), externalIP("2001:db8:7::7"),
				externalIP("203.0.113.7"),
				hostname("a1-yinvcez57-0-bvynoyawrhcg-kube-minion-fg5i4jw"),
			},
		},
		{
			name: "ports that are not active count only as far as Nova tells their addresses",
			change: func(s *server) {
				*s = server{Addresses: map[string][]address{"private": fixed("10.0.0.1")}}
			},
			ports: []port{{Status: "DOWN", FixedIPs: []fixedIP{{"10.0.0.1"}, {"10.0.0.2"}}}},
			want:  []v1.NodeAddress{internalIP("10.0.0.1")},
		},
		{
			name: "subports are in the networks of their names, after Nova's addresses",
			change: func(s *server) {
				*s = server{Addresses: map[string][]address{"b": fixed("10.0.0.1")}}
			},
			ports: []port{{
				Status: portActive, FixedIPs: []fixedIP{{"10.0.0.1"}},
				subports: []subport{
					{"b", []string{"10.0.0.9"}},
					{"a", []string{"10.0.1.1", "10.0.1.2"}},
					{"pub", []string{"198.51.100.1"}},
				},
			}},
			options: cloudconf.Networking{PublicNetworkNames: []string{"pub"}},
			want: []v1.NodeAddress{
				internalIP("10.0.0.1"), internalIP("10.0.1.1"), internalIP("10.0.1.2"),
				internalIP("10.0.0.9"), externalIP("198.51.100.1"),
			},
		},
		{
			name: "the same address twice is one, of two types it is two",
			change: func(s *server) {
				*s = server{
					AccessIPv4: "10.0.0.1",
					Addresses:  map[string][]address{"a": fixed("10.0.0.1", "10.0.0.1")},
				}
			},
			ports: []port{activePort("10.0.0.1", "10.0.0.1")},
			want:  []v1.NodeAddress{internalIP("10.0.0.1"), externalIP("10.0.0.1")},
		},
		{
			name: "those of the node keep their order, and others follow",
			change: func(s *server) {
				*s = server{Addresses: map[string][]address{
					"a": append(fixed("10.0.0.3"), floating("198.51.100.1")),
					"b": append(fixed("10.0.0.1"), floating("198.51.100.2")),
				}}
			},
			ports: []port{activePort("10.0.0.2"), activePort("10.0.0.3"), activePort("10.0.0.1")},
			present: []v1.NodeAddress{
				hostname("node"), internalIP("10.0.0.1"), internalIP("10.0.0.3"),
				internalIP("10.0.0.99"), externalIP("198.51.100.2"),
			},
			want: []v1.NodeAddress{
				internalIP("10.0.0.1"), internalIP("10.0.0.3"), externalIP("198.51.100.2"),
				internalIP("10.0.0.2"), externalIP("198.51.100.1"),
			},
		},
		{
			name:    "address-sort-order precedes the order of the node",
			change:  func(s *server) { *s = server{} },
			ports:   []port{activePort("10.0.0.1"), activePort("10.1.0.1")},
			present: []v1.NodeAddress{internalIP("10.0.0.1")},
			options: cloudconf.Networking{AddressSortOrder: []string{"10.1.0.0/16"}},
			want:    []v1.NodeAddress{internalIP("10.1.0.1"), internalIP("10.0.0.1")},
		},
		{
			name:   "none at all",
			change: func(s *server) { *s = server{} },
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := richServer()
			if c.change != nil {
				c.change(s)
			}
			if got := nodeAddresses(s, c.ports, c.present, c.options); !slices.Equal(got, c.want) {
				t.Errorf("addresses\n%v, want\n%v", got, c.want)
			}
		})
	}
}

// A node may have any address of its server. If the answer has none of them, the node keeps its
// addresses, so the answer counts as none.
func TestAddresses_OfEachServer_AreThoseThatOpenStackShows(t *testing.T) {
	for name, test := range map[string]struct {
		internal []string
		// isBare: OpenStack shows no address of the server.
		isBare bool
	}{
		"the networks of the ports":     {internal: []string{"private", "storage"}},
		"one network is left out":       {internal: []string{"storage"}},
		"no network has the given name": {internal: []string{"gone"}},
		"the server has no address":     {isBare: true},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, func(c *Config) { c.Networking.InternalNetworkNames = test.internal })
			id := w.cloud.AddServer(openstacktest.Server{Name: "node"})
			if !test.isBare {
				storage := w.addNetwork("storage", "10.7.0.0/16")
				for _, network := range []string{w.network, storage} {
					w.cloud.AddPort(openstacktest.Port{
						NetworkID: network, DeviceID: id, DeviceOwner: openstacktest.OwnerCompute,
					})
				}
			}
			node := nodeOf("node", id)
			var want []string
			for _, p := range w.cloud.Ports() {
				if p.DeviceID == id {
					want = append(want, p.FixedIPs[0].Address)
				}
			}
			for _, when := range []string{"before the metadata", "after it"} {
				all, known := w.Addresses(within(t), []*v1.Node{node})["node"]
				var got []string
				for _, a := range all {
					got = append(got, a.Address)
				}
				slices.Sort(got)
				slices.Sort(want)
				if known == test.isBare || !slices.Equal(got, want) {
					t.Errorf("%s the addresses are %q, known: %t, want %q", when, got, known, want)
				}
				w.metadata(node)
			}
		})
	}
}

func TestSortAddresses_EachOrder_SortsStably(t *testing.T) {
	given := []v1.NodeAddress{
		internalIP("10.0.0.32"), internalIP("172.16.0.1"), externalIP("50.56.176.37"),
		externalIP("50.56.176.36"), hostname("node"),
		internalIP("10.0.0.31"), externalIP("2001:db8:b::1"), internalIP("192.168.0.2"),
		internalIP("192.168.0.1"),
		externalIP("50.56.175.1"), externalIP("2001:db8:a::1"), internalIP("fd00::2"),
		internalIP("fd00::1"), internalIP("10.0.0.4"),
	}
	for _, c := range []struct {
		name  string
		order []string
		want  []v1.NodeAddress
	}{
		{"nothing to sort by", []string{"10.0.0.0"}, given},
		{
			"several, of which a wider one comes last",
			[]string{"50.56.176.0/24", "fd00::/8", "10.0.0.0/8", "50.56.0.0/16"},
			[]v1.NodeAddress{
				externalIP("50.56.176.36"), externalIP("50.56.176.37"), internalIP("fd00::1"),
				internalIP("fd00::2"), internalIP("10.0.0.4"),
				internalIP("10.0.0.31"), internalIP("10.0.0.32"), externalIP("50.56.175.1"),
				internalIP("172.16.0.1"), hostname("node"),
				externalIP("2001:db8:b::1"), internalIP("192.168.0.2"), internalIP("192.168.0.1"),
				externalIP("2001:db8:a::1"),
			},
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			if got := sortAddresses(slices.Clone(given),
				parseSortOrder(c.order)); !slices.Equal(got, c.want) {
				t.Errorf("sorted\n%v, want\n%v", got, c.want)
			}
		})
	}
}

// Load balancers ask for the addresses of all nodes in each reconcile.
func TestAddresses_ManyNodes_CostTwoListsOnce(t *testing.T) {
	w := newWorld(t)
	nodes := w.addNodes(50)
	w.cluster(nodes...)
	all := w.Addresses(within(t), nodes)
	for _, node := range nodes {
		if len(all[node.Name]) != 1 {
			t.Fatalf("node %s has the addresses %v, want one", node.Name, all[node.Name])
		}
		node.Status.Addresses = all[node.Name]
	}
	w.exactly(map[string]int{"server_list": 1, "port_list": 1})

	w.cloud.ForgetCalls()
	w.pass(time.Hour)
	w.cloud.Inject(openstacktest.Fault{Status: http.StatusServiceUnavailable})
	again := w.Addresses(within(t), nodes)
	if len(again) != len(nodes) {
		t.Errorf("OpenStack does not answer: the addresses of %d nodes are known, want %d",
			len(again), len(nodes))
	}
	w.exactly(map[string]int{})
}

func TestAddresses_NodeReportsAnotherAddress_IsLookedUpIfTheAnswerIsOld(t *testing.T) {
	w := newWorld(t)
	node := w.addNodes(1)[0]
	node.Status.Addresses = w.metadata(node).NodeAddresses
	w.cloud.ForgetCalls()
	w.Addresses(within(t), []*v1.Node{node})
	w.exactly(map[string]int{})

	w.cloud.AddPort(openstacktest.Port{
		NetworkID: w.network, DeviceID: w.cloud.Servers()[0].ID,
		DeviceOwner: openstacktest.OwnerCompute,
	})
	node.Status.Addresses = append(slices.Clone(node.Status.Addresses),
		v1.NodeAddress{Type: v1.NodeInternalIP, Address: "10.0.77.77"})
	if all := w.Addresses(within(t), []*v1.Node{node}); len(all[node.Name]) != 1 {
		t.Errorf("soon after an answer the addresses are %v, want those in it", all)
	}
	w.exactly(map[string]int{})
	w.pass(time.Hour)
	if all := w.Addresses(within(t), []*v1.Node{node}); len(all[node.Name]) != 2 {
		t.Errorf("after an hour the addresses are %v, want two", all)
	}
}

func TestAddresses_NodesWithoutAnEnd_FewGoroutinesWait(t *testing.T) {
	w := newWorld(t)
	nodes := make([]*v1.Node, 10*nodesAtATime)
	for n := range nodes {
		nodes[n] = nodeOf(fmt.Sprint("n", n), fmt.Sprintf("00000000-0000-4000-8000-%012d", n))
	}
	w.cloud.Inject(openstacktest.Fault{Service: openstacktest.ServiceCompute, Hang: true})
	before := runtime.NumGoroutine()
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() {
		defer close(done)
		w.Addresses(ctx, nodes)
	}()
	waittest.Until(t, "the lookups wait for Nova", func() bool {
		return runtime.NumGoroutine() >= before+nodesAtATime
	})
	if more := runtime.NumGoroutine() - before; more > 3*nodesAtATime {
		t.Errorf("%d goroutines wait for %d nodes", more, len(nodes))
	}
	cancel()
	<-done
}

func TestAddresses_ServerOfTheNodeIsUnknown_IsMissing(t *testing.T) {
	w := newWorld(t)
	w.addServer("bare")
	nodes := map[string]*v1.Node{
		"of another cloud": nodeOf("a", ""),
		"of no server":     nodeOf("b", "00000000-0000-4000-8000-000000000007"),
		"without a server": nodeOf("c", ""), "bare": nodeOf("bare", ""),
	}
	nodes["of another cloud"].Spec.ProviderID = "aws:///x"
	for name, node := range nodes {
		all := w.Addresses(within(t), []*v1.Node{node})
		if _, known := all[node.Name]; known != (name == "bare") {
			t.Errorf("%s: the addresses are %v", name, all)
		}
	}
	// The provider ID of a node that was found by its name is known, too.
	server := w.cloud.Servers()[0].ID
	w.cloud.Inject(openstacktest.Fault{Status: http.StatusServiceUnavailable})
	if all := w.Addresses(within(t), []*v1.Node{nodeOf("bare", server)}); len(all) != 1 {
		t.Errorf("after the initialization the addresses are %v, want those of the server", all)
	}
}
