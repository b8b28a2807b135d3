// Package routes keeps the routes to the pods of a cluster in a Neutron router, for upstream's
// route controller.
//
// # Ownership
//
// A route of a router is a destination and a next hop. It has no tags, so the next hop decides:
//
//   - The next hop is an address of a node: the cluster owns the route, whether this process, an
//     earlier one, OCCM or a user wrote it. Nodes that --node-selector leaves out do not count, and
//     neither do addresses that a node reports but its server does not have. Until OpenStack has
//     shown the server, only a route to the pod CIDR of the node is the cluster's.
//   - The cluster owned the route since this process started, and the node now has another address
//     or is gone: the route is deleted.
//   - An earlier process of the cluster recorded the route, and nothing can use its next hop: the
//     route is deleted, too.
//   - Any other route is foreign, for example of another cluster on the same router. It is not
//     listed and never changed, even if the CIDRs of the clusters overlap.
//
// A next hop that no server has proves nothing: it may be the virtual address of two firewalls,
// with or without a port, or belong to a project whose ports are invisible. A new node with the pod
// CIDR of a foreign route gets an error instead of a route: an extra route is better than broken
// traffic.
//
// # Record
//
// The ConfigMap fxccm-routes in kube-system lists the routes of the cluster with their nodes, so
// that a route goes even if its node was deleted while no process led. It is written before a route
// is created, once for a batch, and follows the router when routes are listed. It is read once a
// term. A cluster at rest writes it once an hour. Routes are recorded while their nodes exist,
// whoever wrote them. So after a takeover from OCCM or from a version without the record, only the
// routes of nodes that were deleted before the first list stay.
//
// The users of the cluster can edit the record, so it is not enough. A recorded route is confirmed
// if its next hop
//
//   - is in a subnet at the router that also has an InternalIP of a node, and in its allocation
//     pools. A virtual address without a port is outside of the pools, or Neutron could allocate
//     it;
//   - is not the address of a port, and not in an allowed address pair, in any network at the
//     router that the project owns. Only the owner of a network sees all of its ports, so a next
//     hop in the network of another project is never confirmed.
//
// The log names the recorded routes that are kept, with the reason. They are checked again every 5
// minutes. Without access to the ConfigMap, routes are served without the record, and the log
// reports it.
//
// Two other places for the record were rejected. A router has at most 50 tags, of 60 characters
// each in older releases, and other clusters on the router can change them. Evidence without a
// record cannot tell the route of a former node from one to a virtual address.
//
// # Order of writes
//
// The port of a node must be allowed to send from the pod CIDR (Neutron's allowed address pairs,
// unless port security is off). A creation writes the route first, and a deletion removes it last.
// So there is no pair without its route, and the route in the router records the work to do: no
// failure or crash leaves anything behind. [Routes.ListRoutes] omits a route of a node without its
// pair, so the next reconciliation calls again and skips completed steps. A pair has no tags: a
// user's own pair of the port's MAC address and exactly the pod CIDR is removed with the route.
// When the node is gone, another server may have the address. So only the port that had the address
// while the node was there loses the pair.
//
// Concurrent changes of the router are written together.
//
// # Caching
//
// [Routes.ListRoutes] answers from a copy of the router that is at most 5 minutes old. Writes
// of this process update the copy at once. Changes by others are visible after at most 5 minutes; a
// write reads the router again if the copy is older than 10 s.
package routes
