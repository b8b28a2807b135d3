// Package loadbalancer serves Services of type LoadBalancer with Octavia.
//
// A reconcile (reconcile.go) observes, decides, compares and applies: it finds the load balancer of
// the Service (observe.go, ownership.go), decides what it should be (settings, desired), reads what
// it is (octavia, neutron), compares the two (plan), and takes the steps from one to the other
// (run.go). EnsureLoadBalancer, UpdateLoadBalancer and the repairs of drift are the same reconcile.
// A deletion differs in its plan alone.
//
// Only the Octavia client caches what it has read, by load balancer and UpdatedAt. A reconcile does
// not wait for long: while Octavia is at work it returns an api.RetryError, and the next one goes
// on from what it finds. So a load balancer that is stuck delays no other.
package loadbalancer
