package routes

import (
	"fmt"
	"net/netip"
	"strings"

	"github.com/gophercloud/gophercloud/v2/openstack/networking/v2/extensions/layer3/routers"
)

// route is a route in canonical form, so that routes are comparable.
type route struct {
	destination netip.Prefix
	nextHop     netip.Addr
}

// via separates destination and next hop in the name of a route.
const via = " via "

// String is also the route's name in upstream's controller.
func (r route) String() string { return r.destination.String() + via + r.nextHop.String() }

// raw is the route in Neutron's form.
func (r route) raw() routers.Route {
	return routers.Route{DestinationCIDR: r.destination.String(), NextHop: r.nextHop.String()}
}

// parseName is the inverse of [route.String].
func parseName(name string) (route, error) {
	destination, nextHop, ok := strings.Cut(name, via)
	if !ok {
		return route{}, fmt.Errorf("%q is not the name of a route", name)
	}
	return parseRoute(destination, nextHop)
}

func parseRoute(destination, nextHop string) (route, error) {
	prefix, err := parseDestination(destination)
	if err != nil {
		return route{}, err
	}
	address, err := parseAddress(nextHop)
	if err != nil {
		return route{}, err
	}
	return route{prefix, address}, nil
}

// parseDestination clears the host bits, because Neutron refuses others.
func parseDestination(cidr string) (netip.Prefix, error) {
	prefix, err := netip.ParsePrefix(cidr)
	if err != nil || prefix.Addr().Is4In6() {
		return netip.Prefix{}, kubernetesError(
			"the pod CIDR %q is not a CIDR; correct that of the node", cidr)
	}
	return prefix.Masked(), nil
}

func parseAddress(text string) (netip.Addr, error) {
	address, err := netip.ParseAddr(text)
	if err != nil || address.Zone() != "" {
		return netip.Addr{}, fmt.Errorf("%q is not the address of a next hop", text)
	}
	return address.Unmap(), nil
}

// entry is a route of a router.
type entry struct {
	route
	// stored is the form that Neutron returned.
	stored routers.Route
	// foreign: the route is unreadable. It is written back unchanged.
	foreign bool
}

func entries(stored []routers.Route) []entry {
	all := make([]entry, 0, len(stored))
	for _, s := range stored {
		r, err := parseRoute(s.DestinationCIDR, s.NextHop)
		all = append(all, entry{route: r, stored: s, foreign: err != nil})
	}
	return all
}
