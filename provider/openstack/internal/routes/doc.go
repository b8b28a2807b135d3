// Package routes keeps the routes to the pods of a cluster in a Neutron router, for upstream's
// route controller.
//
// # Ownership
//
// A route of a router is a destination and a next hop. It has no tags, so the next hop decides:
//
//   - The next hop is an address of a node: the cluster owns the route, whether this process, an
//     earlier one or OCCM wrote it.
//   - The cluster owned the route since this process started, and the node now has another address
//     or is gone: the route is deleted.
//   - Any other route is foreign, for example of another cluster on the same router. It is not
//     listed and never changed, even if the CIDRs of the clusters overlap.
//
// A next hop that no server has proves nothing: it may be the virtual address of two firewalls,
// with or without a port, or belong to a project whose ports are invisible. So the route of a node
// that was deleted while no process ran is foreign. It stays, and the log names it with the other
// foreign routes. A new node with the same pod CIDR gets an error instead of a route: an extra
// route is better than broken traffic.
//
// # Order of writes
//
// The port of a node must be allowed to send from the pod CIDR (Neutron's allowed address pairs,
// unless port security is off). A creation writes the route first, and a deletion removes it last.
// So there is no pair without its route, and the route in the router records the work to do: no
// failure or crash leaves anything behind. [Routes.ListRoutes] omits a route of a node without its
// pair, so the next reconciliation calls again and skips completed steps.
//
// Concurrent changes of the router are written together.
//
// # Caching
//
// [Routes.ListRoutes] answers from a copy of the router that is at most 5 minutes old. Writes
// of this process update the copy at once. Changes by others are visible after at most 5 minutes; a
// write reads the router again if the copy is older than 10 s.
package routes
