// Package cloudcontrollers builds the four cloud controllers for a term: those of nodes and
// Services from fxccm's packages, and that of routes from k8s.io/cloud-provider.
//
// The route controller stays upstream's. It calls, logs and records events too often, and reports
// too little, which [routePasses], [conditionClient] and [withoutEvents] mend from outside: a pass
// has only the nodes with work to do.
// The other controllers of upstream decide wrongly, such as which nodes to delete and which nodes a
// load balancer gets. No program around them can change that, so fxccm has its own.
//
// A constructor returns [ErrNotServed] if the provider does not serve the interfaces of the
// controller. Only [CloudNode] does not: its controller reports the nodes that wait.
package cloudcontrollers
