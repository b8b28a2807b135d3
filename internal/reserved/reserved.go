// Package reserved knows the addresses that are no other machine's: a connection to one stays on
// the machine or its link, or reaches the metadata service of a cloud.
package reserved

import (
	"net/netip"
	"slices"
)

var ranges = []netip.Prefix{
	range4(0, 0, 0, 0, 8),
	range4(127, 0, 0, 0, 8),
	range4(169, 254, 0, 0, 16),
	range4(224, 0, 0, 0, 3), // multicast, reserved, broadcast
	range6([16]byte{}, 127), // unspecified and loopback
	range6([16]byte{0xfe, 0x80}, 10),
	range6([16]byte{0xff}, 8),
	// NAT64 of a network of its own: the position of the address of IPv4 is not known.
	range6([16]byte{0x00, 0x64, 0xff, 0x9b, 0x00, 0x01}, 48),
	// Metadata services that are not link-local.
	range4(168, 63, 129, 16, 32),                                      // Azure
	range4(100, 100, 100, 200, 32),                                    // Alibaba Cloud
	range4(192, 0, 0, 192, 32),                                        // Oracle Cloud
	range6([16]byte{0xfd, 0x00, 0x0e, 0xc2}, 32),                      // AWS
	range6([16]byte{0xfd, 0x20, 0x00, 0xce, 14: 0x02, 15: 0x54}, 128), // Google Cloud
	range6([16]byte{0xfd, 0x00, 0x00, 0x42, 15: 0x42}, 128),           // Scaleway
}

// embedding are the ranges of IPv6 in which an address contains one of IPv4, and the position of
// its first byte: NAT64, addresses that are compatible with IPv4, and 6to4.
var embedding = map[netip.Prefix]int{
	range6([16]byte{0x00, 0x64, 0xff, 0x9b}, 96): 12,
	range6([16]byte{}, 96):                       12,
	range6([16]byte{0x20, 0x02}, 16):             2,
}

func range4(a, b, c, d byte, bits int) netip.Prefix {
	return netip.PrefixFrom(netip.AddrFrom4([4]byte{a, b, c, d}), bits)
}

func range6(first [16]byte, bits int) netip.Prefix {
	return netip.PrefixFrom(netip.AddrFrom16(first), bits)
}

// Has reports whether an address, or one that it leads to, is no other machine's.
func Has(address netip.Addr) bool {
	return slices.ContainsFunc(Meanings(address), func(a netip.Addr) bool {
		return slices.ContainsFunc(ranges, func(r netip.Prefix) bool { return r.Contains(a) })
	})
}

// Meanings returns an address without its zone, and the address of IPv4 that one of IPv6 contains.
func Meanings(address netip.Addr) []netip.Addr {
	address = address.Unmap().WithZone("")
	all := []netip.Addr{address}
	for prefix, first := range embedding {
		if prefix.Contains(address) {
			bytes := address.As16()
			all = append(all, netip.AddrFrom4([4]byte(bytes[first:first+4])))
		}
	}
	return all
}
