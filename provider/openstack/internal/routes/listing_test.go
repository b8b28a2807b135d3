package routes

import (
	"fmt"
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"
)

func TestListing_RoutesOfTheRouter_BelongToNodesOrToOthers(t *testing.T) {
	a := node("a", []string{"10.0.0.1", "10.0.9.1", "fd00::1", "external:192.0.2.1"},
		"10.244.1.0/24", "fd00:0:0:1::/64")
	b := node("b", []string{"10.0.0.2"}, "10.244.2.0/24")
	homeless := node("homeless", nil, "10.244.3.0/24")
	// old and b have one address, because a server was replaced.
	old := node("0-old", []string{"10.0.0.2"}, "10.244.4.0/24")

	k := knowledge{
		nodes: indexNodes([]*v1.Node{a, b, homeless, old}, nil),
		known: map[route]string{
			mustRoute(t, "10.244.1.0/24 via 10.0.0.81"): "a",
			mustRoute(t, "10.244.3.0/24 via 10.0.0.3"):  "homeless",
			mustRoute(t, "10.244.5.0/24 via 10.0.0.66"): "gone",
		},
	}
	for name, test := range map[string]struct{ route, want string }{
		"to a node": {
			"10.244.1.0/24 via 10.0.0.1",
			"10.244.1.0/24 to a, 4 addresses",
		},
		"by another InternalIP of it": {
			"10.244.1.0/24 via 10.0.9.1",
			"10.244.1.0/24 to a, 4 addresses",
		},
		"of IPv6, written as the node does": {
			"fd00:0000:0000:0001::/64 via FD00::1",
			"fd00:0:0:1::/64 to a, 4 addresses",
		},
		"that is no pod CIDR of the node": {
			"10.244.77.0/24 via 10.0.0.1",
			"10.244.77.0/24 to a, 4 addresses",
		},
		"to two nodes of one address, by CIDR": {
			"10.244.2.0/24 via 10.0.0.2",
			"10.244.2.0/24 to b, 1 addresses",
		},
		"to two nodes of one address, the other": {
			"10.244.4.0/24 via 10.0.0.2",
			"10.244.4.0/24 to 0-old, 1 addresses",
		},
		"by an external address of a node": {
			"10.244.1.0/24 via 192.0.2.1",
			"10.244.1.0/24 blackhole",
		},
		"by the address that a node had": {
			"10.244.1.0/24 via 10.0.0.81",
			"10.244.1.0/24 blackhole",
		},
		"to a node that has no address now": {
			"10.244.3.0/24 via 10.0.0.3",
			"10.244.3.0/24 to homeless, 0 addresses",
		},
		"to a node that is gone, its server not": {
			"10.244.5.0/24 via 10.0.0.66",
			"10.244.5.0/24 to gone, 0 addresses",
		},
		"to a foreign address": {"10.244.6.0/24 via 10.0.0.66", ""},
		"that cannot be read":  {"10.244.6.0/24 via x", ""},
		"with bits of the host, as others write": {
			"10.244.1.7/24 via 10.0.0.1",
			"10.244.1.0/24 to a, 4 addresses",
		},
		"of everything to a gateway": {"0.0.0.0/0 via 10.0.0.99", ""},
	} {
		var got []string
		for _, r := range listing(found(t, test.route), k) {
			target := "blackhole"
			if !r.Blackhole {
				target = fmt.Sprintf("to %s, %d addresses", r.TargetNode,
					len(r.TargetNodeAddresses))
			} else if r.TargetNode != "" {
				t.Errorf("%s: a blackhole has the target %s", name, r.TargetNode)
			}
			if !r.EnableNodeAddresses {
				t.Errorf("%s: the controller would not wait for deletions", name)
			}
			if parsed, err := parseName(r.Name); err != nil ||
				parsed != found(t, test.route)[0].route {
				t.Errorf("%s: the name is %q", name, r.Name)
			}
			got = append(got, r.DestinationCIDR+" "+target)
		}
		if strings.Join(got, "; ") != test.want {
			t.Errorf("a route %s: listed is %q, want %q", name, got, test.want)
		}
	}
}
