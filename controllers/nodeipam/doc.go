// Package nodeipam gives each node a range of pod addresses (spec.podCIDRs), which the route
// controller and many network plugins read. kube-controller-manager has a controller of this name.
// This controller is for clusters in which the cloud controller manager allocates the ranges.
//
// A cluster must have one allocator: start kube-controller-manager with
// --allocate-node-cidrs=false. Therefore the controller is off unless --controllers names it and
// --allocate-node-cidrs is true.
//
// The range allocator follows that of kube-controller-manager 1.37: one range from each cluster
// CIDR, service CIDRs left out, the next range in order, and released ranges reused last. It
// differs where upstream loses ranges or stops:
//
//   - A range belongs to a node by name and UID. A patch whose answer is lost is repeated with the
//     same range.
//   - A node with a range outside the cluster CIDRs gets a Warning event. Upstream's process exits.
//   - Two nodes that share a range get a Warning event, and the range stays in use until both nodes
//     are gone.
//   - A node that waits for a range gets one as soon as another node releases it.
//
// The controller never changes or removes the ranges of a node that has some.
package nodeipam
