// Package simclient logs tests in to a simulated OpenStack.
package simclient

import (
	"context"
	"net/http"
	"testing"

	"github.com/gophercloud/gophercloud/v2"
	"github.com/gophercloud/gophercloud/v2/openstack"

	"github.com/fxccm/fxccm/provider/openstack/openstacktest"
)

// A Client returns a client of a service.
type Client = func(context.Context) (*gophercloud.ServiceClient, error)

// Clients are the clients of a login. They have none of the provider's retries.
type Clients struct {
	Compute, Network, LoadBalancer, KeyManager Client
	// Project returns the project's ID.
	Project func(context.Context) (string, error)
}

// Login logs in, with connections that end with the test. wrap, which may be nil, wraps them.
func Login(
	t testing.TB, c openstacktest.Credentials, wrap func(http.RoundTripper) http.RoundTripper,
) Clients {
	t.Helper()
	transport := &http.Transport{}
	t.Cleanup(transport.CloseIdleConnections)
	provider, err := openstack.NewClient(c.AuthURL)
	if err != nil {
		t.Fatal(err)
	}
	provider.HTTPClient.Transport = transport
	if wrap != nil {
		provider.HTTPClient.Transport = wrap(transport)
	}
	if err := openstack.Authenticate(t.Context(), provider, gophercloud.AuthOptions{
		IdentityEndpoint: c.AuthURL, UserID: c.UserID, Password: c.Password,
		Scope: &gophercloud.AuthScope{ProjectID: c.ProjectID},
	}); err != nil {
		t.Fatal(err)
	}
	of := func(
		open func(*gophercloud.ProviderClient, gophercloud.EndpointOpts) (
			*gophercloud.ServiceClient, error),
	) Client {
		client, err := open(provider, gophercloud.EndpointOpts{Region: c.Region})
		return func(context.Context) (*gophercloud.ServiceClient, error) { return client, err }
	}
	return Clients{
		Compute: of(openstack.NewComputeV2), Network: of(openstack.NewNetworkV2),
		LoadBalancer: of(openstack.NewLoadBalancerV2), KeyManager: of(openstack.NewKeyManagerV1),
		Project: func(context.Context) (string, error) { return c.ProjectID, nil },
	}
}
