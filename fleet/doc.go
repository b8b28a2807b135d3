// Package fleet runs the cloud controller managers of many clusters in a few replicas of one
// program.
//
// A [Source] yields the clusters. Each replica runs a [ccm.Manager] for its share of them. The lock
// of a cluster is a Lease, so that at most one replica acts for it at any time, as with a cloud
// controller manager of its own. Which replica campaigns first is only a preference, which the
// replicas compute from each other's announcements. A wrong preference costs balance, but not
// safety.
//
//	            ┌─────────────── replica ───────────────┐
//	Source ───▶ │ Fleet ─┬─ Manager ─ cluster a         │
//	            │        ├─ Manager ─ cluster b         │ ◀──▶ Leases in the management cluster
//	            │        └─ (waits)   cluster c         │
//	            └───────────────────────────────────────┘
//
// A cluster that waits costs a replica one Lease in a shared cache, and neither a connection nor a
// goroutine.
package fleet
