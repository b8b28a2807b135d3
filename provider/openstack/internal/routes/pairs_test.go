package routes

import (
	"net/netip"
	"slices"
	"strings"
	"testing"

	"github.com/gophercloud/gophercloud/v2/openstack/networking/v2/ports"
)

// pairsOf parses addresses, each with an optional " mac" suffix.
func pairsOf(texts ...string) []ports.AddressPair {
	pairs := []ports.AddressPair{}
	for _, text := range texts {
		address, mac, _ := strings.Cut(text, " ")
		pairs = append(pairs, ports.AddressPair{IPAddress: address, MACAddress: mac})
	}
	return pairs
}

// The port's MAC address is aa.
func TestPairs_AreAddedAndRemoved(t *testing.T) {
	for name, test := range map[string]struct {
		pairs []ports.AddressPair
		do    func(port, netip.Prefix) ([]ports.AddressPair, bool)
		cidr  string
		want  []ports.AddressPair // nil: no change
	}{
		"none yet": {nil, withPair, "10.244.1.0/24", pairsOf("10.244.1.0/24")},
		"beside others": {
			pairsOf("10.9.0.1 aa"), withPair, "fd00:1::/64", pairsOf("10.9.0.1 aa", "fd00:1::/64"),
		},
		"there":                 {pairsOf("10.244.1.0/24 AA"), withPair, "10.244.1.0/24", nil},
		"covered":               {pairsOf("10.244.0.0/16"), withPair, "10.244.1.0/24", nil},
		"covered by everything": {pairsOf("::/0 aa"), withPair, "fd00:1::/64", nil},
		"everything of the other family": {
			pairsOf("0.0.0.0/0 aa"), withPair, "fd00:1::/64",
			pairsOf("0.0.0.0/0 aa", "fd00:1::/64"),
		},
		"a part of it": {
			pairsOf("10.244.1.0/25 aa", "10.244.1.3 aa"), withPair, "10.244.1.0/24",
			pairsOf("10.244.1.0/25 aa", "10.244.1.3 aa", "10.244.1.0/24"),
		},
		"another MAC address's": {
			pairsOf("10.244.1.0/24 bb"), withPair, "10.244.1.0/24",
			pairsOf("10.244.1.0/24 bb", "10.244.1.0/24"),
		},
		"unreadable": {
			pairsOf("x aa"), withPair, "10.244.1.0/24", pairsOf("x aa", "10.244.1.0/24"),
		},

		"removed from none": {nil, withoutPair, "10.244.1.0/24", nil},
		"removed": {
			pairsOf("10.9.0.1 aa", "10.244.1.0/24 AA", "10.9.0.2 aa"), withoutPair,
			"10.244.1.0/24", pairsOf("10.9.0.1 aa", "10.9.0.2 aa"),
		},
		"removed as the last one": {
			pairsOf("10.244.1.0/24"), withoutPair, "10.244.1.0/24", pairsOf(),
		},
		"a wider one stays": {pairsOf("10.244.0.0/16 aa"), withoutPair, "10.244.1.0/24", nil},
		"another's stays":   {pairsOf("10.244.1.0/24 bb"), withoutPair, "10.244.1.0/24", nil},
	} {
		before := slices.Clone(test.pairs)
		got, needed := test.do(port{MAC: "aa", Pairs: test.pairs}, netip.MustParsePrefix(test.cidr))
		if needed != (test.want != nil) || needed && !slices.Equal(got, test.want) {
			t.Errorf("%s: %v, %t; want %v", name, got, needed, test.want)
		}
		if !slices.Equal(before, test.pairs) {
			t.Errorf("%s: the port was changed in place", name)
		}
	}
	off := false
	if got, needed := withPair(port{PortSecurity: &off},
		netip.MustParsePrefix("10.244.1.0/24")); needed {
		t.Errorf("without port security: %v", got)
	}
}
