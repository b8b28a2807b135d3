// Package loadbalancer serves Services of type LoadBalancer by Octavia.
//
// All that is done for a Service is done by a pass: the Service's load balancer is found, what it should be is decided (settings,
// places, desired), what it is is read (octavia, neutron), the two are compared (plan), and the steps from one to the other are
// taken (apply). EnsureLoadBalancer, UpdateLoadBalancer and the repairs that the provider makes on its own are the same pass; a
// deletion differs in the plan alone.
//
// A pass does not wait for long. What Octavia is still at work on is handed back as an api.RetryError, and the next pass goes on from
// what it finds; so a load balancer that is stuck holds nobody up.
package loadbalancer
