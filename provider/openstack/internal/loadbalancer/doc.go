// Package loadbalancer serves Services of type LoadBalancer with Octavia.
//
// A reconcile (reconcile.go) finds the load balancer of the Service (find.go, ownership.go),
// decides what it should be (decide.go, settings, desired), reads its state (observe.go, octavia,
// neutron), compares the two (plan), and takes the steps from one to the other (apply.go, run.go).
// EnsureLoadBalancer, UpdateLoadBalancer and the repairs of drift are the same reconcile. A
// deletion differs in its plan alone.
//
// The Octavia client caches the contents of load balancers by ID and UpdatedAt. A Service's state
// (state.go) holds a load balancer that was just created and its floating IPs, for minutes. A
// reconcile does not wait for long: while Octavia is at work it returns an api.RetryError, and the
// next one continues with what it finds. So a load balancer that is stuck delays no other.
package loadbalancer
