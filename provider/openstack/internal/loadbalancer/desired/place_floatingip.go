package desired

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/fxccm/fxccm/provider/openstack/internal/loadbalancer/neutron"
)

// floatingIP finds the place of a new floating IP, if the Service is external and IPv4 and has
// none.
func (r *resolver) floatingIP(ctx context.Context) error {
	if r.Settings.Internal || r.Guest || r.HasFloatingIP || isIPv6(r.families[0]) {
		return nil
	}
	if r.Settings.FloatingSubnetID != "" {
		return r.floatingSubnet(ctx)
	}
	network := r.Settings.FloatingNetworkID
	if network == "" {
		var err error
		if network, err = r.cloud.ExternalNetwork(ctx); err != nil {
			return err
		}
	}
	r.places.FloatingNetworkID = network
	// Neutron derives the subnet from a requested address.
	if network == "" || r.Settings.Address != "" {
		return nil
	}
	return r.floatingSubnets(ctx)
}

// floatingSubnet looks up the named subnet. The subnet determines its network, if Neutron shows it:
// Neutron shows the subnets of an external network only to its owner, to administrators and to the
// projects it is shared with, but creates floating IPs in them for all projects.
func (r *resolver) floatingSubnet(ctx context.Context) error {
	named := r.Settings.FloatingNetworkID
	subnet, err := r.cloud.Subnet(ctx, r.Settings.FloatingSubnetID)
	switch {
	case errors.Is(err, neutron.ErrNotFound):
		return r.unseenFloatingSubnet(ctx)
	case err != nil:
		return err
	case named != "" && named != subnet.NetworkID:
		return impossible(
			"floating subnet %s is in network %s, not in the configured floating network %s",
			subnet.ID, subnet.NetworkID, named)
	case subnet.IPv6:
		return impossible("floating subnet %s is an IPv6 subnet; floating IPs are IPv4", subnet.ID)
	}
	r.places.FloatingNetworkID, r.places.FloatingSubnetIDs = subnet.NetworkID, []string{subnet.ID}
	return nil
}

// unseenFloatingSubnet assumes that a named subnet belongs to the external network. If not, Neutron
// refuses it.
func (r *resolver) unseenFloatingSubnet(ctx context.Context) (err error) {
	network := r.Settings.FloatingNetworkID
	if network == "" {
		if network, err = r.cloud.ExternalNetwork(ctx); err != nil {
			return err
		}
	}
	if network == "" {
		return impossible(
			"floating subnet %s is not visible to the project, and there is no external network",
			r.Settings.FloatingSubnetID)
	}
	r.places.FloatingNetworkID, r.places.FloatingSubnetIDs = network,
		[]string{r.Settings.FloatingSubnetID}
	return nil
}

// floatingSubnets returns the subnets of the network that the pattern and the tags choose.
func (r *resolver) floatingSubnets(ctx context.Context) error {
	pattern, tags := r.Settings.FloatingSubnet, r.Settings.FloatingSubnetTags
	if pattern == "" && tags == "" {
		return nil
	}
	fits, err := subnetFilter(pattern, tags)
	if err != nil {
		return &ImpossibleError{err.Error()}
	}
	all, err := r.cloud.Subnets(ctx, r.places.FloatingNetworkID)
	if err != nil {
		return err
	}
	for _, subnet := range all {
		if !subnet.IPv6 && fits(subnet) {
			r.places.FloatingSubnetIDs = append(r.places.FloatingSubnetIDs, subnet.ID)
		}
	}
	if len(r.places.FloatingSubnetIDs) == 0 {
		return impossible(
			"none of the %[2]d IPv4 subnets of network %[1]s visible to the project has %[3]s; name a subnet of another project's network by its ID",
			r.places.FloatingNetworkID, len(all), asked(pattern, tags))
	}
	return nil
}

func asked(pattern, tags string) string {
	var all []string
	if pattern != "" {
		all = append(all, fmt.Sprintf("a name matching %q", pattern))
	}
	if tags != "" {
		all = append(all, fmt.Sprintf("tags matching %q", tags))
	}
	return strings.Join(all, " and ")
}
