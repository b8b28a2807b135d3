package controllers

import (
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// NodeConfig configures [CloudNode].
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

// NodeLifecycleConfig configures [CloudNodeLifecycle].
type NodeLifecycleConfig struct {
	// ConcurrentSyncs is how many nodes are looked at at once (--concurrent-node-lifecycle-syncs).
	// Default 16; upstream 1.
	ConcurrentSyncs int32 `json:"concurrentSyncs"`

	// MonitorPeriod is the pause between two passes over the nodes (--node-monitor-period).
	// Default 5s.
	MonitorPeriod metav1.Duration `json:"monitorPeriod"`
}

// ServiceConfig configures [ServiceLB].
type ServiceConfig struct {
	// ConcurrentSyncs is how many Services are reconciled at once (--concurrent-service-syncs).
	// Default 16; upstream 1.
	ConcurrentSyncs int32 `json:"concurrentSyncs"`
}

// RouteConfig configures [NodeRoute].
type RouteConfig struct {
	// ReconciliationPeriod is the time between two reconciliations (--route-reconciliation-period).
	// Default 10s. Ignored when the feature gate CloudControllerManagerWatchBasedRoutesReconciliation
	// is on.
	ReconciliationPeriod metav1.Duration `json:"reconciliationPeriod"`
}

// DefaultNodeConfig returns the defaults of [NodeConfig].
func DefaultNodeConfig() NodeConfig {
	return NodeConfig{ConcurrentSyncs: 32, StatusUpdateFrequency: metav1.Duration{Duration: 5 * time.Minute}}
}

// DefaultNodeLifecycleConfig returns the defaults of [NodeLifecycleConfig].
func DefaultNodeLifecycleConfig() NodeLifecycleConfig {
	return NodeLifecycleConfig{ConcurrentSyncs: 16, MonitorPeriod: metav1.Duration{Duration: 5 * time.Second}}
}

// DefaultServiceConfig returns the defaults of [ServiceConfig].
func DefaultServiceConfig() ServiceConfig { return ServiceConfig{ConcurrentSyncs: 16} }

// DefaultRouteConfig returns the defaults of [RouteConfig].
func DefaultRouteConfig() RouteConfig {
	return RouteConfig{ReconciliationPeriod: metav1.Duration{Duration: 10 * time.Second}}
}

// Validate returns what is wrong with the values, each error naming the field below path.
func (c NodeConfig) Validate(path *field.Path) field.ErrorList {
	errs := atLeastOne(path.Child("concurrentSyncs"), c.ConcurrentSyncs)
	if c.ConcurrentStatusUpdates < 0 {
		errs = append(errs, field.Invalid(path.Child("concurrentStatusUpdates"), c.ConcurrentStatusUpdates, "must not be negative"))
	}
	return append(errs, positive(path.Child("statusUpdateFrequency"), c.StatusUpdateFrequency)...)
}

// Validate returns what is wrong with the values, each error naming the field below path.
func (c NodeLifecycleConfig) Validate(path *field.Path) field.ErrorList {
	errs := atLeastOne(path.Child("concurrentSyncs"), c.ConcurrentSyncs)
	return append(errs, positive(path.Child("monitorPeriod"), c.MonitorPeriod)...)
}

// Validate returns what is wrong with the values, each error naming the field below path.
func (c ServiceConfig) Validate(path *field.Path) field.ErrorList {
	return atLeastOne(path.Child("concurrentSyncs"), c.ConcurrentSyncs)
}

// Validate returns what is wrong with the values, each error naming the field below path.
func (c RouteConfig) Validate(path *field.Path) field.ErrorList {
	return positive(path.Child("reconciliationPeriod"), c.ReconciliationPeriod)
}

func atLeastOne(path *field.Path, n int32) field.ErrorList {
	if n < 1 {
		return field.ErrorList{field.Invalid(path, n, "must be at least 1")}
	}
	return nil
}

func positive(path *field.Path, d metav1.Duration) field.ErrorList {
	if d.Duration <= 0 {
		return field.ErrorList{field.Invalid(path, d.Duration.String(), "must be longer than 0")}
	}
	return nil
}
