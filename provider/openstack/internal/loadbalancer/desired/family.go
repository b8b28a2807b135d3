package desired

import (
	"net/netip"

	v1 "k8s.io/api/core/v1"
)

// families returns the families of the load balancer's addresses: the Service's first one, and the
// second if a VIP exists for it.
func families(in Input) []v1.IPFamily {
	wanted := familiesOf(in.Service)
	if len(wanted) > 1 && in.Features.AdditionalVIPs && len(in.Places.AdditionalVIPs) > 0 {
		return wanted[:2]
	}
	return wanted[:1]
}

// family returns the family of the first VIP.
func (b *builder) family() v1.IPFamily { return b.families[0] }

func familyOf(address netip.Addr) v1.IPFamily {
	if address.Is4() {
		return v1.IPv4Protocol
	}
	return v1.IPv6Protocol
}

func allAddresses(family v1.IPFamily) string {
	if family == v1.IPv6Protocol {
		return "::/0"
	}
	return "0.0.0.0/0"
}
