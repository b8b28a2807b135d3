package cloudcontrollers

import (
	"cmp"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"strings"

	netutils "k8s.io/utils/net"
)

// ParseClusterCIDRs reads a --cluster-cidr: one CIDR, or two of different IP families separated by
// a comma.
func ParseClusterCIDRs(list string) ([]*net.IPNet, error) {
	if strings.TrimSpace(list) == "" {
		return nil, fmt.Errorf(
			"empty: give one CIDR, or an IPv4 and an IPv6 one separated by a comma")
	}
	parts := strings.Split(list, ",")
	if len(parts) > 2 {
		return nil, fmt.Errorf("%d CIDRs given, at most two are possible: one IPv4 and one IPv6",
			len(parts))
	}
	cidrs := make([]*net.IPNet, 0, len(parts))
	for _, part := range parts {
		_, cidr, err := netutils.ParseCIDRSloppy(strings.TrimSpace(part))
		if err != nil {
			return nil, fmt.Errorf("%q is not a CIDR like 10.244.0.0/16 or fd00:10:244::/56",
				strings.TrimSpace(part))
		}
		cidrs = append(cidrs, cidr)
	}
	if len(cidrs) == 2 && netutils.IsIPv6CIDR(cidrs[0]) == netutils.IsIPv6CIDR(cidrs[1]) {
		return nil, fmt.Errorf(
			"%s and %s are of one IP family, two CIDRs must be one IPv4 and one IPv6",
			cidrs[0], cidrs[1])
	}
	return cidrs, nil
}

// MaskSizes are the prefix lengths of node ranges, as set by the flag --node-cidr-mask-size and its
// two variants for one family. 0 means not set.
type MaskSizes struct{ Any, IPv4, IPv6 int32 }

// A NodeRange is a cluster CIDR that is divided into ranges of Bits bits, one for each node.
type NodeRange struct {
	Cluster netip.Prefix
	Bits    int
}

// maxIndexBits limits the number of ranges in a cluster CIDR, because each has a counter in memory.
const maxIndexBits = 20

// NodeRanges divides the cluster CIDRs by the rules of kube-controller-manager: one mask size for a
// single family, one for each of two families, 24 and 64 by default.
func NodeRanges(clusterCIDR string, sizes MaskSizes) ([]NodeRange, error) {
	cidrs, err := ParseClusterCIDRs(clusterCIDR)
	if err != nil {
		return nil, fmt.Errorf("cluster CIDR: %w", err)
	}
	if sizes.Any != 0 && (len(cidrs) == 2 || sizes.IPv4 != 0 || sizes.IPv6 != 0) {
		return nil, errors.New("--node-cidr-mask-size is for one cluster CIDR and excludes the " +
			"variants -ipv4 and -ipv6; with two cluster CIDRs use these two")
	}
	ranges := make([]NodeRange, len(cidrs))
	used := map[bool]bool{} // by IsIPv6CIDR
	for i, cidr := range cidrs {
		isIPv6 := netutils.IsIPv6CIDR(cidr)
		used[isIPv6] = true
		bits := cmp.Or(sizes.Any, sizes.IPv4, 24)
		if isIPv6 {
			bits = cmp.Or(sizes.Any, sizes.IPv6, 64)
		}
		ranges[i] = NodeRange{Cluster: prefixOf(cidr), Bits: int(bits)}
		if err := ranges[i].validate(); err != nil {
			return nil, err
		}
	}
	if sizes.IPv4 != 0 && !used[false] || sizes.IPv6 != 0 && !used[true] {
		return nil, fmt.Errorf("a node mask size is given for an IP family that the cluster CIDR "+
			"%s does not have", clusterCIDR)
	}
	return ranges, nil
}

func (r NodeRange) validate() error {
	cluster, width := r.Cluster.Bits(), r.Cluster.Addr().BitLen()
	switch {
	case r.Bits < cluster || r.Bits > width:
		return fmt.Errorf("node mask size %d must be from %d, the size of the cluster CIDR %s, "+
			"to %d", r.Bits, cluster, r.Cluster, width)
	case r.Bits-cluster > maxIndexBits:
		return fmt.Errorf("node mask size %d must be at most %d, which is %d more than the size "+
			"of the cluster CIDR %s", r.Bits, cluster+maxIndexBits, maxIndexBits, r.Cluster)
	}
	return nil
}

// ParsePrefixes reads one CIDR, or two of different IP families separated by a comma.
func ParsePrefixes(list string) ([]netip.Prefix, error) {
	cidrs, err := ParseClusterCIDRs(list)
	if err != nil {
		return nil, err
	}
	prefixes := make([]netip.Prefix, len(cidrs))
	for i, cidr := range cidrs {
		prefixes[i] = prefixOf(cidr)
	}
	return prefixes, nil
}

// prefixOf converts a CIDR that has been parsed, and therefore is valid.
func prefixOf(cidr *net.IPNet) netip.Prefix {
	address, _ := netip.AddrFromSlice(cidr.IP)
	bits, _ := cidr.Mask.Size()
	return netip.PrefixFrom(address.Unmap(), bits)
}

// IsSameCIDR reports whether two texts are the same range. Both may have host bits, which the API
// server accepts in a Node.
func IsSameCIDR(a, b string) bool {
	_, first, errOfFirst := netutils.ParseCIDRSloppy(a)
	_, second, errOfSecond := netutils.ParseCIDRSloppy(b)
	return errOfFirst == nil && errOfSecond == nil && first.String() == second.String()
}
