// Package instances looks up the servers of nodes in Nova and Neutron: existence, state, addresses,
// type and zone.
//
// The node controllers look up one node at a time, and a thousand of them within seconds.
// Concurrent calls are served together, with a few direct requests or with one list of the servers
// and one of the ports ([lookups]).
//
// A node is deleted when its instance is reported as absent. So an absence is reported only
// after Nova itself has denied the server twice, some time apart, and never while a large share of
// all instances is absent: see package absence.
package instances
