// Package fakecloud connects a process under test to the fake cloud that the benchmark serves.
package fakecloud

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"strings"
	"time"

	cloudprovider "k8s.io/cloud-provider"

	"github.com/fxccm/fxccm/ccm"
	"github.com/fxccm/fxccm/provider/fake"
)

// New connects to the cloud for a term. The configuration file holds its address.
func New(ctx context.Context, env ccm.ProviderEnv) (cloudprovider.Interface, error) {
	address, err := os.ReadFile(env.ConfigFile)
	if err != nil {
		return nil, fmt.Errorf("read the fake cloud's address: %w", err)
	}
	return Open(ctx, env, strings.TrimSpace(string(address)), 0)
}

// Open connects to the cloud for a term. Connections that are idle for a time are closed; 0 is no
// limit.
func Open(
	ctx context.Context, env ccm.ProviderEnv, address string, idle time.Duration,
) (cloudprovider.Interface, error) {
	// As many idle connections as the client itself keeps by default.
	transport := env.Transport(&http.Transport{MaxIdleConnsPerHost: 256, IdleConnTimeout: idle})
	client, err := fake.Dial(ctx, address, fake.WithTransport(transport))
	if err != nil {
		return nil, err
	}
	return &termCloud{Interface: client.Provider(fake.WithCaller("fxccm")), client: client}, nil
}

// termCloud closes its client when the term has drained.
type termCloud struct {
	cloudprovider.Interface
	client *fake.Client
}

// Close is called by the Manager.
func (c *termCloud) Close() error {
	c.client.Close()
	return nil
}
