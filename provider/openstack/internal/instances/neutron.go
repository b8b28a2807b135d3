package instances

import (
	"cmp"
	"context"
	"fmt"
	"net/url"
	"slices"

	"github.com/gophercloud/gophercloud/v2"

	"github.com/fxccm/fxccm/provider/openstack/internal/pages"
)

type port struct {
	ID        string    `json:"id"`
	DeviceID  string    `json:"device_id"`
	NetworkID string    `json:"network_id"`
	Status    string    `json:"status"`
	FixedIPs  []fixedIP `json:"fixed_ips"`
	Trunk     *trunk    `json:"trunk_details"`
	// CreatedAt is empty if the cloud has no timestamps. All have one format, so their texts are in
	// the order of time.
	CreatedAt string `json:"created_at"`

	// subports are those of the trunk, after their lookup.
	subports []subport
}

type fixedIP struct {
	Address string `json:"ip_address"`
}

// trunk is from the extension trunk-details.
type trunk struct {
	Subports []struct {
		PortID string `json:"port_id"`
	} `json:"sub_ports"`
}

// subport is the server's port in a VLAN of its trunk.
type subport struct {
	network   string
	addresses []string
}

const portActive = "ACTIVE"

// neutron sends requests to Neutron. It is safe for concurrent use.
type neutron struct {
	client func(context.Context) (*gophercloud.ServiceClient, error)
}

// ports returns the ports whose attribute has one of the values. They are sorted by age, because a
// new port must not change the first address of a node, and Neutron's order is that of random IDs.
// Nova creates the ports of a server within a second. Their order by network is that of all nodes.
func (n *neutron) ports(ctx context.Context, attribute string, values []string) ([]port, error) {
	fields := []string{
		"id", "device_id", "network_id", "status", "fixed_ips", "trunk_details", "created_at",
	}
	all, err := list(ctx, n, "ports", fields, attribute, values, func(p *port) string {
		return p.ID
	})
	slices.SortStableFunc(all, func(a, b port) int {
		return cmp.Or(cmp.Compare(a.CreatedAt, b.CreatedAt),
			cmp.Compare(a.NetworkID, b.NetworkID), cmp.Compare(a.ID, b.ID))
	})
	return all, err
}

// networkNames are the names of networks by ID.
func (n *neutron) networkNames(ctx context.Context, ids []string) (map[string]string, error) {
	type network struct {
		ID   string `json:"id"`
		Name string `json:"name"`
	}
	all, err := list(ctx, n, "networks", []string{"id", "name"}, "id", ids,
		func(n *network) string { return n.ID })
	if err != nil {
		return nil, err
	}
	names := make(map[string]string, len(all))
	for _, network := range all {
		names[network.ID] = network.Name
	}
	return names, nil
}

// list returns the objects whose attribute has one of the values. name is the collection in the URL
// and the response.
func list[T any](ctx context.Context, n *neutron, name string, fields []string, attribute string,
	values []string, id func(*T) string,
) ([]T, error) {
	all, err := pages.AllBy(ctx, name, attribute, values, url.Values{"fields": fields}, id,
		pages.From(n.client, name))
	if err != nil {
		return nil, fmt.Errorf("list %s: %w", name, err)
	}
	return all, nil
}
