package openstack

import (
	"context"
	"errors"
	"sync"
	"time"

	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	cloudprovider "k8s.io/cloud-provider"

	"github.com/fxccm/fxccm/ccm"
	"github.com/fxccm/fxccm/provider/openstack/cloudconf"
	"github.com/fxccm/fxccm/provider/openstack/internal/client"
	"github.com/fxccm/fxccm/provider/openstack/internal/loadbalancer"
	"github.com/fxccm/fxccm/provider/openstack/internal/loadbalancer/neutron"
	"github.com/fxccm/fxccm/provider/openstack/internal/loadbalancer/octavia"
	"github.com/fxccm/fxccm/provider/openstack/internal/loadbalancer/settings"
	"github.com/fxccm/fxccm/provider/openstack/internal/metrics"
	"github.com/fxccm/fxccm/provider/openstack/internal/trouble"
)

// balancing is the load balancers and what they are made with.
type balancing struct {
	octavia   *octavia.API
	neutron   *neutron.API
	balancers *loadbalancer.LoadBalancers

	mu      sync.Mutex
	clients cloudprovider.ControllerClientBuilder
	// factory is nil until there are informers, and again when they are in use.
	factory informers.SharedInformerFactory
}

// newBalancing makes no request. clusterUID may be nil: the API server is asked.
func newBalancing(cfg cloudconf.Config, env ccm.ProviderEnv, clients *client.Clients, series *metrics.Series, trouble *trouble.Report, clusterUID func(context.Context) (string, error)) *balancing {
	b := &balancing{
		octavia: octavia.New(octavia.Config{Client: clients.LoadBalancer, Project: clients.Project, Pause: firstLook, Clock: env.Clock, Logger: env.Logger}),
		neutron: neutron.New(neutron.Config{
			Client: clients.Network, KeyManager: clients.KeyManager, Project: clients.Project, Clock: env.Clock, Logger: env.Logger,
		}),
	}
	b.balancers = loadbalancer.New(loadbalancer.Config{
		Octavia:    b.octavia,
		Neutron:    b.neutron,
		ClusterUID: clusterUID,
		Defaults:   settings.Defaults{LoadBalancer: cfg.LoadBalancer, Classes: cfg.LoadBalancerClasses},
		Kube:       b.kube,
		Clock:      env.Clock,
		Logger:     env.Logger,
		Recorder:   env.Recorder(component),
		Observer:   series,
		Trouble:    trouble,
	})
	return b
}

// firstLook is how long after a change Octavia is first asked whether it is done. Few are sooner.
const firstLook = time.Second

// clientName is what the provider's requests to the API server are made as: its service account, where each controller has one.
const clientName = "cloud-provider-openstack"

func (b *balancing) initialize(clients cloudprovider.ControllerClientBuilder, stop <-chan struct{}) {
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
		return nil, errors.New("the provider has not been initialised: it has no client of the API server")
	}
	return clients.Client(clientName)
}

func (b *balancing) setInformers(factory informers.SharedInformerFactory) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.factory = factory
}

// serve is asked for by whoever will call the load balancers, before informers start. Who serves no Services need not watch any.
func (b *balancing) serve() cloudprovider.LoadBalancer {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.factory != nil {
		b.balancers.SetInformers(b.factory)
		b.factory = nil
	}
	return b.balancers
}

func (b *balancing) close() {
	b.balancers.Close()
	b.octavia.Close()
	b.neutron.Close()
}
