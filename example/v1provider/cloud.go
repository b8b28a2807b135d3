package v1provider

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"sync"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	corelisters "k8s.io/client-go/listers/core/v1"
	"k8s.io/client-go/tools/cache"
	cloudprovider "k8s.io/cloud-provider"
)

// Name is the name of the provider, and the scheme of its provider IDs.
const Name = "hosts"

// Cloud is a cloudprovider.Interface and a cloudprovider.InformerUser.
type Cloud struct {
	url    string
	client *http.Client

	// informersSet is closed when the fields below are set.
	informersSet chan struct{}
	nodes        corelisters.NodeLister
	nodesSynced  cache.InformerSynced

	pools   *poolController
	running sync.WaitGroup
}

var (
	_ cloudprovider.Interface    = (*Cloud)(nil)
	_ cloudprovider.InformerUser = (*Cloud)(nil)
	_ cloudprovider.Instances    = (*Cloud)(nil)
	_ cloudprovider.Zones        = (*Cloud)(nil)
)

// host is a machine, as the cloud's API describes it.
type host struct {
	ID      string `json:"id"`
	Address string `json:"address"`
	Type    string `json:"type"`
	Zone    string `json:"zone"`
	Region  string `json:"region"`
	Pool    string `json:"pool"`
	State   string `json:"state"`
}

// New reads the configuration, {"url": "https://..."}. It sends no request.
func New(config io.Reader, client *http.Client) (*Cloud, error) {
	var parsed struct{ URL string }
	if err := json.NewDecoder(config).Decode(&parsed); err != nil {
		return nil, fmt.Errorf("read the configuration: %w", err)
	}
	if _, err := url.ParseRequestURI(parsed.URL); err != nil {
		return nil, fmt.Errorf("read the configuration: url: %w", err)
	}
	c := &Cloud{url: parsed.URL, client: client, informersSet: make(chan struct{})}
	c.pools = newPoolController(c)
	return c, nil
}

// Initialize starts the provider's own controller.
func (c *Cloud) Initialize(
	builder cloudprovider.ControllerClientBuilder, stop <-chan struct{},
) {
	client := builder.ClientOrDie("pool-controller")
	c.running.Go(func() { c.pools.run(client, stop) })
}

// Close waits for the controller. The channel of Initialize has been closed before.
func (c *Cloud) Close() error {
	c.running.Wait()
	return nil
}

// ProviderName implements cloudprovider.Interface.
func (*Cloud) ProviderName() string { return Name }

// HasClusterID implements cloudprovider.Interface.
func (*Cloud) HasClusterID() bool { return true }

// Instances implements cloudprovider.Interface.
func (c *Cloud) Instances() (cloudprovider.Instances, bool) { return c, true }

// Zones implements cloudprovider.Interface.
func (c *Cloud) Zones() (cloudprovider.Zones, bool) { return c, true }

// InstancesV2 implements cloudprovider.Interface.
func (*Cloud) InstancesV2() (cloudprovider.InstancesV2, bool) { return nil, false }

// LoadBalancer implements cloudprovider.Interface.
func (*Cloud) LoadBalancer() (cloudprovider.LoadBalancer, bool) { return nil, false }

// Clusters implements cloudprovider.Interface.
func (*Cloud) Clusters() (cloudprovider.Clusters, bool) { return nil, false }

// Routes implements cloudprovider.Interface.
func (*Cloud) Routes() (cloudprovider.Routes, bool) { return nil, false }

// host fetches a host by its name or its ID.
func (c *Cloud) host(ctx context.Context, key string) (host, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet,
		c.url+"/hosts/"+url.PathEscape(key), nil)
	if err != nil {
		return host{}, err
	}
	response, err := c.client.Do(request)
	if err != nil {
		return host{}, fmt.Errorf("get host %s: %w", key, err)
	}
	defer func() { _ = response.Body.Close() }()
	switch response.StatusCode {
	case http.StatusNotFound:
		return host{}, cloudprovider.InstanceNotFound
	case http.StatusOK:
		var found host
		err := json.NewDecoder(response.Body).Decode(&found)
		return found, err
	default:
		return host{}, fmt.Errorf("get host %s: the cloud answers %s", key, response.Status)
	}
}

// idOf is the host ID in a provider ID such as hosts://h-17.
func idOf(providerID string) string {
	const prefix = Name + "://"
	if len(providerID) > len(prefix) && providerID[:len(prefix)] == prefix {
		return providerID[len(prefix):]
	}
	return providerID
}

func addresses(name string, h host) []v1.NodeAddress {
	return []v1.NodeAddress{
		{Type: v1.NodeHostName, Address: name}, {Type: v1.NodeInternalIP, Address: h.Address},
	}
}

// NodeAddresses implements cloudprovider.Instances.
func (c *Cloud) NodeAddresses(
	ctx context.Context, name types.NodeName,
) ([]v1.NodeAddress, error) {
	h, err := c.host(ctx, string(name))
	if err != nil {
		return nil, err
	}
	return addresses(string(name), h), nil
}

// NodeAddressesByProviderID implements cloudprovider.Instances.
func (c *Cloud) NodeAddressesByProviderID(
	ctx context.Context, providerID string,
) ([]v1.NodeAddress, error) {
	h, err := c.host(ctx, idOf(providerID))
	if err != nil {
		return nil, err
	}
	return []v1.NodeAddress{{Type: v1.NodeInternalIP, Address: h.Address}}, nil
}

// InstanceID implements cloudprovider.Instances.
func (c *Cloud) InstanceID(ctx context.Context, name types.NodeName) (string, error) {
	h, err := c.host(ctx, string(name))
	return h.ID, err
}

// InstanceType implements cloudprovider.Instances.
func (c *Cloud) InstanceType(ctx context.Context, name types.NodeName) (string, error) {
	h, err := c.host(ctx, string(name))
	return h.Type, err
}

// InstanceTypeByProviderID implements cloudprovider.Instances.
func (c *Cloud) InstanceTypeByProviderID(
	ctx context.Context, providerID string,
) (string, error) {
	h, err := c.host(ctx, idOf(providerID))
	return h.Type, err
}

// InstanceExistsByProviderID implements cloudprovider.Instances.
func (c *Cloud) InstanceExistsByProviderID(
	ctx context.Context, providerID string,
) (bool, error) {
	_, err := c.host(ctx, idOf(providerID))
	if err == cloudprovider.InstanceNotFound {
		return false, nil
	}
	return err == nil, err
}

// InstanceShutdownByProviderID implements cloudprovider.Instances.
func (c *Cloud) InstanceShutdownByProviderID(
	ctx context.Context, providerID string,
) (bool, error) {
	h, err := c.host(ctx, idOf(providerID))
	return h.State == "stopped", err
}

// AddSSHKeyToAllInstances implements cloudprovider.Instances.
func (*Cloud) AddSSHKeyToAllInstances(context.Context, string, []byte) error {
	return cloudprovider.NotImplemented
}

// CurrentNodeName implements cloudprovider.Instances.
func (*Cloud) CurrentNodeName(_ context.Context, hostname string) (types.NodeName, error) {
	return types.NodeName(hostname), nil
}

// GetZone implements cloudprovider.Zones.
func (*Cloud) GetZone(context.Context) (cloudprovider.Zone, error) {
	return cloudprovider.Zone{}, cloudprovider.NotImplemented
}

// GetZoneByNodeName implements cloudprovider.Zones.
func (c *Cloud) GetZoneByNodeName(
	ctx context.Context, name types.NodeName,
) (cloudprovider.Zone, error) {
	h, err := c.host(ctx, string(name))
	return cloudprovider.Zone{FailureDomain: h.Zone, Region: h.Region}, err
}

// GetZoneByProviderID implements cloudprovider.Zones.
func (c *Cloud) GetZoneByProviderID(
	ctx context.Context, providerID string,
) (cloudprovider.Zone, error) {
	h, err := c.host(ctx, idOf(providerID))
	return cloudprovider.Zone{FailureDomain: h.Zone, Region: h.Region}, err
}
