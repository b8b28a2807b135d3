package instances

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"net/url"
	"slices"

	"github.com/gophercloud/gophercloud/v2"

	"github.com/fxccm/fxccm/provider/openstack/internal/pages"
)

// port is what is read of a port.
type port struct {
	ID        string    `json:"id"`
	DeviceID  string    `json:"device_id"`
	NetworkID string    `json:"network_id"`
	Status    string    `json:"status"`
	FixedIPs  []fixedIP `json:"fixed_ips"`
	Trunk     *trunk    `json:"trunk_details"`

	// subports are those of the trunk, once they are looked up.
	subports []subport
}

type fixedIP struct {
	Address string `json:"ip_address"`
}

// trunk is of the extension trunk-details.
type trunk struct {
	Subports []struct {
		PortID string `json:"port_id"`
	} `json:"sub_ports"`
}

// subport is what a server has of a VLAN of its trunk.
type subport struct {
	network   string
	addresses []string
}

const portActive = "ACTIVE"

// neutron makes the requests to Neutron. It is safe for concurrent use.
type neutron struct {
	client func(context.Context) (*gophercloud.ServiceClient, error)
}

// projectPorts lists the ports of a project.
func (n *neutron) projectPorts(ctx context.Context, project string) ([]port, error) {
	return n.ports(ctx, "project_id", []string{project})
}

// portsOf lists the ports of servers.
func (n *neutron) portsOf(ctx context.Context, servers []string) ([]port, error) {
	return n.ports(ctx, "device_id", servers)
}

// portsByID lists ports by their ids.
func (n *neutron) portsByID(ctx context.Context, ids []string) ([]port, error) {
	return n.ports(ctx, "id", ids)
}

// ports come in the order of their ids. That is the order in which Neutron lists them (it ends each sort with the primary key), but
// it promises none; a node's addresses must not change their order for that.
func (n *neutron) ports(ctx context.Context, attribute string, values []string) ([]port, error) {
	fields := []string{"id", "device_id", "network_id", "status", "fixed_ips", "trunk_details"}
	all, err := list(ctx, n, "ports", fields, attribute, values, func(p *port) string { return p.ID })
	slices.SortStableFunc(all, func(a, b port) int { return cmp.Compare(a.ID, b.ID) })
	return all, err
}

// networkNames are the names of networks by their ids.
func (n *neutron) networkNames(ctx context.Context, ids []string) (map[string]string, error) {
	type network struct {
		ID   string `json:"id"`
		Name string `json:"name"`
	}
	all, err := list(ctx, n, "networks", []string{"id", "name"}, "id", ids, func(n *network) string { return n.ID })
	if err != nil {
		return nil, err
	}
	names := make(map[string]string, len(all))
	for _, network := range all {
		names[network.ID] = network.Name
	}
	return names, nil
}

// list reads these fields of what has one of the values of an attribute. name is what it is called in the URL and in the answers.
func list[T any](ctx context.Context, n *neutron, name string, fields []string, attribute string, values []string, id func(*T) string) ([]T, error) {
	all, err := pages.AllBy(ctx, name, attribute, values, url.Values{"fields": fields}, id, func(ctx context.Context, query url.Values) (body map[string]json.RawMessage, err error) {
		err = n.get(ctx, name, query, &body)
		return body, err
	})
	if err != nil {
		return nil, fmt.Errorf("list %s: %w", name, err)
	}
	return all, nil
}

func (n *neutron) get(ctx context.Context, path string, query url.Values, into any) error {
	client, err := n.client(ctx)
	if err != nil {
		return err
	}
	return get(ctx, client, path, query, into)
}
