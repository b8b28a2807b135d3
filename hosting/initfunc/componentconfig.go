package initfunc

import (
	"fmt"
	"slices"

	cpconfig "k8s.io/cloud-provider/config"
	cpoptions "k8s.io/cloud-provider/options"

	"github.com/fxccm/fxccm/ccm"
)

// componentConfig converts cfg to upstream's configuration. Fields that cfg does not have keep
// upstream's defaults.
func componentConfig(
	cfg ccm.Config, provider string,
) (cpconfig.CloudControllerManagerConfiguration, error) {
	defaults, err := cpoptions.NewDefaultComponentConfig()
	if err != nil {
		return cpconfig.CloudControllerManagerConfiguration{}, fmt.Errorf(
			"upstream's default configuration: %w", err)
	}
	c := *defaults
	setGeneric(&c, cfg)
	setShared(&c.KubeCloudShared, cfg, provider)

	c.NodeController.ConcurrentNodeSyncs = cfg.Node.ConcurrentSyncs
	c.NodeController.ConcurrentNodeStatusUpdates = cfg.Node.ConcurrentStatusUpdates
	if cfg.Node.ConcurrentStatusUpdates == 0 {
		// For upstream's flags, 0 means the same. For upstream's controller, 0 would be no worker.
		c.NodeController.ConcurrentNodeStatusUpdates = cfg.Node.ConcurrentSyncs
	}
	c.NodeStatusUpdateFrequency = cfg.Node.StatusUpdateFrequency
	c.NodeLifecycleController.NodeMonitorPeriod = cfg.NodeLifecycle.MonitorPeriod
	c.NodeLifecycleController.ConcurrentNodeLifecycleSyncs = cfg.NodeLifecycle.ConcurrentSyncs
	c.ServiceController.ConcurrentServiceSyncs = cfg.Service.ConcurrentSyncs
	return c, nil
}

func setGeneric(c *cpconfig.CloudControllerManagerConfiguration, cfg ccm.Config) {
	generic := &c.Generic
	generic.MinResyncPeriod = cfg.MinResyncPeriod
	generic.ControllerStartInterval = cfg.ControllerStartInterval
	generic.Controllers = slices.Clone(cfg.Controllers)

	connection := &generic.ClientConnection
	connection.Kubeconfig = cfg.ClientConnection.Kubeconfig
	connection.ContentType = cfg.ClientConnection.ContentType
	connection.QPS, connection.Burst = cfg.ClientConnection.QPS, int32(cfg.ClientConnection.Burst)
	if connection.QPS == 0 {
		connection.QPS = -1 // no limit, for clients that are made with it
	}

	election := &generic.LeaderElection
	election.LeaderElect = cfg.LeaderElection.LeaderElect
	election.LeaseDuration = cfg.LeaderElection.LeaseDuration
	election.RenewDeadline = cfg.LeaderElection.RenewDeadline
	election.RetryPeriod = cfg.LeaderElection.RetryPeriod
	election.ResourceName = cfg.LeaderElection.ResourceName
	election.ResourceNamespace = cfg.LeaderElection.ResourceNamespace
}

func setShared(shared *cpconfig.KubeCloudSharedConfiguration, cfg ccm.Config, provider string) {
	shared.CloudProvider.Name = cfg.CloudProvider.Name
	if shared.CloudProvider.Name == "" {
		shared.CloudProvider.Name = provider
	}
	shared.CloudProvider.CloudConfigFile = cfg.CloudProvider.ConfigFile
	shared.AllowUntaggedCloud = cfg.CloudProvider.AllowUntagged
	shared.UseServiceAccountCredentials = cfg.UseServiceAccountCredentials
	shared.RouteReconciliationPeriod = cfg.Route.ReconciliationPeriod
	shared.ClusterName = cfg.ClusterName
	shared.ClusterCIDR = cfg.ClusterCIDR
	shared.AllocateNodeCIDRs = cfg.AllocateNodeCIDRs
	shared.CIDRAllocatorType = cfg.NodeIPAM.AllocatorType
	shared.ConfigureCloudRoutes = cfg.ConfigureCloudRoutes
}
