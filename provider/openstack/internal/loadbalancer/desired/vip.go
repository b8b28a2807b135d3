package desired

import (
	"fmt"
	"net/netip"
	"strings"

	v1 "k8s.io/api/core/v1"

	"github.com/fxccm/fxccm/provider/openstack/internal/events"
	"github.com/fxccm/fxccm/provider/openstack/internal/loadbalancer/neutron"
	"github.com/fxccm/fxccm/provider/openstack/internal/loadbalancer/octavia"
	"github.com/fxccm/fxccm/provider/openstack/internal/loadbalancer/settings"
)

// loadBalancer returns the desired load balancer without its contents.
func (b *builder) loadBalancer(address string) octavia.LoadBalancer {
	lb := octavia.LoadBalancer{
		Name:        b.Identity.LoadBalancerName(),
		Description: b.Identity.LoadBalancerDescription(),
		Tags:        b.loadBalancerTags(),
		Provider:    b.Settings.Provider,
		VIP:         b.vip(),
	}
	if !b.wantsFloatingIP() {
		lb.VIP.Address = address
	}
	lb.AdditionalVIPs = b.additionalVIPs()
	if b.Features.Flavors {
		lb.FlavorID = b.Settings.FlavorID
	} else if b.Settings.FlavorID != "" && !b.Guest {
		b.warn(events.FlavorIgnored, b.ignored("flavor-id", b.Settings.FlavorID))
	}
	if b.Features.AvailabilityZones {
		lb.AvailabilityZone = b.Settings.AvailabilityZone
	} else if b.Settings.AvailabilityZone != "" && !b.Guest {
		b.warn(events.AvailabilityZonesIgnored,
			b.ignored("availability-zone", b.Settings.AvailabilityZone))
	}
	return lb
}

// ignored tells why the value of an option has no effect on a load balancer. The option is called
// like the field of the API.
func (b *builder) ignored(option, value string) string {
	why := "the provider ovn does not support it; remove it, or set lb-provider to another provider"
	if b.Features.HTTP {
		field := strings.ReplaceAll(option, "-", "_")
		why = fmt.Sprintf("it needs Octavia API 2.%d, but the cloud has 2.%d; remove it",
			octavia.FieldsOf[octavia.LoadBalancer]().Since(field), b.Features.Minor)
	}
	return fmt.Sprintf("%s %s is ignored: %s", b.nameOf(option), value, why)
}

// loadBalancerTags adds the tags by which other Services find a load balancer to share.
func (b *builder) loadBalancerTags() []string {
	tags := b.tags()
	if !b.Features.Tags {
		if b.Settings.ShareAs != "" {
			b.warn(events.NotShared, fmt.Sprintf("%s is ignored: Services find a load balancer to "+
				"share by its tags, and Octavia API 2.%d has none; remove the option, or upgrade "+
				"Octavia", b.nameOf("share-as"), b.Features.Minor))
		}
		return tags
	}
	for _, key := range b.Settings.ShareKeys {
		tags = append(tags, ShareTag(key))
	}
	return tags
}

// tags returns the tags of the load balancer and its listeners.
func (b *builder) tags() []string {
	if !b.Features.Tags {
		return nil
	}
	return b.Identity.Tags()
}

// vip returns the place of the address: from the settings, or else from the lookup. As with OCCM, a
// port determines the rest. If only a network is named, the subnet found in it is used, so that a
// recreated load balancer keeps its family.
func (b *builder) vip() octavia.VIP {
	asked, found := b.Settings, b.Places.VIP
	switch {
	case asked.PortID != "":
		return octavia.VIP{PortID: asked.PortID}
	case asked.SubnetID != "":
		return octavia.VIP{SubnetID: asked.SubnetID, NetworkID: asked.NetworkID}
	case asked.NetworkID != "" && asked.NetworkID == found.NetworkID:
		return octavia.VIP{SubnetID: found.SubnetID, NetworkID: asked.NetworkID}
	case asked.NetworkID != "":
		return octavia.VIP{NetworkID: asked.NetworkID}
	case found.SubnetID != "":
		return octavia.VIP{SubnetID: found.SubnetID}
	}
	return octavia.VIP{NetworkID: found.NetworkID}
}

// additionalVIPs returns the VIPs for the second family. Octavia adds them only at creation.
func (b *builder) additionalVIPs() []octavia.VIP {
	wanted := b.Service.Spec.IPFamilies
	if len(wanted) < 2 {
		return nil
	}
	if len(b.families) == 2 {
		vips := make([]octavia.VIP, 0, len(b.Places.AdditionalVIPs))
		address := b.Settings.AdditionalAddress
		if b.Places.KeepsAdditionalVIPs {
			address = ""
		}
		for _, found := range b.Places.AdditionalVIPs {
			vips = append(vips, octavia.VIP{SubnetID: found.SubnetID, Address: address})
		}
		return vips
	}
	if b.Guest {
		return nil
	}
	var why string
	switch {
	case b.Features.AdditionalVIPs && !b.exists():
		// The lookup of the subnet has written a notice.
		return nil
	case b.Features.AdditionalVIPs:
		why = fmt.Sprintf("the load balancer has no %s address, and Octavia cannot add one; "+
			"set additional-subnet-id and recreate to get one", wanted[1])
	case b.Features.HTTP:
		why = fmt.Sprintf("dual stack needs Octavia API 2.26, but the cloud has 2.%d; upgrade Octavia",
			b.Features.Minor)
	default:
		why = fmt.Sprintf("dual stack with the provider ovn needs Octavia API 2.30, but the cloud "+
			"has 2.%d; upgrade Octavia, or set lb-provider to another provider", b.Features.Minor)
	}
	message := fmt.Sprintf("only %s is served: %s", wanted[0], why)
	asked := b.Settings.AdditionalAddress
	if asked != "" {
		message = fmt.Sprintf("%s of %s has no effect, and %s", asked,
			settings.AddressSource(b.Service, asked), message)
	}
	policy := b.Service.Spec.IPFamilyPolicy
	if asked != "" || policy != nil && *policy == v1.IPFamilyPolicyRequireDualStack {
		b.warn(events.SingleStack, message)
	} else {
		b.note(events.SingleStack, message)
	}
	return nil
}

// address returns the address that the Service requests for its first family: the floating IP's if
// the Service wants one, else the VIP's; "" for any.
func (b *builder) address() (string, error) {
	asked := b.Settings.Address
	if asked == "" {
		return "", nil
	}
	address, err := netip.ParseAddr(asked)
	source := settings.AddressSource(b.Service, asked)
	if err != nil {
		return "", fmt.Errorf("%s %q is not an IP address; correct it", source, asked)
	}
	if familyOf(address) != b.family() {
		return "",
			fmt.Errorf("%s %s is not an %s address, the load balancer's IP family; correct it", source,
				asked, b.family())
	}
	return asked, nil
}

// wantsFloatingIP is false for IPv6, which has no floating IPs, and for a VIP that is public.
func (b *builder) wantsFloatingIP() bool {
	return !b.Settings.Internal && b.family() == v1.IPv4Protocol && !b.Places.IsPublic
}

// admitFloatingIP refuses a named floating IP for a load balancer that can have none.
func (b *builder) admitFloatingIP() error {
	if by := b.Settings.FloatingIPBy(); by != "" && b.Places.IsPublic && !b.Guest {
		return fmt.Errorf("annotation %s cannot be used: the address of the load balancer is in an "+
			"external network, where it has no floating IP; remove it", by)
	}
	return nil
}

// floatingIP is desired for each external IPv4 Service, even if none can be created, so that an
// existing one stays.
func (b *builder) floatingIP(address string) *neutron.WantedFloatingIP {
	if b.Guest {
		return nil
	}
	if !b.wantsFloatingIP() {
		switch {
		case b.Settings.Internal:
		case b.Places.IsPublic:
			b.note(events.FloatingIPSkipped, "publishing the load balancer's own address: it is "+
				"in an external network and needs no floating IP")
		default:
			b.note(events.FloatingIPSkipped,
				"publishing the load balancer's IPv6 address: there are no IPv6 floating IPs")
		}
		return nil
	}
	if b.Places.FloatingNetworkID == "" && !b.HasFloatingIP {
		b.warn(events.ForcedInternal,
			"no external network found for a floating IP; the load balancer has only its internal address; "+
				"set floating-network-id in [LoadBalancer] of cloud.conf or by annotation, or make the Service internal")
	}
	wanted := &neutron.WantedFloatingIP{
		NetworkID:   b.Places.FloatingNetworkID,
		ID:          b.Settings.FloatingIPID,
		PoolTag:     b.Settings.FloatingIPTag,
		Address:     address,
		Description: b.Identity.FloatingIPDescription(),
		Tags:        b.Identity.NetworkTags(),
	}
	if address == "" {
		// Neutron derives the subnet from a requested address.
		wanted.SubnetIDs = b.Places.FloatingSubnetIDs
	} else {
		wanted.Source = settings.AddressSource(b.Service, address)
	}
	return wanted
}
