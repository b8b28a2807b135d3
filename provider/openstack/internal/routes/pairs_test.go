package routes

import (
	"net/netip"
	"slices"
	"strings"
	"testing"

	"github.com/gophercloud/gophercloud/v2/openstack/networking/v2/ports"
)

// pairsOf takes addresses, with " mac" behind.
func pairsOf(texts ...string) []ports.AddressPair {
	pairs := []ports.AddressPair{}
	for _, text := range texts {
		address, mac, _ := strings.Cut(text, " ")
		pairs = append(pairs, ports.AddressPair{IPAddress: address, MACAddress: mac})
	}
	return pairs
}

func TestWithPair(t *testing.T) {
	off := false
	for name, test := range map[string]struct {
		port   port
		wanted string
		want   []ports.AddressPair
	}{
		"none yet": {
			port{MAC: "aa"},
			"10.244.1.0/24",
			pairsOf("10.244.1.0/24"),
		},
		"beside others": {
			port{MAC: "aa", Pairs: pairsOf("10.9.0.1 aa")},
			"10.244.1.0/24", pairsOf("10.9.0.1 aa", "10.244.1.0/24"),
		},
		"there": {
			port{MAC: "AA", Pairs: pairsOf("10.244.1.0/24 aa")},
			"10.244.1.0/24", nil,
		},
		"covered": {
			port{MAC: "aa", Pairs: pairsOf("10.244.0.0/16")},
			"10.244.1.0/24", nil,
		},
		"covered by everything": {
			port{MAC: "aa", Pairs: pairsOf("::/0 aa")},
			"fd00:1::/64", nil,
		},
		"everything of the other family": {
			port{MAC: "aa", Pairs: pairsOf("0.0.0.0/0 aa")},
			"fd00:1::/64", pairsOf("0.0.0.0/0 aa", "fd00:1::/64"),
		},
		"a part of it": {
			port{
				MAC:   "aa",
				Pairs: pairsOf("10.244.1.0/25 aa", "10.244.1.3 aa"),
			},
			"10.244.1.0/24",
			pairsOf("10.244.1.0/25 aa", "10.244.1.3 aa", "10.244.1.0/24"),
		},
		"another MAC address's": {
			port{MAC: "aa", Pairs: pairsOf("10.244.1.0/24 bb")},
			"10.244.1.0/24", pairsOf("10.244.1.0/24 bb", "10.244.1.0/24"),
		},
		"no port security": {
			port{MAC: "aa", PortSecurity: &off},
			"10.244.1.0/24", nil,
		},
		"unreadable": {
			port{MAC: "aa", Pairs: pairsOf("x aa")},
			"10.244.1.0/24",
			pairsOf("x aa", "10.244.1.0/24"),
		},
	} {
		before := slices.Clone(test.port.Pairs)
		got, needed := withPair(test.port, netip.MustParsePrefix(test.wanted))
		if needed != (test.want != nil) || !slices.Equal(got, test.want) {
			t.Errorf("%s: %v, %t; want %v", name, got, needed, test.want)
		}
		if !slices.Equal(before, test.port.Pairs) {
			t.Errorf("%s: the port was changed in place", name)
		}
	}
}

func TestWithoutPair(t *testing.T) {
	for name, test := range map[string]struct {
		port port
		want []ports.AddressPair
	}{
		"none": {port{MAC: "aa"}, nil},
		"there": {
			port{
				MAC:   "aa",
				Pairs: pairsOf("10.9.0.1 aa", "10.244.1.0/24 AA", "10.9.0.2 aa"),
			},
			pairsOf("10.9.0.1 aa", "10.9.0.2 aa"),
		},
		"the last one":          {port{MAC: "aa", Pairs: pairsOf("10.244.1.0/24")}, pairsOf()},
		"a wider one stays":     {port{MAC: "aa", Pairs: pairsOf("10.244.0.0/16 aa")}, nil},
		"another MAC address's": {port{MAC: "aa", Pairs: pairsOf("10.244.1.0/24 bb")}, nil},
	} {
		before := slices.Clone(test.port.Pairs)
		got, needed := withoutPair(test.port, netip.MustParsePrefix("10.244.1.0/24"))
		if needed != (test.want != nil) || needed && !slices.Equal(got, test.want) {
			t.Errorf("%s: %v, %t; want %v", name, got, needed, test.want)
		}
		if !slices.Equal(before, test.port.Pairs) {
			t.Errorf("%s: the port was changed in place", name)
		}
	}
}
