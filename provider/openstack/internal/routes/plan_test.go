package routes

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"

	"github.com/gophercloud/gophercloud/v2/openstack/networking/v2/extensions/layer3/routers"
)

// mustRoute parses "10.0.0.0/24 via 10.1.1.1".
func mustRoute(t *testing.T, name string) route {
	t.Helper()
	r, err := parseName(name)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func found(t *testing.T, names ...string) []entry {
	t.Helper()
	var stored []routers.Route
	for _, name := range names {
		destination, nextHop, _ := strings.Cut(name, via)
		stored = append(stored, routers.Route{DestinationCIDR: destination, NextHop: nextHop})
	}
	return entries(stored)
}

func node(name string, addresses []string, podCIDRs ...string) *v1.Node {
	n := &v1.Node{}
	n.Name = name
	n.Spec.PodCIDRs = podCIDRs
	for _, a := range addresses {
		kind := v1.NodeInternalIP
		if address, ok := strings.CutPrefix(a, "external:"); ok {
			kind, a = v1.NodeExternalIP, address
		}
		n.Status.Addresses = append(n.Status.Addresses, v1.NodeAddress{Type: kind, Address: a})
	}
	return n
}

func show(steps []*step, calls []*call) (shown []string) {
	for _, s := range steps {
		text := ""
		for _, e := range s.remove {
			text += "-" + e.String() + " "
		}
		for _, r := range s.add {
			text += "+" + r.String() + " "
		}
		var numbers []int
		for _, c := range s.calls {
			numbers = append(numbers, slices.Index(calls, c))
		}
		shown = append(shown, text+fmt.Sprint(numbers))
	}
	return shown
}

func TestPlan_EachRequest_AddsRemovesOrRefuses(t *testing.T) {
	// Node a is alive and has 10.244.1.0/24; b has 10.244.2.0/24; gone had 10.0.0.99; 10.0.0.66 is
	// foreign.
	k := knowledge{
		nodes: indexNodes([]*v1.Node{
			node("a", []string{"10.0.0.1"}, "10.244.1.0/24", "fd00:1::/64"),
			node("b", []string{"10.0.0.2"}, "10.244.2.0/24"),
		}, nil),
		known: map[route]string{mustRoute(t, "10.244.1.0/24 via 10.0.0.99"): "gone"},
	}
	add := func(name, node string) change { return change{mustRoute(t, name), node} }
	remove := func(name string) change { return change{route: mustRoute(t, name)} }
	for name, test := range map[string]struct {
		found   []string
		changes []change
		want    string
		refused string
	}{
		"nothing to do": {},
		"a new route": {
			changes: []change{add("10.244.1.0/24 via 10.0.0.1", "a")},
			want:    "+10.244.1.0/24 via 10.0.0.1 [0]",
		},
		"an existing route": {
			found:   []string{"10.244.1.0/24 via 10.0.0.1"},
			changes: []change{add("10.244.1.0/24 via 10.0.0.1", "a")},
		},
		"the same route twice": {
			changes: []change{
				add("10.244.1.0/24 via 10.0.0.1", "a"),
				add("10.244.1.0/24 via 10.0.0.1", "a"),
			},
			want: "+10.244.1.0/24 via 10.0.0.1 [0 1]",
		},
		"a route of a node that has no such pod CIDR any more is replaced": {
			found:   []string{"10.244.1.0/24 via 10.0.0.2"},
			changes: []change{add("10.244.1.0/24 via 10.0.0.1", "a")},
			want:    "-10.244.1.0/24 via 10.0.0.2 +10.244.1.0/24 via 10.0.0.1 [0]",
		},
		"a route of a node that is gone is replaced": {
			found:   []string{"10.244.1.0/24 via 10.0.0.99"},
			changes: []change{add("10.244.1.0/24 via 10.0.0.1", "a")},
			want:    "-10.244.1.0/24 via 10.0.0.99 +10.244.1.0/24 via 10.0.0.1 [0]",
		},
		"a route of a node that is gone, beside the right one, is removed": {
			found:   []string{"10.244.1.0/24 via 10.0.0.99", "10.244.1.0/24 via 10.0.0.1"},
			changes: []change{add("10.244.1.0/24 via 10.0.0.1", "a")},
			want:    "-10.244.1.0/24 via 10.0.0.99 [0]",
		},
		"a foreign route is not replaced": {
			found: []string{"10.244.1.0/24 via 10.0.0.66"},
			changes: []change{
				add("10.244.1.0/24 via 10.0.0.1", "a"),
				add("10.244.2.0/24 via 10.0.0.2", "b"),
			},
			want: "+10.244.2.0/24 via 10.0.0.2 [1]",
			refused: "0: Neutron: another route to 10.244.1.0/24 exists: the one via 10.0.0.66 " +
				"does not belong to this cluster, because no node has this address; remove the " +
				"route if nothing uses it",
		},
		"nor that of a node that has the same pod CIDR": {
			found:   []string{"10.244.2.0/24 via 10.0.0.2"},
			changes: []change{add("10.244.2.0/24 via 10.0.0.1", "a")},
			refused: "0: Neutron: another route to 10.244.2.0/24 exists: the one via 10.0.0.2 " +
				"belongs to node b; the nodes must have different pod CIDRs",
		},
		"of two nodes with one pod CIDR the first gets it": {
			changes: []change{
				add("10.244.7.0/24 via 10.0.0.1", "a"),
				add("10.244.7.0/24 via 10.0.0.2", "b"),
			},
			want: "+10.244.7.0/24 via 10.0.0.1 [0]",
			refused: "1: Neutron: another route to 10.244.7.0/24 exists: a route to node a is " +
				"being created; the nodes must have different pod CIDRs",
		},
		"a removal": {
			found: []string{"10.244.1.0/24 via 10.0.0.1", "10.244.1.0/24 via 10.0.0.66"},
			changes: []change{
				remove("10.244.1.0/24 via 10.0.0.1"),
				remove("10.244.1.0/24 via 10.0.0.1"),
			},
			want: "-10.244.1.0/24 via 10.0.0.1 [0 1]",
		},
		"a removal of what is gone": {changes: []change{remove("10.244.1.0/24 via 10.0.0.1")}},
		"removals come before creations": {
			found: []string{"10.244.1.0/24 via 10.0.0.2"},
			changes: []change{
				add("10.244.1.0/24 via 10.0.0.1", "a"),
				remove("10.244.1.0/24 via 10.0.0.2"),
			},
			want: "-10.244.1.0/24 via 10.0.0.2 [1]; +10.244.1.0/24 via 10.0.0.1 [0]",
		},
		"what is removed and created is created": {
			found: []string{"10.244.1.0/24 via 10.0.0.1"},
			changes: []change{
				add("10.244.1.0/24 via 10.0.0.1", "a"),
				remove("10.244.1.0/24 via 10.0.0.1"),
			},
			want: "-10.244.1.0/24 via 10.0.0.1 [1]; +10.244.1.0/24 via 10.0.0.1 [0]",
		},
		"how it is written does not matter": {
			found:   []string{"FD00:0001:0::/64 via FD00:0::1"},
			changes: []change{add("fd00:1::/64 via fd00::1", "a")},
		},
		"what cannot be read is left alone": {
			found:   []string{"nonsense via 10.0.0.1", "10.244.1.0/24 via x"},
			changes: []change{add("10.244.1.0/24 via 10.0.0.1", "a")},
			want:    "+10.244.1.0/24 via 10.0.0.1 [0]",
		},
	} {
		t.Run(name, func(t *testing.T) {
			var calls []*call
			for _, c := range test.changes {
				calls = append(calls, &call{change: c})
			}
			removals, creations, refused := plan(calls, found(t, test.found...), k.owner)
			if got := strings.Join(append(show(removals, calls), show(creations, calls)...),
				"; "); got != test.want {
				t.Errorf("the plan is %q\n      want %q", got, test.want)
			}
			var errs []string
			for c, err := range refused {
				errs = append(errs, fmt.Sprintf("%d: %v", slices.Index(calls, c), err))
			}
			if got := strings.Join(errs, "; "); got != test.refused {
				t.Errorf("refused is %q\n    want %q", got, test.refused)
			}
		})
	}
}

func TestNextHopsTo_AreTheInternalIPsOfTheFamily(t *testing.T) {
	for name, test := range map[string]struct {
		addresses        []string
		destination, via string
	}{
		"IPv4": {
			[]string{"external:192.0.2.1", "10.0.0.1", "10.0.0.2"},
			"10.244.1.0/24", "10.0.0.1 10.0.0.2",
		},
		"IPv4 after IPv6": {[]string{"fd00::1", "10.0.0.1"}, "10.244.1.0/24", "10.0.0.1"},
		"IPv6": {
			[]string{"10.0.0.1", "fd00::1", "fd00::2"},
			"fd00:1::/64", "fd00::1 fd00::2",
		},
		"not an address": {
			[]string{"host", "fe80::1%eth0", "10.0.0.1"},
			"10.244.1.0/24", "10.0.0.1",
		},
		"none of the family":  {[]string{"10.0.0.1", "external:fd00::1"}, "fd00:1::/64", ""},
		"no address":          {nil, "10.244.1.0/24", ""},
		"IPv4 mapped to IPv6": {[]string{"::ffff:10.0.0.1"}, "10.244.1.0/24", "10.0.0.1"},
	} {
		got, err := nextHopsTo(node("n", test.addresses), netip.MustParsePrefix(test.destination))
		if test.via == "" {
			if err == nil || !strings.Contains(err.Error(), "node n has no InternalIP of family") {
				t.Errorf("%s: the error is %v", name, err)
			}
		} else if err != nil || strings.Trim(fmt.Sprint(got), "[]") != test.via {
			t.Errorf("%s: the next hops are %v, %v; want %s", name, got, err, test.via)
		}
	}
}
