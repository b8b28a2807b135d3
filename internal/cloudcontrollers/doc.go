// Package cloudcontrollers wraps the four cloud controllers of k8s.io/cloud-provider so that a term
// can check what they need, build them, and wait for their end.
//
// Each constructor first checks that the provider serves the interfaces of the controller, and
// returns [ErrNotServed] if it does not. Upstream's own constructors leak goroutines or end the
// process in that case.
package cloudcontrollers
