package desired

import (
	"context"
	"errors"
	"fmt"

	v1 "k8s.io/api/core/v1"

	"github.com/fxccm/fxccm/provider/openstack/internal/events"
	"github.com/fxccm/fxccm/provider/openstack/internal/loadbalancer/neutron"
	"github.com/fxccm/fxccm/provider/openstack/internal/loadbalancer/octavia"
)

// namesPlace reports whether the settings name the place of the VIP.
func (r *resolver) namesPlace() bool {
	return r.Settings.PortID != "" || r.Settings.SubnetID != "" || r.Settings.NetworkID != ""
}

// vip finds the place of the existing or new load balancer.
func (r *resolver) vip(ctx context.Context) error {
	asked := r.Settings
	switch {
	case r.existing != nil:
		r.places.VIP = octavia.VIP{
			SubnetID:  r.existing.VIP.SubnetID,
			NetworkID: r.existing.VIP.NetworkID,
		}
		return nil
	case asked.PortID != "":
		r.places.VIP = octavia.VIP{PortID: asked.PortID}
		return nil
	case r.namesPlace():
		r.places.VIP = octavia.VIP{SubnetID: asked.SubnetID, NetworkID: asked.NetworkID}
		return r.subnetOfNetwork(ctx)
	}
	subnet, err := r.nodeSubnet(ctx)
	if err != nil {
		return err
	}
	if subnet == "" {
		return fmt.Errorf("%w, because neither a subnet nor a network is configured", ErrNoNode)
	}
	r.places.VIP = octavia.VIP{SubnetID: subnet}
	return nil
}

// subnetOfNetwork chooses an IPv6 subnet in a network that is named without a subnet, because
// Octavia would prefer an IPv4 one (octavia/api/v2/controllers/load_balancer.py). A requested
// address determines its subnet.
func (r *resolver) subnetOfNetwork(ctx context.Context) error {
	vip := &r.places.VIP
	if vip.SubnetID != "" || !isIPv6(r.families[0]) || r.Settings.Address != "" {
		return nil
	}
	subnet, err := r.firstSubnet(ctx, vip.NetworkID, v1.IPv6Protocol)
	if err == nil && subnet == "" {
		err = impossible("the Service is IPv6, but the configured network %s has no IPv6 subnet",
			vip.NetworkID)
	}
	vip.SubnetID = subnet
	return err
}

// firstSubnet returns the ID of the first subnet of a family in a network, by ID, or "".
func (r *resolver) firstSubnet(
	ctx context.Context, networkID string, family v1.IPFamily,
) (string, error) {
	all, err := r.cloud.Subnets(ctx, networkID)
	if err != nil {
		return "", err
	}
	for _, subnet := range all {
		if subnet.IPv6 == isIPv6(family) {
			return subnet.ID, nil
		}
	}
	return "", nil
}

// additionalVIPs finds the subnet for the second family of the Service. Octavia adds such a VIP
// only at creation.
func (r *resolver) additionalVIPs(ctx context.Context) error {
	if len(r.families) < 2 || !r.Features.AdditionalVIPs {
		return nil
	}
	if r.existing != nil {
		r.places.AdditionalVIPs = r.existingVIPs()
		return nil
	}
	subnet := r.Settings.AdditionalSubnetID
	why := ""
	if subnet == "" {
		var err error
		if subnet, why, err = r.secondSubnet(ctx); err != nil {
			return err
		}
	}
	policy := r.Service.Spec.IPFamilyPolicy
	switch {
	case subnet != "":
		r.places.AdditionalVIPs = []octavia.VIP{{SubnetID: subnet}}
	case policy != nil && *policy == v1.IPFamilyPolicyRequireDualStack:
		return impossible("the Service requires dual stack, but %s", why)
	default:
		r.notices = append(r.notices, Notice{
			Reason:  events.SingleStack,
			Message: fmt.Sprintf("only %s is served: %s", r.families[0], why),
		})
	}
	return nil
}

// existingVIPs returns the VIPs of the load balancer or, because an update may change it, the named
// one.
func (r *resolver) existingVIPs() []octavia.VIP {
	has := r.existing.AdditionalVIPs
	named := r.Settings.AdditionalSubnetID
	if named != "" && !r.Guest && (len(has) > 0 || r.Settings.Recreate) {
		return []octavia.VIP{{SubnetID: named}}
	}
	return has
}

// secondSubnet returns a subnet of the second family in the VIP's network, or "" and the reason as
// a clause.
func (r *resolver) secondSubnet(ctx context.Context) (subnet, why string, err error) {
	network := r.places.VIP.NetworkID
	if network == "" && r.places.VIP.SubnetID != "" {
		first, err := r.namedSubnet(ctx, r.places.VIP.SubnetID)
		if err != nil {
			return "", "", err
		}
		network = first.NetworkID
	}
	if network == "" {
		return "",
			"the subnet of the second address is not configured; a load balancer on a given port needs it", nil
	}
	subnet, err = r.firstSubnet(ctx, network, r.families[1])
	return subnet,
		fmt.Sprintf("network %s of the load balancer has no %s subnet", network, r.families[1]), err
}

// namedSubnet returns a subnet that must exist.
func (r *resolver) namedSubnet(ctx context.Context, id string) (neutron.Subnet, error) {
	subnet, err := r.cloud.Subnet(ctx, id)
	if errors.Is(err, neutron.ErrNotFound) {
		return neutron.Subnet{},
			impossible("subnet %s does not exist or is not visible to the project", id)
	}
	return subnet, err
}
