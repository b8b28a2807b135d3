// Package controllers wraps the four cloud controllers of k8s.io/cloud-provider so that they can be
// built once a term, asked for what they need before they take it, and awaited.
//
// Each constructor asks the provider first and answers [ErrNotServed] when the controller has
// nothing to do there: upstream's own constructors leak goroutines or end the process in that case.
// Package ccm turns the four into its Controllers; a host seldom needs this package itself.
package controllers
