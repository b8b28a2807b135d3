package ccmtest

import (
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/fxccm/fxccm/ccm"
)

// ClusterCIDR is the range of pod addresses in [Config].
const ClusterCIDR = "10.244.0.0/16"

// Config is [ccm.DefaultConfig] with values for tests: periods of seconds are fractions of a
// second, a free lease is taken within a quarter of a second, and routes have a cluster CIDR. Of
// the election, only the retry period is shorter, so a slow machine does not lose the lease.
func Config() ccm.Config {
	cfg := ccm.DefaultConfig()
	cfg.ClusterCIDR = ClusterCIDR
	cfg.NodeLifecycle.MonitorPeriod = metav1.Duration{Duration: 200 * time.Millisecond}
	cfg.Route.ReconciliationPeriod = metav1.Duration{Duration: 500 * time.Millisecond}
	cfg.LeaderElection.RetryPeriod = metav1.Duration{Duration: 250 * time.Millisecond}
	return cfg
}
