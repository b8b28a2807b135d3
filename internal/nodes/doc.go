// Package nodes is the cloud-node-controller and the cloud-node-lifecycle-controller, with the
// names, events, taints, labels and metrics of upstream's controllers, which k8s.io/cloud-provider
// has in controllers/node and controllers/nodelifecycle.
//
// The [Controller] looks at a node as it is now, looks up its instance once, and writes what
// differs: one patch of the addresses, and one of the rest.
//
//   - A node that is not initialized is tried again after 1 second. The pause doubles up to 5
//     seconds, and then is a tenth of the time for which the node has failed, up to 30 seconds.
//   - An instance that the provider leaves to another component, with no metadata or
//     [cloudprovider.ImplementedElsewhere], is looked up again with the periodic refresh only.
//   - A patch changes only what it names, in the node with the UID that was looked up. A field of a
//     newer API survives.
//
// The [Lifecycle] deletes a node that is not ready and has no instance, and taints one whose
// instance is shut down.
package nodes
