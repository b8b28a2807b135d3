// Package endpoint turns one API server into many API endpoints, for tests of programs that serve
// many clusters: fifty real control planes would be too much for a test. Each endpoint has its own
// port, certificate authority and token, and shows one part of the cluster as a separate cluster. A
// test can make a single endpoint fail.
//
// Nodes belong to the whole cluster, so those of a part have the label [PartLabel], and their names
// begin with the part's name and a hyphen; lists and watches get a label selector. Services are
// those in the namespace that has the part's name: a request for the Services of all namespaces
// becomes one for that namespace. Leases are in it, too, and events in it or in the namespace
// default, where those about Nodes go. The namespace kube-system, whose UID identifies a cluster,
// is the part's own, and so is the record of routes in it. The endpoint refuses requests that a
// cloud controller manager never makes, and requests for other parts; [Endpoint.Refused] lists
// them.
package endpoint
