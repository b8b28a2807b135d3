// Package cloudcontrollers builds the four cloud controllers for a term: those of nodes and
// Services from fxccm's packages, and that of routes from k8s.io/cloud-provider.
//
// A constructor returns [ErrNotServed] if the provider does not serve the interfaces of the
// controller. Only [CloudNode] does not: its controller reports the nodes that wait.
package cloudcontrollers
