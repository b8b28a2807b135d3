package places

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/fxccm/fxccm/provider/openstack/internal/loadbalancer/neutron"
)

// floatingIP is where a floating IP is made, if one may be: of an external Service of IPv4 that has none.
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
	// An address that is asked for tells its subnet.
	if network == "" || r.Settings.Address != "" {
		return nil
	}
	return r.floatingSubnets(ctx)
}

// floatingSubnet is the one that is named. It tells its network, if the project sees it: Neutron shows the subnets of an external network to
// its owner, to administrators, and to those it is shared with, and makes floating IPs in them for everybody.
func (r *resolver) floatingSubnet(ctx context.Context) error {
	named := r.Settings.FloatingNetworkID
	subnet, err := r.cloud.Subnet(ctx, r.Settings.FloatingSubnetID)
	switch {
	case errors.Is(err, neutron.ErrNotFound):
		return r.unseenFloatingSubnet(ctx)
	case err != nil:
		return err
	case named != "" && named != subnet.NetworkID:
		return impossible("subnet %s, which is named for floating IPs, is in network %s, and not in %s, which is named, too", subnet.ID, subnet.NetworkID, named)
	case subnet.IPv6:
		return impossible("subnet %s, which is named for floating IPs, is of IPv6", subnet.ID)
	}
	r.places.FloatingNetworkID, r.places.FloatingSubnetIDs = subnet.NetworkID, []string{subnet.ID}
	return nil
}

// unseenFloatingSubnet takes the one that is named for one of the external network. If it is not, Neutron says so.
func (r *resolver) unseenFloatingSubnet(ctx context.Context) (err error) {
	network := r.Settings.FloatingNetworkID
	if network == "" {
		if network, err = r.cloud.ExternalNetwork(ctx); err != nil {
			return err
		}
	}
	if network == "" {
		return impossible("there is no subnet %s that the project sees, and no external network it could be in", r.Settings.FloatingSubnetID)
	}
	r.places.FloatingNetworkID, r.places.FloatingSubnetIDs = network, []string{r.Settings.FloatingSubnetID}
	return nil
}

// floatingSubnets are those of the network that the pattern and the tags choose.
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
		return impossible("none of the IPv4 subnets of network %s that the project sees (%d) has %s; those of a network of others can be named by their ids alone",
			r.places.FloatingNetworkID, len(all), asked(pattern, tags))
	}
	return nil
}

func asked(pattern, tags string) string {
	var all []string
	if pattern != "" {
		all = append(all, fmt.Sprintf("a name that fits %q", pattern))
	}
	if tags != "" {
		all = append(all, fmt.Sprintf("tags that fit %q", tags))
	}
	return strings.Join(all, " and ")
}
