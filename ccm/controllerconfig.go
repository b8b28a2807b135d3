package ccm

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// NodeConfig configures the cloud-node-controller.
type NodeConfig struct {
	// ConcurrentSyncs is how many nodes are initialised at once (--concurrent-node-syncs).
	// Default 32; upstream 1.
	ConcurrentSyncs int32 `json:"concurrentSyncs"`

	// ConcurrentStatusUpdates is how many nodes' addresses are refreshed at once; 0 is
	// ConcurrentSyncs (--concurrent-node-status-updates). Default 0.
	ConcurrentStatusUpdates int32 `json:"concurrentStatusUpdates"`

	// StatusUpdateFrequency is the time between two refreshes of the addresses of all nodes
	// (--node-status-update-frequency). Default 5m.
	StatusUpdateFrequency metav1.Duration `json:"statusUpdateFrequency"`
}

// NodeLifecycleConfig configures the cloud-node-lifecycle-controller.
type NodeLifecycleConfig struct {
	// ConcurrentSyncs is how many nodes are checked at once (--concurrent-node-lifecycle-syncs).
	// Default 16; upstream 1.
	ConcurrentSyncs int32 `json:"concurrentSyncs"`

	// MonitorPeriod is the pause between two passes over the nodes (--node-monitor-period).
	// Default 5s.
	MonitorPeriod metav1.Duration `json:"monitorPeriod"`
}

// ServiceConfig configures the service-lb-controller.
type ServiceConfig struct {
	// ConcurrentSyncs is how many Services are reconciled at once (--concurrent-service-syncs).
	// Default 16; upstream 1.
	ConcurrentSyncs int32 `json:"concurrentSyncs"`
}

// RouteConfig configures the node-route-controller.
type RouteConfig struct {
	// ReconciliationPeriod is the time between two reconciliations (--route-reconciliation-period).
	// Default 10s. Ignored when the feature gate
	// CloudControllerManagerWatchBasedRoutesReconciliation is on.
	ReconciliationPeriod metav1.Duration `json:"reconciliationPeriod"`
}

func (c NodeConfig) validate(path *field.Path) field.ErrorList {
	errs := atLeastOne(path.Child("concurrentSyncs"), c.ConcurrentSyncs)
	if c.ConcurrentStatusUpdates < 0 {
		errs = append(errs, field.Invalid(path.Child("concurrentStatusUpdates"),
			c.ConcurrentStatusUpdates, "must not be negative"))
	}
	return append(errs, aboveZero(path.Child("statusUpdateFrequency"), c.StatusUpdateFrequency)...)
}

func (c NodeLifecycleConfig) validate(path *field.Path) field.ErrorList {
	errs := atLeastOne(path.Child("concurrentSyncs"), c.ConcurrentSyncs)
	return append(errs, aboveZero(path.Child("monitorPeriod"), c.MonitorPeriod)...)
}

func (c ServiceConfig) validate(path *field.Path) field.ErrorList {
	return atLeastOne(path.Child("concurrentSyncs"), c.ConcurrentSyncs)
}

func (c RouteConfig) validate(path *field.Path) field.ErrorList {
	return aboveZero(path.Child("reconciliationPeriod"), c.ReconciliationPeriod)
}

func atLeastOne(path *field.Path, n int32) field.ErrorList {
	if n < 1 {
		return field.ErrorList{field.Invalid(path, n, "must be at least 1")}
	}
	return nil
}
