package cloudcontrollers

import (
	"fmt"
	"net"
	"strings"

	netutils "k8s.io/utils/net"
)

// ParseClusterCIDRs reads a --cluster-cidr: one CIDR, or two of different IP families separated by
// a comma. The error says which rule was broken.
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
