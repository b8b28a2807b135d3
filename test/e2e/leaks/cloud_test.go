package leaks

import (
	"context"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"

	cloudprovider "k8s.io/cloud-provider"

	"github.com/fxccm/fxccm/ccm"
	"github.com/fxccm/fxccm/internal/netfault"
	"github.com/fxccm/fxccm/provider/fake"
)

// cloud is a fake cloud that is called over HTTP, like a real one.
type cloud struct {
	*fake.Cloud
	wire *netfault.Proxy
	// opened and closed count the providers with their own connections.
	opened, closed atomic.Int64
}

func newCloud(t *testing.T) *cloud {
	t.Helper()
	c := &cloud{Cloud: fake.New()}
	server := httptest.NewServer(c.Handler())
	t.Cleanup(server.Close)
	t.Cleanup(c.ClearFaults)
	c.wire = tunnelTo(t, strings.TrimPrefix(server.URL, "http://"))
	return c
}

// dialled is a provider that closes its connections when it is closed.
type dialled struct {
	cloudprovider.Interface
	cloudprovider.InformerUser
	cloud  *cloud
	client *fake.Client
}

// dial opens a provider on the cloud. hooks may be nil.
func (c *cloud) dial(
	ctx context.Context, env ccm.ProviderEnv, opts ...fake.ProviderOption,
) (*dialled, error) {
	client, err := fake.Dial(ctx, "http://"+c.wire.Addr(),
		fake.WithTransport(env.Transport(&http.Transport{MaxIdleConnsPerHost: 64})))
	if err != nil {
		return nil, err
	}
	c.opened.Add(1)
	opts = append([]fake.ProviderOption{fake.WithCaller(fake.TermCaller(env.Identity, env.Term))},
		opts...)
	provider := client.Provider(opts...)
	return &dialled{
		Interface: provider, InformerUser: provider.(cloudprovider.InformerUser),
		cloud: c, client: client,
	}, nil
}

// Close is called by the Manager when the term has drained.
func (d *dialled) Close() error {
	d.client.Close()
	d.cloud.closed.Add(1)
	return nil
}

// provider dials again in each term.
func (c *cloud) provider(opts ...fake.ProviderOption) ccm.Provider {
	return ccm.Provider{
		Name: "fake",
		New: func(ctx context.Context, env ccm.ProviderEnv) (cloudprovider.Interface, error) {
			provider, err := c.dial(ctx, env, opts...)
			if err != nil {
				return nil, err
			}
			return provider, nil
		},
	}
}
