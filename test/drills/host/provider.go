package main

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"time"

	v1 "k8s.io/api/core/v1"
	cloudprovider "k8s.io/cloud-provider"
	"sigs.k8s.io/yaml"

	"github.com/fxccm/fxccm/ccm"
	"github.com/fxccm/fxccm/provider/fake"
)

// The faults of the provider.
const (
	hangingNew        = "hanging-new"
	hangingInitialize = "hanging-initialize"
	// In deaf, calls for load balancers ignore the end of their context, and bypass the fence.
	deaf = "deaf"
)

// A fault is the provider's fault while the file exists.
type fault struct{ kind, file string }

// hang waits while the fault lasts.
func (f fault) hang(kind string) {
	for f.kind == kind && f.present() {
		time.Sleep(50 * time.Millisecond)
	}
}

func (f fault) present() bool {
	_, err := os.Stat(f.file)
	return err == nil
}

func newProvider(s settings) ccm.Provider {
	return ccm.Provider{
		Name: "fake",
		New: func(ctx context.Context, env ccm.ProviderEnv) (cloudprovider.Interface, error) {
			data, err := os.ReadFile(env.ConfigFile)
			if err != nil {
				return nil, err
			}
			var config struct {
				Endpoint string `json:"endpoint"`
			}
			if err := yaml.UnmarshalStrict(data, &config); err != nil {
				return nil, fmt.Errorf("%s: %w", env.ConfigFile, err)
			}
			s.fault.hang(hangingNew)
			var transport http.RoundTripper = &http.Transport{MaxIdleConnsPerHost: 64}
			if s.fault.kind != deaf {
				transport = env.Transport(transport)
			}
			client, err := fake.Dial(ctx, config.Endpoint, fake.WithTransport(transport))
			if err != nil {
				return nil, err
			}
			own := client.Provider(fake.WithCaller(fake.TermCaller(env.Identity, env.Term)))
			return &provider{
				Interface: own, InformerUser: own.(cloudprovider.InformerUser),
				client: client, fault: s.fault,
			}, nil
		},
	}
}

// provider is the fake cloud with the fault.
type provider struct {
	cloudprovider.Interface
	cloudprovider.InformerUser
	client *fake.Client
	fault  fault
}

// Close closes the connections when the term has drained.
func (p *provider) Close() error {
	p.client.Close()
	return nil
}

// Initialize implements cloudprovider.Interface.
func (p *provider) Initialize(builder cloudprovider.ControllerClientBuilder, stop <-chan struct{}) {
	p.fault.hang(hangingInitialize)
	p.Interface.Initialize(builder, stop)
}

// LoadBalancer implements cloudprovider.Interface.
func (p *provider) LoadBalancer() (cloudprovider.LoadBalancer, bool) {
	balancers, served := p.Interface.LoadBalancer()
	if p.fault.kind == deaf {
		return deafBalancers{balancers, p.fault}, served
	}
	return balancers, served
}

// deafBalancers ignore the end of a context.
type deafBalancers struct {
	cloudprovider.LoadBalancer
	fault fault
}

// EnsureLoadBalancer implements cloudprovider.LoadBalancer.
func (d deafBalancers) EnsureLoadBalancer(
	ctx context.Context, cluster string, service *v1.Service, nodes []*v1.Node,
) (*v1.LoadBalancerStatus, error) {
	return d.LoadBalancer.EnsureLoadBalancer(context.WithoutCancel(ctx), cluster, service, nodes)
}
