package neutron

import (
	"cmp"
	"context"
	"fmt"
	"net/netip"
	"net/url"
	"slices"
	"strings"
)

// Subnet returns a subnet; [ErrNotFound] if the project sees no subnet with that ID. It is cached
// for 10 min.
func (a *API) Subnet(ctx context.Context, id string) (Subnet, error) {
	found, ok, err := a.subnets.One(ctx, id)
	switch {
	case err != nil:
		return Subnet{}, err
	case !ok:
		return Subnet{}, fmt.Errorf("subnet %s: %w", id, ErrNotFound)
	}
	return found, nil
}

// Subnets returns the subnets of a network that the project sees, the oldest first. They are cached
// for networkAge, unless the list is empty.
func (a *API) Subnets(ctx context.Context, networkID string) ([]Subnet, error) {
	found, _, err := a.networks.One(ctx, networkID)
	return found, err
}

func (a *API) readSubnets(ctx context.Context, ids []string) (map[string]Subnet, error) {
	all, err := a.subnetsBy(ctx, "id", ids)
	if err != nil {
		return nil, err
	}
	found := map[string]Subnet{}
	for _, s := range all {
		found[s.ID] = s
	}
	return found, nil
}

func (a *API) readNetworks(
	ctx context.Context, ids []string,
) (map[string][]Subnet, error) {
	all, err := a.subnetsBy(ctx, "network_id", ids)
	if err != nil {
		return nil, err
	}
	found := map[string][]Subnet{}
	for _, s := range all {
		found[s.NetworkID] = append(found[s.NetworkID], s)
	}
	for _, subnets := range found {
		// The times have one format, so their texts are in the order of time.
		slices.SortStableFunc(subnets, func(a, b Subnet) int {
			return cmp.Compare(a.CreatedAt, b.CreatedAt)
		})
	}
	return found, nil
}

func (a *API) subnetsBy(ctx context.Context, attribute string, values []string) ([]Subnet, error) {
	return listBy[Subnet](ctx, a, "subnets", "subnets", attribute, values, url.Values{
		"fields": {
			"id", "name", "network_id", "cidr", "ip_version", "tags", "created_at", "gateway_ip",
			"host_routes",
		},
	})
}

// externalNetwork is a network that may provide floating IPs.
type externalNetwork struct {
	ID string `json:"id"`
	// Subnets are the IDs of all subnets, even of those that the project does not see.
	Subnets []string `json:"subnets"`
}

func (n externalNetwork) identifier() string { return n.ID }

// IsExternal reports whether a network is external. The answer is cached for networkAge.
func (a *API) IsExternal(ctx context.Context, networkID string) (bool, error) {
	all, _, err := a.external.One(ctx, "")
	return slices.Contains(all.ids, networkID), err
}

// ExternalNetwork returns the default network of floating IPs for ports in a subnet, or "". It has
// an IPv4 subnet, or its subnets are hidden from the project, as is common for external networks.
// Of several, a router must lead to it from the subnet or, if that is "", from an IPv4 subnet of
// the network, of which Octavia chooses one. If both are "", or no router leads to any of them, it
// is the first one by ID, as with OCCM. The answers are cached for networkAge.
func (a *API) ExternalNetwork(ctx context.Context, subnetID, networkID string) (string, error) {
	external, _, err := a.external.One(ctx, "")
	all := external.usable
	if err != nil || len(all) == 0 {
		return "", err
	}
	if len(all) == 1 || subnetID == "" && networkID == "" {
		return all[0], nil
	}
	subnets := []Subnet{{ID: subnetID}}
	if subnetID == "" {
		if subnets, err = a.Subnets(ctx, networkID); err != nil {
			return "", err
		}
	}
	for _, from := range subnets {
		if from.IPv6 {
			continue
		}
		routers, _, err := a.routers.One(ctx, from.ID)
		if err != nil {
			return "", err
		}
		for _, id := range all {
			leadsThere := func(r router) bool { return r.Gateway.NetworkID == id }
			if slices.ContainsFunc(routers, leadsThere) {
				return id, nil
			}
		}
	}
	return all[0], nil
}

// HasRouter reports whether a router has a port in a subnet. The answer is cached for networkAge.
func (a *API) HasRouter(ctx context.Context, subnetID, routerID string) (bool, error) {
	routers, _, err := a.routers.One(ctx, subnetID)
	return slices.ContainsFunc(routers, func(r router) bool { return r.ID == routerID }), err
}

// IsNextHop reports whether packets from servers in a subnet to a range go to a router, by the host
// routes and the gateway of the subnet. Without a range only the gateway counts. A port of the
// router in the subnet is enough if the project does not see the subnet, if the next hop is a
// link-local address, which Neutron does not show at ports, or if there is neither a range nor a
// gateway. The answer is cached for 10 min.
func (a *API) IsNextHop(
	ctx context.Context, subnetID, routerID string, to netip.Prefix,
) (bool, error) {
	routers, _, err := a.routers.One(ctx, subnetID)
	if err != nil {
		return false, err
	}
	i := slices.IndexFunc(routers, func(r router) bool { return r.ID == routerID })
	if i < 0 {
		return false, nil
	}
	subnet, isSeen, err := a.subnets.One(ctx, subnetID)
	if err != nil || !isSeen {
		return err == nil, err
	}
	hop := subnet.nextHop(to)
	isUnknown := hop.IsLinkLocalUnicast() || !to.IsValid() && !hop.IsValid()
	return isUnknown || slices.Contains(routers[i].addresses, hop), nil
}

// router is a router with its gateway.
type router struct {
	ID      string `json:"id"`
	Gateway struct {
		NetworkID string `json:"network_id"`
	} `json:"external_gateway_info"`
	// addresses are those of its ports in the subnet.
	addresses []netip.Addr
}

func (r router) identifier() string { return r.ID }

// routerPort is a port of a subnet, which may be a router's.
type routerPort struct {
	ID          string `json:"id"`
	DeviceID    string `json:"device_id"`
	DeviceOwner string `json:"device_owner"`
	// Addresses are the fixed addresses.
	Addresses []Address `json:"fixed_ips"`
}

func (p routerPort) identifier() string { return p.ID }

// readRouters returns the routers of each subnet. The owners of a router's ports are
// network:router_interface, those of distributed routers, and those of replicated ones
// (neutron_lib/constants.py, ROUTER_INTERFACE_OWNERS).
func (a *API) readRouters(ctx context.Context, subnets []string) (map[string][]router, error) {
	found := map[string][]router{}
	for _, subnet := range subnets {
		ports, err := list[routerPort](ctx, a, "ports", "ports", url.Values{
			"fixed_ips": {"subnet_id=" + subnet},
			"fields":    {"id", "device_id", "device_owner", "fixed_ips"},
		})
		if err != nil {
			return nil, err
		}
		var ids []string
		addresses := map[string][]netip.Addr{} // by router
		for _, p := range ports {
			if !strings.HasPrefix(p.DeviceOwner, "network:") ||
				!strings.Contains(p.DeviceOwner, "router") {
				continue
			}
			ids = append(ids, p.DeviceID)
			for _, fixed := range p.Addresses {
				if address, err := netip.ParseAddr(fixed.IP); err == nil {
					addresses[p.DeviceID] = append(addresses[p.DeviceID], address)
				}
			}
		}
		if len(ids) == 0 {
			continue
		}
		found[subnet], err = listBy[router](ctx, a, "routers", "routers", "id", distinct(ids),
			url.Values{"fields": {"id", "external_gateway_info"}})
		if err != nil {
			return nil, err
		}
		for i, r := range found[subnet] {
			found[subnet][i].addresses = addresses[r.ID]
		}
	}
	return found, nil
}

// externalNetworks are the external networks that the project sees.
type externalNetworks struct {
	ids []string
	// usable are those that may provide floating IPs.
	usable []string
}

func (a *API) readExternalNetworks(
	ctx context.Context, _ []string,
) (map[string]externalNetworks, error) {
	networks, err := list[externalNetwork](ctx, a, "networks", "networks", url.Values{
		"router:external": {"true"}, "fields": {"id", "subnets"},
	})
	if err != nil {
		return nil, err
	}
	var ids []string
	for _, n := range networks {
		ids = append(ids, n.ID)
	}
	seen, err := a.readNetworks(ctx, ids)
	if err != nil {
		return nil, err
	}
	found := externalNetworks{ids: ids}
	for _, n := range networks {
		if givesFloatingIPs(n, seen[n.ID]) {
			found.usable = append(found.usable, n.ID)
		}
	}
	return map[string]externalNetworks{"": found}, nil
}

// givesFloatingIPs reports whether a network may have an IPv4 address, judging by its visible
// subnets.
func givesFloatingIPs(n externalNetwork, seen []Subnet) bool {
	if slices.ContainsFunc(seen, func(s Subnet) bool { return !s.IPv6 }) {
		return true
	}
	return len(seen) == 0 && len(n.Subnets) > 0
}
