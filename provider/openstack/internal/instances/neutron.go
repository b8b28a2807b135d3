package instances

import (
	"cmp"
	"context"
	"fmt"
	"net/url"
	"slices"

	"github.com/gophercloud/gophercloud/v2"
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

// chunkSize is how many ids one request names: their query is shorter than 2,000 bytes, and the usual limits of servers and
// proxies begin at 4,000.
const chunkSize = 40

// neutron makes the requests to Neutron. It is safe for concurrent use.
type neutron struct {
	client func(context.Context) (*gophercloud.ServiceClient, error)
}

// projectPorts lists the ports of a project.
func (n *neutron) projectPorts(ctx context.Context, project string) ([]port, error) {
	return n.ports(ctx, url.Values{"project_id": {project}})
}

// portsOf lists the ports of servers.
func (n *neutron) portsOf(ctx context.Context, servers []string) ([]port, error) {
	return inChunks(servers, func(ids []string) ([]port, error) { return n.ports(ctx, url.Values{"device_id": ids}) })
}

// portsByID lists ports by their ids.
func (n *neutron) portsByID(ctx context.Context, ids []string) ([]port, error) {
	return inChunks(ids, func(ids []string) ([]port, error) { return n.ports(ctx, url.Values{"id": ids}) })
}

func inChunks[T any](ids []string, list func(ids []string) ([]T, error)) ([]T, error) {
	var all []T
	for chunk := range slices.Chunk(ids, chunkSize) {
		some, err := list(chunk)
		if err != nil {
			return nil, err
		}
		all = append(all, some...)
	}
	return all, nil
}

// ports come in the order of their ids. That is the order in which Neutron lists them (it ends each sort with the primary key), but
// it promises none; a node's addresses must not change their order for that.
func (n *neutron) ports(ctx context.Context, query url.Values) ([]port, error) {
	query["fields"] = []string{"id", "device_id", "network_id", "status", "fixed_ips", "trunk_details"}
	all, err := allPages(ctx, query, func(ctx context.Context, query url.Values) (page[port], error) {
		var body struct {
			Ports *[]port `json:"ports"`
			Links []link  `json:"ports_links"`
		}
		err := n.get(ctx, "ports", query, &body)
		return page[port]{items: body.Ports, links: body.Links}, err
	}, func(p port) string { return p.ID })
	if err != nil {
		return nil, fmt.Errorf("list ports: %w", err)
	}
	slices.SortStableFunc(all, func(a, b port) int { return cmp.Compare(a.ID, b.ID) })
	return all, nil
}

// networkNames are the names of networks by their ids.
func (n *neutron) networkNames(ctx context.Context, ids []string) (map[string]string, error) {
	type network struct {
		ID   string `json:"id"`
		Name string `json:"name"`
	}
	all, err := inChunks(ids, func(ids []string) ([]network, error) {
		query := url.Values{"id": ids, "fields": {"id", "name"}}
		return allPages(ctx, query, func(ctx context.Context, query url.Values) (page[network], error) {
			var body struct {
				Networks *[]network `json:"networks"`
				Links    []link     `json:"networks_links"`
			}
			err := n.get(ctx, "networks", query, &body)
			return page[network]{items: body.Networks, links: body.Links}, err
		}, func(n network) string { return n.ID })
	})
	if err != nil {
		return nil, fmt.Errorf("list networks: %w", err)
	}
	names := make(map[string]string, len(all))
	for _, network := range all {
		names[network.ID] = network.Name
	}
	return names, nil
}

func (n *neutron) get(ctx context.Context, path string, query url.Values, into any) error {
	client, err := n.client(ctx)
	if err != nil {
		return err
	}
	return get(ctx, client, path, query, into)
}
