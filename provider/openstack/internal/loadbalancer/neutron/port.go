package neutron

import (
	"cmp"
	"context"
	"fmt"
	"net/url"
	"slices"

	"github.com/gophercloud/gophercloud/v2"
	"github.com/gophercloud/gophercloud/v2/openstack/networking/v2/ports"
)

// NodePorts returns the ports of servers and, if a security group is named, all ports that have it:
// a port that existed before its server outlives the server and keeps its groups. They are
// distinct, sorted by ID, and read after the call. Concurrent calls share their requests.
func (a *API) NodePorts(
	ctx context.Context, serverIDs []string, groupID string,
) ([]NodePort, error) {
	var found []NodePort
	byServer, err := a.serverPorts.get(ctx, distinct(serverIDs)...)
	if err != nil {
		return nil, err
	}
	for _, ports := range byServer {
		found = append(found, ports...)
	}
	if groupID != "" {
		bearing, _, err := a.groupPorts.one(ctx, groupID)
		if err != nil {
			return nil, err
		}
		found = append(found, bearing...)
	}
	slices.SortFunc(found, newestFirst)
	return slices.CompactFunc(found, func(a, b NodePort) bool { return a.ID == b.ID }), nil
}

// newestFirst sorts the states of one port.
func newestFirst(a, b NodePort) int {
	return cmp.Or(cmp.Compare(a.ID, b.ID), cmp.Compare(b.Revision, a.Revision))
}

func distinct(ids []string) []string {
	ids = slices.DeleteFunc(slices.Clone(ids), func(id string) bool { return id == "" })
	slices.Sort(ids)
	return slices.Compact(ids)
}

// ServerAddresses returns the fixed addresses of servers, by their IDs. They are cached for a
// while. A server without addresses is left out, and read again the next time.
func (a *API) ServerAddresses(
	ctx context.Context, serverIDs []string,
) (map[string][]Address, error) {
	return a.addresses.get(ctx, distinct(serverIDs)...)
}

func (a *API) readAddresses(
	ctx context.Context, serverIDs []string,
) (map[string][]Address, error) {
	byServer, err := a.readServerPorts(ctx, serverIDs)
	if err != nil {
		return nil, err
	}
	found := map[string][]Address{}
	for id, ports := range byServer {
		for _, p := range ports {
			found[id] = append(found[id], p.Addresses...)
		}
	}
	return found, nil
}

func (a *API) readServerPorts(
	ctx context.Context, serverIDs []string,
) (map[string][]NodePort, error) {
	return a.portsBy(ctx, "device_id", serverIDs,
		func(p NodePort) []string { return []string{p.ServerID} })
}

func (a *API) readGroupPorts(
	ctx context.Context, groupIDs []string,
) (map[string][]NodePort, error) {
	return a.portsBy(ctx, "security_groups", groupIDs,
		func(p NodePort) []string { return p.SecurityGroups })
}

// portsBy lists ports by an attribute, and groups them by its values. A Neutron without the
// extension filter-validation ignores an unknown filter, and returns ports of other values too.
func (a *API) portsBy(
	ctx context.Context, attribute string, values []string, of func(NodePort) []string,
) (map[string][]NodePort, error) {
	all, err := listBy[NodePort](ctx, a, "ports", "ports", attribute, values, url.Values{
		"fields": {
			"id", "device_id", "fixed_ips", "security_groups", "port_security_enabled",
			"revision_number",
		},
	})
	if err != nil {
		return nil, err
	}
	found := map[string][]NodePort{}
	for _, p := range all {
		for _, value := range of(p) {
			if slices.Contains(values, value) &&
				!slices.ContainsFunc(found[value],
					func(known NodePort) bool { return known.ID == p.ID }) {
				found[value] = append(found[value], p)
			}
		}
	}
	return found, nil
}

func (a *API) port(ctx context.Context, id string) (found NodePort, err error) {
	err = a.request(ctx, "get port "+id, func(client *gophercloud.ServiceClient) (err error) {
		found, err = extract[NodePort](ports.Get(ctx, client, id).Result, "port")
		return err
	})
	return found, err
}

// putGroups replaces the port's security groups if its revision is still the given one; -1 skips
// the check.
func (a *API) putGroups(ctx context.Context, id string, groups []string, revision int) error {
	options := ports.UpdateOpts{SecurityGroups: &groups}
	if revision >= 0 {
		options.RevisionNumber = &revision
	}
	return a.request(ctx, fmt.Sprintf("change the security groups of port %s", id),
		func(client *gophercloud.ServiceClient) error {
			return ports.Update(ctx, client, id, options).Err
		})
}
