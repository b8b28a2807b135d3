package routes

import (
	"context"
	"fmt"
	"net/netip"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/fxccm/fxccm/provider/openstack/internal/pages"
)

// occupancyAge is the interval at which a recorded route that is not confirmed is checked again.
const occupancyAge = 5 * time.Minute

// occupancy has the addresses around the router that are in use.
type occupancy struct {
	// subnets are those at the router whose ports are all visible.
	subnets []subnet
	ports   []port
	read    time.Time
}

// subnet is a subnet in Neutron's API.
type subnet struct {
	ID        string `json:"id"`
	NetworkID string `json:"network_id"`
	CIDR      string `json:"cidr"`
	Pools     []struct {
		Start string `json:"start"`
		End   string `json:"end"`
	} `json:"allocation_pools"`
}

func (s subnet) contains(address netip.Addr) bool {
	prefix, err := netip.ParsePrefix(s.CIDR)
	return err == nil && prefix.Contains(address)
}

// allocates reports whether Neutron may give the address to a port.
func (s subnet) allocates(address netip.Addr) bool {
	for _, pool := range s.Pools {
		start, err := parseAddress(pool.Start)
		if err != nil {
			continue
		}
		end, err := parseAddress(pool.End)
		if err == nil && start.Compare(address) <= 0 && address.Compare(end) <= 0 {
			return true
		}
	}
	return false
}

// objection returns why an address may be in use, or may never have been that of a node; empty if
// neither is possible. The record alone proves nothing, because users of the cluster can edit it.
func (o *occupancy) objection(address netip.Addr, nodes nodeIndex) string {
	i := slices.IndexFunc(o.subnets, func(s subnet) bool { return s.contains(address) })
	switch {
	case i < 0:
		return "no subnet of the project at the router has the next hop"
	case !nodes.hasIn(o.subnets[i].contains):
		return "no node is in the subnet of the next hop"
	case !o.subnets[i].allocates(address):
		return "the next hop is outside of the allocation pools of its subnet"
	}
	for _, p := range o.ports {
		for _, ip := range p.FixedIPs {
			if a, err := parseAddress(ip.Address); err == nil && a == address {
				return "port " + p.ID + " has the address of the next hop"
			}
		}
		for _, pair := range p.Pairs {
			if allowed, ok := pairRange(pair); ok && allowed.Contains(address) {
				return "an allowed address pair of port " + p.ID + " contains the next hop"
			}
		}
	}
	return ""
}

// occupancy reads the subnets and ports around the router. It omits the networks of other projects:
// only their owner sees all ports of a network.
func (f *portFinder) occupancy(
	ctx context.Context, project func(context.Context) (string, error),
) (*occupancy, error) {
	read := f.clock.Now()
	around, err := f.surroundings(ctx, planAge)
	if err != nil {
		return nil, err
	}
	owner, err := project(ctx)
	if err != nil {
		return nil, err
	}
	networks, err := f.api.ownNetworks(ctx, around.networks, owner)
	if err != nil || len(networks) == 0 {
		return &occupancy{read: read}, err
	}
	subnets, err := f.api.subnets(ctx, networks)
	if err != nil {
		return nil, err
	}
	subnets = slices.DeleteFunc(subnets, func(s subnet) bool { return !around.subnets[s.ID] })
	ports, err := f.api.ports(ctx, url.Values{"network_id": networks})
	if err != nil {
		return nil, f.api.wrap("list ports of the networks of", err)
	}
	return &occupancy{subnets: subnets, ports: ports, read: read}, nil
}

// ownNetworks returns those of the networks that the project owns.
func (a *api) ownNetworks(
	ctx context.Context, networks []string, project string,
) ([]string, error) {
	if len(networks) == 0 || project == "" {
		return nil, nil
	}
	type network struct {
		ID      string `json:"id"`
		Project string `json:"project_id"`
	}
	found, err := pages.All(ctx, "networks",
		url.Values{"id": networks, "fields": {"id", "project_id"}},
		func(n *network) string { return n.ID }, pages.From(a.network, "networks"))
	if err != nil {
		return nil, a.wrap("list the networks of", err)
	}
	var own []string
	for _, n := range found {
		if n.Project == project {
			own = append(own, n.ID)
		}
	}
	return own, nil
}

func (a *api) subnets(ctx context.Context, networks []string) ([]subnet, error) {
	found, err := pages.All(ctx, "subnets", url.Values{
		"network_id": networks, "fields": {"id", "network_id", "cidr", "allocation_pools"},
	}, func(s *subnet) string { return s.ID }, pages.From(a.network, "subnets"))
	return found, a.wrap("list the subnets of", err)
}

// confirmRecorded makes recorded routes known if nothing can use their next hops. Cached ports may
// only keep a route; before one is confirmed, they are read again.
func (r *Routes) confirmRecorded(ctx context.Context, found []entry, k knowledge) {
	candidates := k.unconfirmed(found)
	if len(candidates) == 0 || len(k.nodes.internal) == 0 {
		return
	}
	r.confirming.Lock()
	defer r.confirming.Unlock()
	now := r.clock.Now()
	if last := r.occupied; last != nil && now.Sub(last.read) < occupancyAge &&
		!slices.ContainsFunc(candidates, func(one route) bool {
			return last.objection(one.nextHop, k.nodes) == ""
		}) {
		return
	}
	current, err := r.finder.occupancy(ctx, r.project)
	if err != nil {
		if ctx.Err() == nil {
			if text := err.Error(); text != r.keptReasons {
				r.log.Error(err, "Recorded routes of former nodes are not confirmed; trying again "+
					"later", "router", r.router.api.routerID)
				r.keptReasons = text
			}
			r.occupied = &occupancy{read: now}
		}
		return
	}
	r.occupied = current
	confirmed, kept := []route{}, []string{}
	for _, one := range candidates {
		if objection := current.objection(one.nextHop, k.nodes); objection != "" {
			kept = append(kept, fmt.Sprintf("%s: %s", one, objection))
		} else {
			confirmed = append(confirmed, one)
		}
	}
	r.learnConfirmed(confirmed, k)
	r.logKept(kept)
}

func (r *Routes) learnConfirmed(confirmed []route, k knowledge) {
	if len(confirmed) == 0 {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, one := range confirmed {
		r.known[one] = k.recorded[one]
	}
	r.log.Info("Recognized routes of former nodes by the record: nothing uses their next hops",
		"router", r.router.api.routerID, "count", len(confirmed), "routes", names(confirmed))
}

// logKept logs the reasons when they change.
func (r *Routes) logKept(kept []string) {
	reasons := strings.Join(kept, "; ")
	if reasons == r.keptReasons {
		return
	}
	r.keptReasons = reasons
	if len(kept) > 0 {
		r.log.Info("Keeping recorded routes: their next hops may be in use",
			"router", r.router.api.routerID, "count", len(kept),
			"routes", kept[:min(len(kept), namedRoutes)])
	}
}
