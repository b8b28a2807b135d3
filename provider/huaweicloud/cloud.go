package huaweicloud

import (
	"errors"
	"fmt"

	cloudprovider "k8s.io/cloud-provider"

	"github.com/fxccm/fxccm/ccm"
	"github.com/fxccm/fxccm/provider/huaweicloud/internal/client"
	"github.com/fxccm/fxccm/provider/huaweicloud/internal/instances"
	"github.com/fxccm/fxccm/provider/huaweicloud/internal/loadbalancer"
)

// cloud is Huawei Cloud in one term.
type cloud struct {
	client    *client.Client
	instances *instances.Instances
	balancers *loadbalancer.Balancers
}

var _ cloudprovider.Interface = (*cloud)(nil)

// open sends no request.
func open(s source, env ccm.ProviderEnv) (cloudprovider.Interface, error) {
	if env.Informers == nil {
		return nil, fmt.Errorf("clean up after a deleted cluster: %w", errors.ErrUnsupported)
	}
	cfg, warnings, err := s.load(env.ConfigFile, env.ConfigStrict)
	if err != nil {
		return nil, err
	}
	for _, warning := range warnings {
		env.Logger.Info("Problem in the cloud configuration", "warning", warning)
	}
	urls, err := cfg.endpoints()
	if err != nil {
		return nil, err
	}
	nodes := env.Informers.Core().V1().Nodes()
	c := &cloud{client: client.New(client.Config{
		ECS: urls.ecs, ELB: urls.elb, EIP: urls.eip,
		ProjectID:   cfg.ProjectID,
		AccessKeyID: cfg.AccessKeyID, AccessKeySecret: string(cfg.AccessKeySecret),
		Transport: env.Transport, UserAgents: env.UserAgents,
	})}
	c.instances = instances.New(instances.Config{
		Client: c.client, Region: cfg.Region, Clock: env.Clock, Logger: env.Logger,
		Nodes: nodes.Lister(), NodesSynced: nodes.Informer().HasSynced,
		RemovalTaints: cfg.RemovalTaints,
		Trouble:       env.ReportTrouble,
	})
	// These problems were reported when the configuration was checked.
	subnets, _ := cfg.LoadBalancer.subnets()
	c.balancers = loadbalancer.New(loadbalancer.Config{
		Client: c.client, VPC: cfg.RouterID, SubnetID: cfg.SubnetID,
		MemberSubnets: subnets, Zones: cfg.LoadBalancer.AvailabilityZones,
		L4Flavor: cfg.LoadBalancer.L4FlavorID, L7Flavor: cfg.LoadBalancer.L7FlavorID,
		RemovalTaints: cfg.RemovalTaints,
		Logger:        env.Logger,
	})
	return c, nil
}

// ProviderName implements cloudprovider.Interface.
func (c *cloud) ProviderName() string { return Name }

// HasClusterID implements cloudprovider.Interface.
func (c *cloud) HasClusterID() bool { return true }

// Initialize implements cloudprovider.Interface.
func (c *cloud) Initialize(cloudprovider.ControllerClientBuilder, <-chan struct{}) {}

// InstancesV2 implements cloudprovider.Interface.
func (c *cloud) InstancesV2() (cloudprovider.InstancesV2, bool) { return c.instances, true }

// Instances implements cloudprovider.Interface. Upstream's controllers use InstancesV2.
func (c *cloud) Instances() (cloudprovider.Instances, bool) { return nil, false }

// Zones implements cloudprovider.Interface. InstancesV2 has the zones.
func (c *cloud) Zones() (cloudprovider.Zones, bool) { return nil, false }

// LoadBalancer implements cloudprovider.Interface.
func (c *cloud) LoadBalancer() (cloudprovider.LoadBalancer, bool) { return c.balancers, true }

// Routes implements cloudprovider.Interface. They are not supported.
func (c *cloud) Routes() (cloudprovider.Routes, bool) { return nil, false }

// Clusters implements cloudprovider.Interface. They are not supported.
func (c *cloud) Clusters() (cloudprovider.Clusters, bool) { return nil, false }

// Close ends the term's background work. It is called after the term drained.
func (c *cloud) Close() error {
	c.instances.Close()
	c.client.Close()
	return nil
}
