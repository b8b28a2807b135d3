package ccm

import (
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/fxccm/fxccm/internal/servicelb"
)

// NodeConfig configures the cloud-node-controller.
type NodeConfig struct {
	// ConcurrentSyncs is how many nodes are initialized at once (--concurrent-node-syncs).
	// Default 32; upstream 1.
	ConcurrentSyncs int32 `json:"concurrentSyncs"`

	// ConcurrentStatusUpdates is how many nodes' addresses are refreshed at once; 0 is
	// ConcurrentSyncs (--concurrent-node-status-updates). Default 0.
	ConcurrentStatusUpdates int32 `json:"concurrentStatusUpdates"`

	// StatusUpdateFrequency is the time between two refreshes of the addresses of all nodes
	// (--node-status-update-frequency). Default 5m.
	StatusUpdateFrequency metav1.Duration `json:"statusUpdateFrequency"`

	// UpdateLabels lets the labels of a node follow its instance with each refresh
	// (--update-node-labels): instance type, zone, region, and the labels that the provider adds. A
	// value that another client has set is replaced. A label that the provider no longer reports
	// stays. Default false, as upstream: the labels are set once, when a node is initialized.
	UpdateLabels bool `json:"updateLabels,omitempty"`
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

	// DefaultLoadBalancer serves the Services without spec.loadBalancerClass
	// (--default-load-balancer). Exactly one controller of a cluster should serve them. Default
	// true.
	DefaultLoadBalancer bool `json:"defaultLoadBalancer"`

	// LoadBalancerClasses are the values of spec.loadBalancerClass that are served
	// (--load-balancer-classes). "*" is every class, and "-name" leaves one out. Services of other
	// classes are not touched, also when they are deleted. Default none.
	LoadBalancerClasses []string `json:"loadBalancerClasses,omitempty"`
}

// RouteConfig configures the node-route-controller.
type RouteConfig struct {
	// ReconciliationPeriod is the time between two reconciliations (--route-reconciliation-period).
	// Default 10s. Ignored when the feature gate
	// CloudControllerManagerWatchBasedRoutesReconciliation is on.
	ReconciliationPeriod metav1.Duration `json:"reconciliationPeriod"`
}

// NodeIPAMConfig has upstream's settings of the node-ipam-controller. Only that controller, of
// package controllers/nodeipam, reads and checks them.
type NodeIPAMConfig struct {
	// AllocatorType selects the source of the ranges (--cidr-allocator-type): RangeAllocator or
	// CloudAllocator. Default RangeAllocator.
	AllocatorType string `json:"allocatorType"`

	// ServiceCIDR is the range of Service addresses, or two of different IP families separated by a
	// comma (--service-cluster-ip-range). The range allocator gives nodes no address of it. Default
	// "".
	ServiceCIDR string `json:"serviceCIDR,omitempty"`

	// NodeCIDRMaskSize is the prefix length of a node's range if there is one ClusterCIDR
	// (--node-cidr-mask-size). 0 is NodeCIDRMaskSizeIPv4 or NodeCIDRMaskSizeIPv6. Default 0.
	NodeCIDRMaskSize int32 `json:"nodeCIDRMaskSize,omitempty"`

	// NodeCIDRMaskSizeIPv4 and NodeCIDRMaskSizeIPv6 are the prefix lengths by IP family
	// (--node-cidr-mask-size-ipv4, --node-cidr-mask-size-ipv6). Default 0, which is 24 and 64.
	NodeCIDRMaskSizeIPv4 int32 `json:"nodeCIDRMaskSizeIPv4,omitempty"`
	NodeCIDRMaskSizeIPv6 int32 `json:"nodeCIDRMaskSizeIPv6,omitempty"`
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
	errs := atLeastOne(path.Child("concurrentSyncs"), c.ConcurrentSyncs)
	classes := path.Child("loadBalancerClasses")
	if !c.DefaultLoadBalancer && len(c.LoadBalancerClasses) == 0 {
		errs = append(errs, field.Required(classes, "no Service is served if defaultLoadBalancer "+
			"is false; to turn the controller off, set --controllers=*,-service-lb-controller"))
	}
	given := map[string]bool{}
	for i, class := range c.LoadBalancerClasses {
		name, excluded := strings.CutPrefix(class, "-")
		switch {
		case given[name]:
			errs = append(errs, field.Duplicate(classes.Index(i), class))
		case class == servicelb.AnyClass:
		case excluded && !slices.Contains(c.LoadBalancerClasses, servicelb.AnyClass):
			errs = append(errs, field.Invalid(classes.Index(i), class,
				`has no effect without "*", which serves every class`))
		default:
			for _, problem := range validation.IsQualifiedName(name) {
				errs = append(errs, field.Invalid(classes.Index(i), class, problem))
			}
		}
		given[name] = true
	}
	return errs
}

func (c ServiceConfig) classes() servicelb.Classes {
	return servicelb.Classes{Default: c.DefaultLoadBalancer, Names: c.LoadBalancerClasses}
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
