package desired

import (
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"github.com/fxccm/fxccm/provider/openstack/internal/events"
)

// clients returns the CIDRs that may connect, sorted; nil if access cannot be restricted.
//
// Without source ranges it returns all addresses explicitly, as OCCM sends them. Octavia refuses a
// range of a family of which the load balancer has no address (_validate_cidr_compatible_with_vip),
// so such a range is left out. If none is left the Service is refused, because an empty list would
// admit all clients.
func (b *builder) clients() ([]string, error) {
	asked := b.Settings.SourceRanges
	if !b.canRestrictClients() {
		if asked != nil {
			b.warn(events.SourceRangesIgnored,
				"the source ranges are ignored and every client may connect: this provider or Octavia API version cannot "+
					"restrict clients (API 2.12 is needed, or provider ovn with manage-security-groups)")
		}
		return nil, nil
	}
	if len(b.families) > 1 && b.Features.AllowedCIDRs && !b.Features.AllVIPsCIDRs {
		if asked == nil {
			return nil, nil
		}
		return nil, errors.New("source ranges on a dual-stack load balancer need Octavia API 2.27")
	}
	if asked == nil {
		cidrs := make([]string, 0, len(b.families))
		for _, family := range b.families {
			cidrs = append(cidrs, allAddresses(family))
		}
		return sorted(cidrs), nil
	}
	var cidrs, others []string
	for _, cidr := range asked {
		prefix, err := netip.ParsePrefix(cidr)
		if err != nil {
			return nil, fmt.Errorf("source range %q is not a CIDR", cidr)
		}
		if slices.Contains(b.families, familyOf(prefix.Addr())) {
			cidrs = append(cidrs, cidr)
		} else {
			others = append(others, cidr)
		}
	}
	if len(cidrs) == 0 {
		return nil,
			fmt.Errorf(
				"none of the source ranges (%s) is in the load balancer's IP family (%s); no client could connect",
				strings.Join(others, ", "), b.familyNames())
	}
	if len(others) > 0 {
		b.note(events.SourceRangesLeftOut,
			fmt.Sprintf("the load balancer has only %s addresses; source ranges %s have no effect",
				b.familyNames(), strings.Join(others, ", ")))
	}
	return sorted(cidrs), nil
}

// canRestrictClients reports whether the cloud or a security group can restrict clients.
func (b *builder) canRestrictClients() bool {
	return b.Features.AllowedCIDRs || b.Features.KeepsClientAddress &&
		b.Settings.ManageSecurityGroups
}

func (b *builder) familyNames() string {
	names := make([]string, 0, len(b.families))
	for _, family := range b.families {
		names = append(names, string(family))
	}
	return strings.Join(names, " and ")
}

func sorted(texts []string) []string {
	slices.Sort(texts)
	return slices.Compact(texts)
}
