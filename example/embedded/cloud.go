package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"

	cloudprovider "k8s.io/cloud-provider"
	"sigs.k8s.io/yaml"

	"github.com/fxccm/fxccm/ccm"
	"github.com/fxccm/fxccm/provider/fake"
)

// cloudConfig is the content of the --ccm-cloud-config file.
type cloudConfig struct {
	// Endpoint is the address of the cloud, such as http://127.0.0.1:8080.
	Endpoint string `json:"endpoint"`

	// Records is the address of the cloud's DNS records. Empty: no record is written.
	Records string `json:"records"`
}

// newCloud returns the provider of a fake cloud in another process. It reads the file at once, so
// that errors are reported at the start and not when leadership is won.
func newCloud(config ccm.Config) (ccm.Provider, error) {
	if _, err := readCloudConfig(config.CloudProvider.ConfigFile); err != nil {
		return ccm.Provider{}, err
	}
	return ccm.Provider{Name: "fake", New: openCloud}, nil
}

// openCloud is called once in each term. A request through env.Transport is refused after the term.
func openCloud(ctx context.Context, env ccm.ProviderEnv) (cloudprovider.Interface, error) {
	config, err := readCloudConfig(env.ConfigFile)
	if err != nil {
		return nil, err
	}
	client, err := fake.Dial(ctx, config.Endpoint,
		fake.WithTransport(env.Transport(&http.Transport{MaxIdleConnsPerHost: 64})))
	if err != nil {
		return nil, err
	}
	return &cloud{
		client.Provider(fake.WithCaller(fake.TermCaller(env.Identity, env.Term))),
		client,
	}, nil
}

// The Manager closes a cloud when the term has drained.
type cloud struct {
	cloudprovider.Interface
	client *fake.Client
}

// Close implements io.Closer.
func (c *cloud) Close() error {
	c.client.Close()
	return nil
}

func readCloudConfig(path string) (cloudConfig, error) {
	var config cloudConfig
	data, err := os.ReadFile(path)
	if err != nil {
		return config, fmt.Errorf("--%scloud-config: %w", prefix, err)
	}
	err = yaml.UnmarshalStrict(data, &config)
	if err == nil && config.Endpoint == "" {
		err = errors.New("endpoint is missing")
	}
	if err != nil {
		return config, fmt.Errorf("--%scloud-config: %s: %w", prefix, path, err)
	}
	return config, nil
}
