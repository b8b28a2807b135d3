package fake

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	cloudprovider "k8s.io/cloud-provider"
)

// A Route sends a range of addresses to a node. A cluster has at most one route to a destination,
// as in any route table.
type Route struct {
	Cluster string `json:"cluster,omitempty"`
	// Name is <cluster>-<name hint>-<destination>, with '-' for the '/' of the destination, because
	// upstream gives the routes of a dual-stack node the same hint.
	Name       string `json:"name,omitempty"`
	TargetNode string `json:"targetNode,omitempty"`
	// TargetNodeAddresses are stored only with [WithRouteNodeAddresses].
	TargetNodeAddresses []v1.NodeAddress `json:"targetNodeAddresses,omitempty"`
	// DestinationCIDR is an IPv4 or IPv6 range.
	DestinationCIDR string `json:"destinationCIDR,omitempty"`
	// Blackhole: the route leads to no instance, also while its node has none.
	Blackhole bool `json:"blackhole,omitempty"`
}

func (r Route) copy() Route {
	r.TargetNodeAddresses = slices.Clone(r.TargetNodeAddresses)
	return r
}

// destination is the range in canonical form.
func (r Route) destination() (netip.Prefix, error) {
	prefix, err := netip.ParsePrefix(r.DestinationCIDR)
	if err != nil {
		return netip.Prefix{}, fmt.Errorf("the destination %q of a route to node %q is not a CIDR",
			r.DestinationCIDR, r.TargetNode)
	}
	return prefix.Masked(), nil
}

type routeKey struct {
	cluster     string
	destination netip.Prefix
}

func (r Route) key() (routeKey, error) {
	destination, err := r.destination()
	return routeKey{r.Cluster, destination}, err
}

func (r Route) nameAfter(hint string) string {
	return strings.ReplaceAll(r.Cluster+"-"+hint+"-"+r.DestinationCIDR, "/", "-")
}

func needsDestination(a arguments) error {
	_, err := a.Route.destination()
	return err
}

func needsTarget(a arguments) error {
	if a.Route.TargetNode == "" {
		return fmt.Errorf("the route to %q has no target node", a.Route.DestinationCIDR)
	}
	return needsDestination(a)
}

// AddRoutes adds routes that no provider created, such as leftovers and blackholes. Each replaces
// an existing one with its cluster and destination. Nodes without an instance are accepted. If one
// of them is invalid none is added, and the error names it and the reason.
func (c *Cloud) AddRoutes(routes ...Route) error {
	defer c.changes.notify()
	c.mu.Lock()
	defer c.mu.Unlock()
	added := map[routeKey]Route{}
	for _, r := range routes {
		key, err := r.key()
		if err != nil {
			return fmt.Errorf("add route %q: %w", r.Name, err)
		}
		r.Name = cmp.Or(r.Name, r.nameAfter("added"))
		added[key] = r.copy()
	}
	maps.Copy(c.routes, added)
	return nil
}

// Routes returns all routes, sorted by cluster and name.
func (c *Cloud) Routes() []Route {
	return c.routesWhere(func(Route) bool { return true })
}

func (c *Cloud) routesWhere(wanted func(Route) bool) []Route {
	c.mu.Lock()
	defer c.mu.Unlock()
	all := make([]Route, 0, len(c.routes))
	for _, r := range c.routes {
		if !wanted(r) {
			continue
		}
		if _, ok := c.instances[r.TargetNode]; !ok && r.TargetNode != "" {
			r.Blackhole = true
		}
		all = append(all, r.copy())
	}
	slices.SortFunc(all, func(a, b Route) int {
		return cmp.Or(cmp.Compare(a.Cluster, b.Cluster), cmp.Compare(a.Name, b.Name))
	})
	return all
}

func (c *Cloud) listRoutes(a arguments) (results, error) {
	return results{Routes: c.routesWhere(func(r Route) bool { return r.Cluster == a.Cluster })}, nil
}

func (c *Cloud) createRoute(a arguments) (results, error) {
	defer c.changes.notify()
	c.mu.Lock()
	defer c.mu.Unlock()
	r := a.Route.copy()
	r.Cluster = a.Cluster
	r.Name = r.nameAfter(a.NameHint)
	r.Blackhole = false
	if !c.routeNodeAddresses {
		r.TargetNodeAddresses = nil
	}
	key, err := r.key()
	if err != nil {
		return results{}, err
	}
	if _, ok := c.instances[r.TargetNode]; !ok {
		return results{}, fmt.Errorf("create route to %s via node %q: %w", r.DestinationCIDR,
			r.TargetNode, cloudprovider.InstanceNotFound)
	}
	if other, ok := c.routes[key]; ok && other.TargetNode != r.TargetNode {
		return results{}, fmt.Errorf(
			"create route to %s via node %q: route %s leads there via node %q", r.DestinationCIDR,
			r.TargetNode, other.Name, other.TargetNode)
	}
	c.routes[key] = r
	return results{}, nil
}

// deleteRoute keeps a route that has the destination but another name, because it is not the listed
// one.
func (c *Cloud) deleteRoute(a arguments) (results, error) {
	defer c.changes.notify()
	c.mu.Lock()
	defer c.mu.Unlock()
	r := a.Route
	r.Cluster = a.Cluster
	key, err := r.key()
	if err != nil {
		return results{}, err
	}
	if found, ok := c.routes[key]; ok && (r.Name == "" || r.Name == found.Name) {
		delete(c.routes, key)
	}
	return results{}, nil
}

// Routes implements cloudprovider.Interface.
func (p *provider) Routes() (cloudprovider.Routes, bool) {
	return offer[cloudprovider.Routes](p, "Routes", p)
}

// ListRoutes implements cloudprovider.Routes.
func (p *provider) ListRoutes(
	ctx context.Context, clusterName string,
) ([]*cloudprovider.Route, error) {
	r, err := p.call(ctx, "ListRoutes", arguments{Cluster: clusterName})
	var routes []*cloudprovider.Route
	for _, route := range r.Routes {
		routes = append(routes, &cloudprovider.Route{
			Name:                route.Name,
			TargetNode:          types.NodeName(route.TargetNode),
			EnableNodeAddresses: p.info.RouteNodeAddresses,
			TargetNodeAddresses: route.TargetNodeAddresses,
			DestinationCIDR:     route.DestinationCIDR,
			Blackhole:           route.Blackhole,
		})
	}
	return routes, err
}

// CreateRoute implements cloudprovider.Routes. The target node must have an instance.
func (p *provider) CreateRoute(
	ctx context.Context, clusterName, nameHint string, route *cloudprovider.Route,
) error {
	_, err := p.call(ctx, "CreateRoute",
		arguments{Cluster: clusterName, NameHint: nameHint, Route: routeFrom(route)})
	return err
}

// DeleteRoute implements cloudprovider.Routes. Deleting a missing route is no error.
func (p *provider) DeleteRoute(
	ctx context.Context, clusterName string, route *cloudprovider.Route,
) error {
	_, err := p.call(ctx, "DeleteRoute", arguments{Cluster: clusterName, Route: routeFrom(route)})
	return err
}

func routeFrom(route *cloudprovider.Route) Route {
	if route == nil {
		return Route{}
	}
	return Route{
		Name:                route.Name,
		TargetNode:          string(route.TargetNode),
		TargetNodeAddresses: route.TargetNodeAddresses,
		DestinationCIDR:     route.DestinationCIDR,
		Blackhole:           route.Blackhole,
	}
}
