package neutron

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/url"
	"slices"

	"github.com/gophercloud/gophercloud/v2"
	"github.com/gophercloud/gophercloud/v2/openstack/networking/v2/ports"

	"github.com/fxccm/fxccm/provider/kit/batch"
)

// NodePorts returns the ports of servers and, if a security group is named, all ports that have it:
// a port that existed before its server outlives the server and keeps its groups. They are
// distinct, sorted by ID, and read after the call. Concurrent calls share their requests.
func (a *API) NodePorts(
	ctx context.Context, serverIDs []string, groupID string,
) ([]NodePort, error) {
	var found []NodePort
	byServer, err := a.serverPorts.Get(ctx, distinct(serverIDs)...)
	if err != nil {
		return nil, err
	}
	for _, ports := range byServer {
		found = append(found, ports...)
	}
	if groupID != "" {
		bearing, _, err := a.groupPorts.One(ctx, groupID)
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
	return a.addresses.Get(ctx, distinct(serverIDs)...)
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

// Port returns a port. It uses no cache.
func (a *API) Port(ctx context.Context, id string) (found Port, err error) {
	project, err := a.config.Project(ctx)
	if err != nil {
		return Port{}, fmt.Errorf("get port %s: %w", id, err)
	}
	err = a.request(ctx, "get port "+id, func(client *gophercloud.ServiceClient) (err error) {
		found, err = extract[Port](ports.Get(ctx, client, id).Result, "port")
		return err
	})
	found.OfProject = found.ProjectID == project
	return found, err
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

// editsAtATime is how many ports of a batch are written concurrently.
const editsAtATime = 8

// groupEdit is a change of a port's security groups.
type groupEdit struct {
	port  NodePort
	group string
	add   bool
	err   error
}

// AddGroup adds the security group to the port's groups. port is its last seen state: if it has
// changed, the port is read again. Concurrent changes of one port are one request, for example when
// a node joins many Services.
func (a *API) AddGroup(ctx context.Context, port NodePort, groupID string) error {
	return a.editGroup(ctx, &groupEdit{port: port, group: groupID, add: true})
}

// RemoveGroup is the opposite of [API.AddGroup]. It succeeds if the port does not exist.
func (a *API) RemoveGroup(ctx context.Context, port NodePort, groupID string) error {
	return a.editGroup(ctx, &groupEdit{port: port, group: groupID})
}

func (a *API) editGroup(ctx context.Context, edit *groupEdit) error {
	if err := a.groupEdits.Ask(ctx, edit); err != nil {
		return err
	}
	return edit.err
}

func (a *API) editGroups(ctx context.Context, edits []*groupEdit) {
	byPort := map[string][]*groupEdit{}
	var ids []string
	for _, e := range edits {
		if byPort[e.port.ID] == nil {
			ids = append(ids, e.port.ID)
		}
		byPort[e.port.ID] = append(byPort[e.port.ID], e)
	}
	errs := batch.InParallel(ids, editsAtATime, func(id string) error {
		a.editPort(ctx, byPort[id])
		return nil
	})
	// A panic becomes the error of the calls for that port.
	for i, err := range errs {
		if err != nil {
			settle(byPort[ids[i]], err)
		}
	}
}

// editPort makes the changes of one port. If Neutron refuses them together, it makes each alone, so
// that a deleted group does not prevent the other changes.
func (a *API) editPort(ctx context.Context, edits []*groupEdit) {
	err := a.tryEdit(ctx, edits)
	if len(edits) == 1 || !isRefusal(err) {
		settle(edits, err)
		return
	}
	for _, e := range edits {
		// The previous change makes the last seen state of the port stale.
		e.port.Revision = -1
		settle([]*groupEdit{e}, a.tryEdit(ctx, []*groupEdit{e}))
	}
}

// tryEdit starts from the newest state of the port that one of the callers has seen. Without
// revisions, Neutron cannot verify that the state is current, so the port is read right before the
// write.
func (a *API) tryEdit(ctx context.Context, edits []*groupEdit) error {
	is := slices.MaxFunc(edits, func(a, b *groupEdit) int {
		return cmp.Compare(a.port.Revision, b.port.Revision)
	}).port
	seen := is.Revision >= 0
	for range maxStale {
		if !seen {
			var err error
			if is, err = a.port(ctx, is.ID); err != nil {
				return err
			}
		}
		seen = false
		groups := edited(is.SecurityGroups, edits)
		if slices.Equal(groups, is.SecurityGroups) {
			return nil
		}
		if err := a.putGroups(ctx, is.ID, groups, is.Revision); !isStale(err) {
			return err
		}
	}
	return changedByOthers(fmt.Sprintf("change the security groups of port %s", is.ID))
}

// edited returns the groups after the changes. Existing groups keep their order.
func edited(groups []string, edits []*groupEdit) []string {
	changed := slices.Clone(groups)
	if changed == nil {
		changed = []string{}
	}
	for _, e := range edits {
		has := slices.Contains(changed, e.group)
		switch {
		case e.add && !has:
			changed = append(changed, e.group)
		case !e.add && has:
			changed = slices.DeleteFunc(changed, func(id string) bool { return id == e.group })
		}
	}
	return changed
}

func settle(edits []*groupEdit, err error) {
	for _, e := range edits {
		e.err = err
		if !e.add && errors.Is(err, ErrNotFound) {
			e.err = nil
		}
	}
}
