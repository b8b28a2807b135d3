// Package routes keeps the routes to the pods of a cluster in a Neutron router, for upstream's route controller.
//
// # Whose a route is
//
// A router's route is a destination and a next hop, and nothing else: it cannot be marked. So it is told by its next hop.
//
//   - The next hop is an InternalIP of a node: the route is ours and right.
//   - The route was ours and right since this process began, and is not any more: the node has another address now, or is gone. It is
//     deleted.
//   - The next hop is the address of no port on the router's networks that is attached to something: nobody is there. The route is a
//     blackhole and is deleted, if it is within the cluster's CIDRs: that is what upstream's controller looks at.
//   - Anything else is somebody else's, such as that of another cluster on the same router. It is not listed and never touched, even if the
//     clusters' CIDRs overlap.
//
// After a restart, a route that was left behind by a node object that is gone, while its server lives, looks like somebody else's. It stays until
// the server is gone. A new node that is given the same pod CIDR meanwhile gets no route but an error that says so: we rather
// leave a route too many than break somebody's traffic. Ports of other projects on a shared network cannot be seen; a next hop there
// looks like nobody's.
//
// # What is written, and in which order
//
// A node's port must be allowed to send from the pod CIDR (Neutron's allowed address pairs, unless the port has no port security). To
// create a route the pair is written first and the route last; to delete it, too. So the route in the router is the record of
// what is to be done: whatever fails, and whenever the process dies, there is nothing to unwind. The controller's next pass finds
// the route missing or still there, calls again, and what is done already is not written again.
//
// Changes of the router that are asked for at about the same time are written together.
//
// # What is read
//
// [Routes.ListRoutes] answers from a copy of the router that is at most a minute old. Our own changes are in it at once, by the answer
// to the write. What others change is seen after at most a minute; before anything is written, a copy of more than 10 s is
// read again.
package routes
