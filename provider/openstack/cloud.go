package openstack

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	corelisters "k8s.io/client-go/listers/core/v1"
	"k8s.io/client-go/tools/record"
	cloudprovider "k8s.io/cloud-provider"
	"k8s.io/utils/clock"

	"github.com/fxccm/fxccm/ccm"
	"github.com/fxccm/fxccm/provider/openstack/cloudconf"
	"github.com/fxccm/fxccm/provider/openstack/internal/client"
	"github.com/fxccm/fxccm/provider/openstack/internal/instances"
	"github.com/fxccm/fxccm/provider/openstack/internal/metrics"
	"github.com/fxccm/fxccm/provider/openstack/internal/quota"
	"github.com/fxccm/fxccm/provider/openstack/internal/routes"
	"github.com/fxccm/fxccm/provider/openstack/internal/trouble"
)

// cloud is one region of OpenStack in one term.
type cloud struct {
	// name is the region's name in the configuration, and region its name in Keystone's catalog.
	name, region string

	clients *client.Clients
	// config is nil if the configuration is a file.
	config    *LiveConfig
	series    *metrics.Series
	instances *instances.Instances
	// routes is nil if no router is configured.
	routes *routes.Routes
	// balancing is nil if load balancers are turned off.
	balancing *balancing
	// regions are all regions of the term; nil if there is one.
	regions *regions
	// balancerCalls is the number of calls in flight, if there are several regions.
	balancerCalls atomic.Int32
	// selector selects the nodes that the controllers do not leave alone.
	selector labels.Selector
	// quotas is nil if nothing is measured.
	quotas     *quota.Config
	stopQuotas func()
}

var (
	_ cloudprovider.Interface    = (*cloud)(nil)
	_ cloudprovider.InformerUser = (*cloud)(nil)
)

// open creates the clients and sends no request. With one region, the cloud is that region.
func open(s source, env ccm.ProviderEnv) (cloudprovider.Interface, error) {
	loaded, err := s.load(env.ConfigFile, env.ConfigStrict)
	if err != nil {
		return nil, err
	}
	selector, err := labels.Parse(env.Config.NodeSelector)
	if err != nil {
		return nil, fmt.Errorf("nodeSelector (--node-selector): %w", err)
	}
	env = complete(env)
	for _, warning := range loaded.Warnings {
		env.Logger.Info("Problem in the cloud configuration", "warning", warning.String())
	}
	set, err := metrics.New(env.Registerer, env.Manager)
	if err != nil {
		return nil, err
	}
	names := loaded.Config.RegionNames()
	all := make([]*cloud, 0, len(names))
	balancings := map[string]*balancing{}
	for _, name := range names {
		inRegion := env
		if len(names) > 1 {
			inRegion = ofRegion(env, name)
		}
		c, err := openRegion(s, loaded, name, inRegion, set.Begin())
		if err != nil {
			for _, opened := range all {
				_ = opened.Close() // err is the cause
			}
			return nil, err
		}
		c.selector = selector
		all = append(all, c)
		balancings[name] = c.balancing
	}
	setRegions(names, balancings)
	if len(all) == 1 {
		return all[0], nil
	}
	return newRegions(all, env.Logger), nil
}

// ofRegion adds the region's name to logs and troubles.
func ofRegion(env ccm.ProviderEnv, name string) ccm.ProviderEnv {
	env.Logger = env.Logger.WithValues("region", name)
	if report := env.ReportTrouble; report != nil {
		env.ReportTrouble = func(subject string, cause error) {
			report(subject+" in region "+name, cause)
		}
	}
	return env
}

func openRegion(s source, loaded cloudconf.Loaded, name string, env ccm.ProviderEnv,
	series *metrics.Series,
) (*cloud, error) {
	cfg, _ := loaded.Config.In(name)
	trouble := trouble.New(env.ReportTrouble)
	options := client.Options{
		Transport:  env.Transport,
		Guard:      s.guard,
		UserAgents: env.UserAgents,
		Logger:     env.Logger,
		Observer:   series,
		Trouble:    trouble,
		Clock:      env.Clock,
		Reload:     s.reload(env, name, name == loaded.Config.Global.Region),
		Files:      loaded.Files,
	}
	s.shared.share(env, &options)
	clients, err := client.New(cfg, options)
	if err != nil {
		series.End()
		return nil, err
	}
	opened := newCloud(name, cfg, env, clients, series, trouble, s.shared.reads(clients))
	if s.given != nil {
		opened.config = s.given
		if !s.given.add(clients, name, loaded.Config) {
			_ = opened.Close() // the returned error is the cause
			return nil, errors.New("the credentials were replaced meanwhile")
		}
	}
	return opened, nil
}

// complete sets the fields that callers other than a Manager may omit.
func complete(env ccm.ProviderEnv) ccm.ProviderEnv {
	if env.Clock == nil {
		env.Clock = clock.RealClock{}
	}
	if env.Recorder == nil {
		env.Recorder = func(string) record.EventRecorder { return nil }
	}
	return env
}

// reload reads the configuration of a region again, for the login and the connections. It is nil
// if the configuration is not a file.
func (s source) reload(
	env ccm.ProviderEnv, region string, isDefault bool,
) func(context.Context) (cloudconf.Config, error) {
	if s.given != nil {
		return nil
	}
	return func(context.Context) (cloudconf.Config, error) {
		loaded, err := s.load(env.ConfigFile, env.ConfigStrict)
		if err != nil {
			return cloudconf.Config{}, err
		}
		name := region
		if isDefault {
			name = loaded.Config.Global.Region
		}
		cfg, ok := loaded.Config.In(name)
		if !ok {
			return cloudconf.Config{}, fmt.Errorf("cloud.conf no longer has region %q, which "+
				"fxccm serves until the term ends", name)
		}
		return cfg, nil
	}
}

func newCloud(name string, cfg cloudconf.Config, env ccm.ProviderEnv, clients *client.Clients,
	series *metrics.Series, trouble *trouble.Report, shares shares,
) *cloud {
	c := &cloud{
		name:    name,
		region:  cfg.Global.Region,
		clients: clients,
		series:  series,
		instances: instances.New(instances.Config{
			Compute:    clients.Compute,
			Network:    clients.Network,
			Project:    clients.Project,
			Share:      shares.read,
			RefreshAge: shares.maxAge,
			Options:    cfg.Instances,
			Networking: cfg.Networking,
			Region:     cfg.Global.Region,
			Clock:      env.Clock,
			Logger:     env.Logger,
			Recorder:   env.Recorder(component),
			Observer:   series,
			Trouble:    trouble,
		}),
	}
	if cfg.Route.RouterID != "" {
		c.routes = routes.New(routes.Config{
			Network:  clients.Network,
			Project:  clients.Project,
			RouterID: cfg.Route.RouterID,

			Server:     c.instances.Server,
			LastServer: c.instances.LastServer,

			Share:   shares.read,
			MaxAge:  shares.maxAge,
			Clock:   env.Clock,
			Logger:  env.Logger,
			Trouble: trouble,
		})
	}
	if cfg.LoadBalancer.Enabled {
		c.balancing = newBalancing(cfg, env, clients, series, trouble, nil, shares,
			c.instances.Addresses, c.sortNodes)
	}
	if env.Registerer != nil {
		c.quotas = &quota.Config{
			Project: clients.Project, Network: clients.Network,
			Share: shares.read, Clock: env.Clock, Logger: env.Logger,
			Observe: func(resource string, limit, used int) {
				series.Quota(name, resource, limit, used)
			},
		}
		if cfg.LoadBalancer.Enabled {
			c.quotas.LoadBalancer = clients.LoadBalancer
		}
	}
	return c
}

// component is the source of events, as in OCCM.
const component = "cloud-provider-openstack"

// ProviderName implements cloudprovider.Interface.
func (c *cloud) ProviderName() string { return Name }

// HasClusterID implements cloudprovider.Interface. It is true, as in OCCM.
func (c *cloud) HasClusterID() bool { return true }

// Initialize implements cloudprovider.Interface.
func (c *cloud) Initialize(clients cloudprovider.ControllerClientBuilder, stop <-chan struct{}) {
	if c.balancing != nil {
		c.balancing.initialize(clients, stop)
	}
	if c.routes != nil && clients != nil {
		c.routes.SetKube(func() (kubernetes.Interface, error) {
			return clients.Client(clientName)
		})
	}
	if c.quotas != nil && c.stopQuotas == nil {
		c.stopQuotas = quota.Watch(*c.quotas)
	}
}

// SetInformers implements cloudprovider.InformerUser.
func (c *cloud) SetInformers(factory informers.SharedInformerFactory) {
	nodes := factory.Core().V1().Nodes()
	// The informer is requested here, so that the factory starts it with the others.
	synced := nodes.Informer().HasSynced
	c.setNodes(factory, nodes.Lister(), synced, func(*v1.Node) bool { return true })
}

// sortNodes returns the nodes of the region, and those whose region is unknown.
func (c *cloud) sortNodes(ctx context.Context, nodes []*v1.Node) (here, unknown []*v1.Node) {
	if c.regions == nil {
		return nodes, nil
	}
	return c.regions.sort(ctx, c, nodes)
}

// setNodes sets the nodes of the cluster. Nodes in another region, or not selected, would count as
// absent instances and unreachable members. Routes need the nodes of all regions to recognize their
// owners: a router may belong to several projects. Those to nodes that are not selected are
// foreign.
func (c *cloud) setNodes(factory informers.SharedInformerFactory, all corelisters.NodeLister,
	synced func() bool, mayBeInRegion func(*v1.Node) bool,
) {
	isSelected := func(node *v1.Node) bool {
		return c.selector.Matches(labels.Set(node.Labels))
	}
	own := ownNodes{all, func(node *v1.Node) bool {
		return isSelected(node) && mayBeInRegion(node)
	}}
	c.instances.SetNodes(own, synced)
	if c.routes != nil {
		c.routes.SetNodes(all, isSelected, synced)
	}
	if c.balancing != nil {
		c.balancing.setInformers(factory, own)
	}
}

// InstancesV2 implements cloudprovider.Interface.
func (c *cloud) InstancesV2() (cloudprovider.InstancesV2, bool) { return c.instances, true }

// Instances implements cloudprovider.Interface: InstancesV2 replaces it.
func (c *cloud) Instances() (cloudprovider.Instances, bool) { return nil, false }

// Zones implements cloudprovider.Interface: InstancesV2 replaces it.
func (c *cloud) Zones() (cloudprovider.Zones, bool) { return nil, false }

// Routes implements cloudprovider.Interface. Routes are served if a router is configured. If
// Neutron lacks the extension, each call fails.
func (c *cloud) Routes() (cloudprovider.Routes, bool) {
	if c.routes == nil {
		return nil, false
	}
	return c.routes, true
}

// LoadBalancer implements cloudprovider.Interface. Load balancers are served unless enabled is
// false. Without Octavia, each call fails.
func (c *cloud) LoadBalancer() (cloudprovider.LoadBalancer, bool) {
	if c.balancing == nil {
		return nil, false
	}
	return c.balancing.serve(), true
}

// Clusters implements cloudprovider.Interface. They are not supported.
func (c *cloud) Clusters() (cloudprovider.Clusters, bool) { return nil, false }

// Close ends the term's background work. It is called after the term drained.
func (c *cloud) Close() error {
	if c.stopQuotas != nil {
		c.stopQuotas()
	}
	if c.balancing != nil {
		c.balancing.close()
	}
	c.instances.Close()
	if c.routes != nil {
		c.routes.Close()
	}
	if c.config != nil {
		c.config.remove(c.clients)
	}
	err := c.clients.Close()
	c.series.End()
	return err
}
