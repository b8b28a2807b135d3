package neutron

import (
	"context"
	"fmt"
	"net/url"
	"slices"
)

// Subnet returns a subnet; [ErrNotFound] if the project sees no subnet with that ID. It is cached
// for 10 min.
func (a *API) Subnet(ctx context.Context, id string) (Subnet, error) {
	found, ok, err := a.subnets.one(ctx, id)
	switch {
	case err != nil:
		return Subnet{}, err
	case !ok:
		return Subnet{}, fmt.Errorf("subnet %s: %w", id, ErrNotFound)
	}
	return found, nil
}

// Subnets returns the subnets of a network that the project sees, sorted by ID. They are cached for
// networkAge, unless the list is empty.
func (a *API) Subnets(ctx context.Context, networkID string) ([]Subnet, error) {
	found, _, err := a.networks.one(ctx, networkID)
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
	return found, nil
}

func (a *API) subnetsBy(ctx context.Context, attribute string, values []string) ([]Subnet, error) {
	return listBy[Subnet](ctx, a, "subnets", "subnets", attribute, values, url.Values{
		"fields": {"id", "name", "network_id", "cidr", "ip_version", "tags"},
	})
}

// externalNetwork is a network that may provide floating IPs.
type externalNetwork struct {
	ID string `json:"id"`
	// Subnets are the IDs of all subnets, even of those that the project does not see.
	Subnets []string `json:"subnets"`
}

func (n externalNetwork) identifier() string { return n.ID }

// ExternalNetwork returns the default network of floating IPs, or "". As with OCCM it is the first
// one, by ID, that has an IPv4 subnet, or whose subnets are hidden from the project, as is common
// for external networks. The answer is cached for networkAge.
func (a *API) ExternalNetwork(ctx context.Context) (string, error) {
	id, _, err := a.external.one(ctx, "")
	return id, err
}

func (a *API) readExternalNetwork(ctx context.Context, _ []string) (map[string]string, error) {
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
	for _, n := range networks {
		if givesFloatingIPs(n, seen[n.ID]) {
			return map[string]string{"": n.ID}, nil
		}
	}
	return map[string]string{"": ""}, nil
}

// givesFloatingIPs reports whether a network may have an IPv4 address, judging by its visible
// subnets.
func givesFloatingIPs(n externalNetwork, seen []Subnet) bool {
	if slices.ContainsFunc(seen, func(s Subnet) bool { return !s.IPv6 }) {
		return true
	}
	return len(seen) == 0 && len(n.Subnets) > 0
}
