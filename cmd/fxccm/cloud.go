package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"sync"

	"go.uber.org/fx"
	cloudprovider "k8s.io/cloud-provider"
	"sigs.k8s.io/yaml"

	"github.com/fxccm/fxccm/ccm"
	"github.com/fxccm/fxccm/internal/configfile"
	"github.com/fxccm/fxccm/provider/fake"
)

// fakeCloud is --cloud-provider=fake: a cloud in memory, in this process or in another one that
// serves it.
var fakeCloud = fx.Module("fake-cloud",
	fx.Provide(ccm.AsProvider(func() (ccm.Provider, error) { return newFakeProvider(nil, nil) })))

const fakeName = "fake"

// fakeConfig is the content of the --cloud-config file, YAML or JSON.
type fakeConfig struct {
	// Endpoint is the address of a fake cloud, such as http://127.0.0.1:8080. Empty: the cloud is
	// in this process, and ends with it.
	Endpoint string `json:"endpoint,omitempty"`

	// Instances are the machines of a cloud in this process. Without them, new nodes stay tainted,
	// and nodes that are not ready are deleted.
	Instances []fake.Instance `json:"instances,omitempty"`
}

// A guard wraps the transport to an address that the owner of a cluster names.
type guard func(*http.Transport) http.RoundTripper

// newFakeProvider configures the cloud from data, or from the file if data is nil. The guard may be
// nil.
func newFakeProvider(data []byte, g guard) (ccm.Provider, error) {
	var own ownCloud
	read := readFakeConfig
	if data != nil {
		given, err := parseFakeConfig(data)
		if err != nil {
			return ccm.Provider{}, err
		}
		read = func(string) (fakeConfig, error) { return given, nil }
	}
	return ccm.Provider{
		Name: fakeName,
		// Errors in the file are reported at the start, not when leadership is won.
		Validate: func(config ccm.Config) error {
			_, err := read(config.CloudProvider.ConfigFile)
			return err
		},
		New: func(ctx context.Context, env ccm.ProviderEnv) (cloudprovider.Interface, error) {
			cfg, err := read(env.ConfigFile)
			if err != nil {
				return nil, err
			}
			caller := fake.WithCaller(fake.TermCaller(env.Identity, env.Term))
			if cfg.Endpoint == "" {
				cloud, err := own.open(cfg.Instances)
				if err != nil {
					return nil, err
				}
				return cloud.Provider(caller), nil
			}
			return dialCloud(ctx, cfg.Endpoint, g, env.Transport, caller)
		},
	}, nil
}

// ownCloud is the cloud in this process. It outlives the terms, like a real cloud.
type ownCloud struct {
	mu    sync.Mutex
	cloud *fake.Cloud
}

func (o *ownCloud) open(instances []fake.Instance) (*fake.Cloud, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.cloud != nil {
		return o.cloud, nil
	}
	cloud := fake.New()
	if err := cloud.AddInstances(instances...); err != nil {
		return nil, err
	}
	o.cloud = cloud
	return cloud, nil
}

// dialled is a provider for a cloud in another process. The Manager closes it when the term has
// drained.
type dialled struct {
	cloudprovider.Interface
	client *fake.Client
}

func dialCloud(
	ctx context.Context, endpoint string, g guard,
	fence func(http.RoundTripper) http.RoundTripper, opts ...fake.ProviderOption,
) (cloudprovider.Interface, error) {
	transport := &http.Transport{MaxIdleConnsPerHost: 256}
	var guarded http.RoundTripper = transport
	if g != nil {
		guarded = g(transport)
	}
	client, err := fake.Dial(ctx, endpoint, fake.WithTransport(fence(guarded)))
	if err != nil {
		return nil, err
	}
	return &dialled{Interface: client.Provider(opts...), client: client}, nil
}

// Close cancels requests in flight and closes the connections.
func (d *dialled) Close() error {
	d.client.Close()
	return nil
}

// readFakeConfig reads a file strictly. Without a file, the configuration is empty.
func readFakeConfig(path string) (fakeConfig, error) {
	if path == "" {
		return fakeConfig{}, nil
	}
	data, err := configfile.Read(path)
	if err != nil {
		return fakeConfig{}, fmt.Errorf("read the configuration of the fake cloud: %w", err)
	}
	cfg, err := parseFakeConfig(data)
	if err != nil {
		return cfg, fmt.Errorf("%s: %w", path, err)
	}
	return cfg, nil
}

func parseFakeConfig(data []byte) (cfg fakeConfig, err error) {
	err = yaml.UnmarshalStrict(data, &cfg)
	if err == nil && cfg.Endpoint != "" && len(cfg.Instances) > 0 {
		err = errors.New(
			"endpoint and instances exclude each other: the instances are those of the cloud at the endpoint")
	}
	if err != nil {
		return cfg, fmt.Errorf("read the configuration of the fake cloud: %w", err)
	}
	return cfg, nil
}
