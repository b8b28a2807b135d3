// Package election decides when a [github.com/fxccm/fxccm/ccm.Manager] leads: by a Lease
// ([NewLease]), by the host's own election ([Host]), or always ([Alone]). A host can also implement
// an [Elector].
//
// An elector keeps leadership while a term drains. It does not release leadership after a term that
// has not drained, because its calls may still act.
package election
