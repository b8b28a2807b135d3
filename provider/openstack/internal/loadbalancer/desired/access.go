package desired

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"

	"github.com/fxccm/fxccm/provider/openstack/internal/events"
	"github.com/fxccm/fxccm/provider/openstack/internal/loadbalancer/octavia"
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
			b.warn(events.SourceRangesIgnored, b.ignoredRanges())
		}
		return nil, nil
	}
	if len(b.families) > 1 && b.Features.AllowedCIDRs && !b.Features.AllVIPsCIDRs {
		if asked == nil {
			return nil, nil
		}
		return nil, fmt.Errorf("source ranges on a dual-stack load balancer need Octavia API "+
			"2.27, but the cloud has 2.%d; remove them, or request one IP family",
			b.Features.Minor)
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
			return nil, fmt.Errorf("source range %q is not a CIDR; correct it", cidr)
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
				"none of the source ranges (%s) is in the load balancer's IP family (%s), so no "+
					"client could connect; add ranges of that family",
				strings.Join(others, ", "), b.familyNames())
	}
	if len(others) > 0 {
		b.warn(events.SourceRangesLeftOut,
			fmt.Sprintf("source ranges %s have no effect, because the load balancer has only %s "+
				"addresses; remove them, or give it the other family", strings.Join(others, ", "),
				b.familyNames()))
	}
	return sorted(cidrs), nil
}

// ignoredRanges tells why the source ranges have no effect.
func (b *builder) ignoredRanges() string {
	setting := "annotation " + v1.AnnotationLoadBalancerSourceRangesKey
	if len(b.Service.Spec.LoadBalancerSourceRanges) > 0 {
		setting = "spec.loadBalancerSourceRanges"
	}
	why := "the provider ovn cannot restrict clients; set manage-security-groups in cloud.conf, " +
		"or lb-provider to another provider"
	if !b.Features.KeepsClientAddress {
		why = fmt.Sprintf("it needs Octavia API 2.%d, but the cloud has 2.%d; upgrade Octavia, or "+
			"restrict clients by other means",
			octavia.FieldsOf[octavia.Listener]().Since("allowed_cidrs"), b.Features.Minor)
	}
	return setting + " is ignored, and every client may connect: " + why
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
