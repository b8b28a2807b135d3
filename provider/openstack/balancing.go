package openstack

import (
	"context"
	"errors"
	"net/netip"
	"sync"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	corelisters "k8s.io/client-go/listers/core/v1"
	cloudprovider "k8s.io/cloud-provider"

	"github.com/fxccm/fxccm/ccm"
	"github.com/fxccm/fxccm/internal/cloudcontrollers"
	"github.com/fxccm/fxccm/provider/openstack/cloudconf"
	"github.com/fxccm/fxccm/provider/openstack/internal/client"
	"github.com/fxccm/fxccm/provider/openstack/internal/loadbalancer"
	"github.com/fxccm/fxccm/provider/openstack/internal/loadbalancer/neutron"
	"github.com/fxccm/fxccm/provider/openstack/internal/loadbalancer/octavia"
	"github.com/fxccm/fxccm/provider/openstack/internal/loadbalancer/settings"
	"github.com/fxccm/fxccm/provider/openstack/internal/metrics"
	"github.com/fxccm/fxccm/provider/openstack/internal/trouble"
)

// balancing holds the load balancers and their clients.
type balancing struct {
	octavia   *octavia.API
	neutron   *neutron.API
	balancers *loadbalancer.LoadBalancers

	mu      sync.Mutex
	clients cloudprovider.ControllerClientBuilder
	// factory is nil before SetInformers, and after its informers are used. nodes are the nodes
	// that may be members.
	factory informers.SharedInformerFactory
	nodes   corelisters.NodeLister
}

// newBalancing sends no request. If clusterUID is nil, it is read from the API server.
func newBalancing(cfg cloudconf.Config, env ccm.ProviderEnv, clients *client.Clients,
	series *metrics.Series, trouble *trouble.Report,
	clusterUID func(context.Context) (string, error), shares shares,
	addresses func(context.Context, []*v1.Node) map[string][]v1.NodeAddress,
	sortNodes func(context.Context, []*v1.Node) (here, unknown []*v1.Node),
) *balancing {
	b := &balancing{
		octavia: octavia.New(octavia.Config{
			Client: clients.LoadBalancer, Project: clients.Project,
			Share: shares.read, MaxAge: shares.maxAge,
			Pause: firstLook, Clock: env.Clock, Logger: env.Logger,
		}),
		neutron: neutron.New(neutron.Config{
			Client: clients.Network, KeyManager: clients.KeyManager, Project: clients.Project,
			Share: shares.read, Clock: env.Clock, Logger: env.Logger,
		}),
	}
	b.balancers = loadbalancer.New(loadbalancer.Config{
		Octavia:    b.octavia,
		Neutron:    b.neutron,
		Owner:      env.Owner,
		ClusterUID: clusterUID,

		RequireOwnerMark: env.RequireOwnerMark,

		Defaults: settings.Defaults{
			LoadBalancer: cfg.LoadBalancer,
			Classes:      cfg.LoadBalancerClasses,
		},
		Routes:        routesOf(cfg.Route.RouterID, env.Config),
		RemovalTaints: cfg.Instances.RemovalTaints,
		Addresses:     addresses,
		SortNodes:     sortNodes,
		CheckAge:      shares.maxAge,
		Kube:          b.kube,
		Clock:         env.Clock,
		Logger:        env.Logger,
		Recorder:      env.Recorder(component),
		Observer:      series,
		Trouble:       trouble,
	})
	return b
}

// routesOf returns the routes that the route controller writes. --cluster-cidr limits them. If the
// controller is not selected, another program runs it ([ccm.Config.ConfigureCloudRoutes]).
func routesOf(routerID string, cfg ccm.Config) loadbalancer.Routes {
	cidrs, err := cloudcontrollers.ParseClusterCIDRs(cfg.ClusterCIDR)
	if err != nil || routerID == "" || !cfg.ConfigureCloudRoutes {
		return loadbalancer.Routes{}
	}
	routes := loadbalancer.Routes{RouterID: routerID}
	for _, cidr := range cidrs {
		if r, err := netip.ParsePrefix(cidr.String()); err == nil {
			routes.Ranges = append(routes.Ranges, r)
		}
	}
	return routes
}

// firstLook is the delay before the first poll of a change in Octavia. Few changes are faster.
const firstLook = time.Second

// clientName is the user agent and service account of the provider's requests to the API server.
const clientName = "cloud-provider-openstack"

func (b *balancing) initialize(clients cloudprovider.ControllerClientBuilder,
	stop <-chan struct{},
) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.clients = clients
	if stop != nil {
		b.balancers.EndWith(stop)
	}
}

func (b *balancing) kube() (kubernetes.Interface, error) {
	b.mu.Lock()
	clients := b.clients
	b.mu.Unlock()
	if clients == nil {
		return nil, errors.New("the provider is not initialized and has no client of the API " +
			"server")
	}
	return clients.Client(clientName)
}

func (b *balancing) setInformers(
	factory informers.SharedInformerFactory, nodes corelisters.NodeLister,
) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.factory, b.nodes = factory, nodes
}

// serve prepares the load balancers. A host that uses them calls it before informers start. Without
// it, no Services are watched.
func (b *balancing) serve() cloudprovider.LoadBalancer {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.factory != nil {
		b.balancers.SetInformers(b.factory, b.nodes)
		b.factory = nil
	}
	return b.balancers
}

func (b *balancing) close() {
	b.balancers.Close()
	b.octavia.Close()
	b.neutron.Close()
}
