package routes

import "github.com/fxccm/fxccm/provider/openstack/internal/capability"

// The extensions that routes are about, of the Networking API reference.
const (
	extensionExtraRoute       = "extraroute"
	extensionExtraRouteAtomic = "extraroute-atomic"
	extensionAddressPairs     = "allowed-address-pairs"
)

// hasRoutes tells whether routers have routes at all.
func hasRoutes(has capability.NetworkExtensions) bool {
	return has[extensionExtraRoute] || hasAtomicRoutes(has)
}

// hasAtomicRoutes tells whether routes can be added and removed one by one.
func hasAtomicRoutes(has capability.NetworkExtensions) bool { return has[extensionExtraRouteAtomic] }

// hasAddressPairs tells whether ports have allowed address pairs.
func hasAddressPairs(has capability.NetworkExtensions) bool { return has[extensionAddressPairs] }
