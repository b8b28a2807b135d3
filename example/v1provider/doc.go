// Package v1provider is a worked example of a cloud provider in the style of the first cloud
// controller managers. It serves the interfaces Instances and Zones instead of InstancesV2, and has
// a controller of its own: Initialize starts it, and SetInformers gives it shared informers.
//
// The provider imports nothing of fxccm. Its test shows how fxccm hosts it through two terms:
//
//   - registered.Factory builds a new Cloud in each term, so no field outlives its term.
//   - The HTTP client has the term's transport, so requests to the cloud end with the term.
//   - The client of Initialize belongs to the term: writes after the term are refused.
//   - The channel of Initialize is closed at the end of the term, and the controller returns.
//   - The event handlers are removed from the shared informers.
//   - Close waits for the controller, so that the next term does not begin before its end.
package v1provider
