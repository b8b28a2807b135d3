package neutron

import (
	"encoding/json"
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"github.com/fxccm/fxccm/provider/openstack/openstacktest/internal/api"
	"github.com/fxccm/fxccm/provider/openstack/openstacktest/internal/resource"
)

func setRoutes(row *Router, raw json.RawMessage) error {
	routes, err := routesOf(raw)
	if err != nil {
		return err
	}
	for i, route := range routes {
		if err := checkRoute(route); err != nil {
			return err
		}
		if slices.Contains(routes[:i], route) {
			return invalidInput("routes", "Duplicate hostroute '"+pythonRoute(route)+"'")
		}
	}
	row.Routes = routes
	return nil
}

// routesOf decodes a list of routes; null is an empty one.
func routesOf(raw json.RawMessage) ([]Route, error) {
	var given []map[string]string
	if err := json.Unmarshal(raw, &given); err != nil {
		return nil,
			invalidInput("routes", "Invalid data format for hostroute: '"+resource.Text(raw)+"'")
	}
	routes := []Route{}
	for _, route := range given {
		_, hasDestination := route["destination"]
		_, hasNextHop := route["nexthop"]
		if !hasDestination || !hasNextHop || len(route) != 2 {
			return nil, invalidInput("routes", fmt.Sprintf(
				"Validation of dictionary's keys failed. Expected keys: {'destination', 'nexthop'} Provided keys: {'%s'}", strings.Join(api.SortedKeys(route), "', '")))
		}
		routes = append(routes, Route{route["destination"], route["nexthop"]})
	}
	return routes, nil
}

// checkRoute has the checks of a route that do not need the router (neutron-lib's
// validate_hostroutes).
func checkRoute(route Route) error {
	prefix, err := netip.ParsePrefix(route.Destination)
	if err != nil {
		return invalidInput("routes", "'"+route.Destination+"' is not a valid CIDR")
	}
	if masked := prefix.Masked(); masked != prefix {
		return invalidInput("routes",
			fmt.Sprintf("'%s' is not a recognized CIDR, '%s' is recommended", route.Destination,
				masked))
	}
	if _, err := netip.ParseAddr(route.NextHop); err != nil {
		return invalidInput("routes", "'"+route.NextHop+"' is not a valid IP address")
	}
	return nil
}

// checkRoutes checks all new routes of a router: each next hop is on a subnet of the router, and is
// not the router. The error names all routes, not only the refused one (neutron's extraroute_db,
// _validate_routes).
func (n *Service) checkRoutes(row *Router, routes []Route) error {
	prefixes, own := n.connected(row)
	for _, route := range routes {
		hop, err := netip.ParseAddr(route.NextHop)
		if err != nil {
			return neutronBadRequest("AddrFormatError",
				"failed to detect a valid IP address from '%s'", route.NextHop)
		}
		if _, err := prefixOf(route.Destination); err != nil {
			return neutronBadRequest("AddrFormatError", "invalid IPNetwork %s", route.Destination)
		}
		if !slices.ContainsFunc(prefixes,
			func(prefix netip.Prefix) bool { return prefix.Contains(hop) }) {
			return invalidRoutes(routes, "the nexthop is not connected with router")
		}
		if slices.Contains(own, hop) {
			return invalidRoutes(routes, "the nexthop is used by router")
		}
	}
	if n.maxRoutes > 0 && len(routes) > n.maxRoutes {
		return neutronBadRequest("RoutesExhausted",
			"Unable to complete operation for %s. The number of routes exceeds the maximum %d.",
			row.ID, n.maxRoutes)
	}
	if limit, limited := n.quotas["router_route"]; limited {
		return overQuota("router_route", len(routes), limit)
	}
	return nil
}

func invalidRoutes(routes []Route, reason string) error {
	texts := []string{}
	for _, route := range routes {
		texts = append(texts, pythonRoute(route))
	}
	return neutronBadRequest("InvalidRoutes", "Invalid format for routes: [%s], %s",
		strings.Join(texts, ", "), reason)
}

func pythonRoute(route Route) string {
	return fmt.Sprintf("{'destination': '%s', 'nexthop': '%s'}", route.Destination, route.NextHop)
}

// connected returns the subnets of all ports of a router, with its gateway, and the router's
// addresses.
func (n *Service) connected(row *Router) (prefixes []netip.Prefix, own []netip.Addr) {
	for _, port := range n.PortsOf(row.ID) {
		for _, ip := range port.FixedIPs {
			prefixes = append(prefixes, netip.MustParsePrefix(n.Subnets.rows[ip.SubnetID].CIDR))
			own = append(own, netip.MustParseAddr(ip.Address))
		}
	}
	return prefixes, own
}

// canonicalRoutes are the new routes in the order of the database: remaining old ones, then new
// ones. Destinations keep their given form, next hops do not.
func canonicalRoutes(old, routes []Route) []Route {
	kept := []Route{}
	for _, route := range old {
		if slices.Contains(routes, route) {
			kept = append(kept, route)
		}
	}
	for _, route := range routes {
		if hop, err := netip.ParseAddr(route.NextHop); err == nil {
			route.NextHop = hop.String()
		}
		if !slices.Contains(kept, route) {
			kept = append(kept, route)
		}
	}
	return kept
}

// The atomic actions of the extension extraroute-atomic compare the texts of routes, and check all
// routes that remain. One invalid route of a router therefore refuses every change but its own
// removal (neutron's extraroute_db).

func (n *Service) addRoutes(r *request, c caller, row *Router) (answer, error) {
	return n.editRoutes(r, c, row, func(old, given []Route) []Route {
		added := slices.Clone(old)
		for _, route := range given {
			if !slices.Contains(added, route) {
				added = append(added, route)
			}
		}
		return added
	})
}

func (n *Service) removeRoutes(r *request, c caller, row *Router) (answer, error) {
	return n.editRoutes(r, c, row, func(old, given []Route) []Route {
		return slices.DeleteFunc(slices.Clone(old),
			func(route Route) bool { return slices.Contains(given, route) })
	})
}

func (n *Service) editRoutes(
	r *request, c caller, row *Router, edit func(old, given []Route) []Route,
) (answer, error) {
	if !n.has("extraroute-atomic") {
		return answer{}, noSuchPath()
	}
	body, err := n.Routers.body(r)
	if err != nil {
		return answer{}, err
	}
	given, err := routesOf(body["routes"])
	if err != nil {
		return answer{}, err
	}
	edited := edit(row.Routes, given)
	if slices.Equal(edited, row.Routes) {
		// Neutron does not write in this case, and does not check the condition.
		c.only = condition{}
	}
	err = n.Routers.change(c, row, func(changed *Router) error {
		changed.Routes = edited
		return nil
	})
	if err != nil {
		return answer{}, err
	}
	return api.OK(object{"router": n.Routers.render(c, row, nil)}), nil
}
