package routes

import "github.com/fxccm/fxccm/provider/openstack/internal/capability"

// Extensions of the Networking API.
const (
	extensionExtraRoute       = "extraroute"
	extensionExtraRouteAtomic = "extraroute-atomic"
	extensionAddressPairs     = "allowed-address-pairs"
)

// hasRoutes: routers support routes.
func hasRoutes(has capability.NetworkExtensions) bool {
	return has[extensionExtraRoute] || hasAtomicRoutes(has)
}

// hasAtomicRoutes: single routes can be added and removed.
func hasAtomicRoutes(has capability.NetworkExtensions) bool {
	return has[extensionExtraRouteAtomic]
}

// hasAddressPairs: ports support allowed address pairs.
func hasAddressPairs(has capability.NetworkExtensions) bool { return has[extensionAddressPairs] }
