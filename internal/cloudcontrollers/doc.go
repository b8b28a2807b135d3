// Package cloudcontrollers wraps the four cloud controllers of k8s.io/cloud-provider so that a term
// can build them, check beforehand what they need, and wait for their end.
//
// Each constructor asks the provider first and returns [ErrNotServed] when the provider lacks what
// the controller needs: upstream's own constructors leak goroutines or end the process in that
// case.
package cloudcontrollers
