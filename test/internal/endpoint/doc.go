// Package endpoint makes many API endpoints of one API server, for tests of programs that serve
// many clusters: fifty real control planes would be too much for a test. Each endpoint has a port,
// a certificate authority and a token of its own, and shows one part of the cluster as if it were a
// cluster of its own. It can be made to fail without the others.
//
// Nodes belong to the whole cluster, so those of a part bear the label [PartLabel], and their names
// begin with the part's name and a hyphen; lists and watches get a label selector. Services are
// those in the namespace that has the part's name: a request for the Services of all namespaces
// becomes one for that namespace. Leases are in it, too, and events in it or in the namespace
// default, where those about Nodes go. The namespace kube-system, whose UID identifies a cluster,
// is the part's own. A request that a cloud controller manager never makes is refused, as is
// whatever belongs to another part, and can be looked at with [Endpoint.Refused].
package endpoint
