package initfunc

import (
	"context"
	"fmt"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/discovery/cached/memory"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/restmapper"
)

const (
	// mapperReset is the age at which mappings are read again, as upstream.
	mapperReset = 30 * time.Second
	// missRefresh is the age of the discovery at which an unknown kind is looked up again.
	missRefresh = 2 * time.Second
)

// newMapper returns a RESTMapper that reads the discovery at its first use. Its requests end with
// ctx, because its methods take no context, and a reset waits for requests in flight.
func newMapper(
	ctx context.Context, cfg *rest.Config,
) (*restmapper.DeferredDiscoveryRESTMapper, error) {
	cfg = rest.CopyConfig(cfg)
	cfg.Wrap(endingWith(ctx))
	client, err := discovery.NewDiscoveryClientForConfig(cfg)
	if err != nil {
		return nil, fmt.Errorf("client for discovery: %w", err)
	}
	return restmapper.NewDeferredDiscoveryRESTMapperWithContext(newDiscovery(client, time.Now)), nil
}

// agingDiscovery is a cache of the discovery that stops being fresh at the age missRefresh. The
// mapper then looks up an unknown kind again. Client-go's own cache stays fresh forever once it is
// filled, so a kind that is added later is never found. If the API server lists no group, that
// cache is never fresh, and the mapper sends requests without end.
type agingDiscovery struct {
	discovery.CachedDiscoveryInterfaceWithContext
	now func() time.Time

	mu     sync.Mutex
	filled time.Time
}

func newDiscovery(
	client discovery.DiscoveryInterfaceWithContext, now func() time.Time,
) *agingDiscovery {
	cached := memory.NewMemCacheClientWithContext(client)
	return &agingDiscovery{CachedDiscoveryInterfaceWithContext: cached, now: now}
}

// ServerGroupsAndResourcesWithContext returns the content of the mapper.
func (d *agingDiscovery) ServerGroupsAndResourcesWithContext(
	ctx context.Context,
) ([]*metav1.APIGroup, []*metav1.APIResourceList, error) {
	cached := d.CachedDiscoveryInterfaceWithContext
	groups, resources, err := cached.ServerGroupsAndResourcesWithContext(ctx)
	d.mu.Lock()
	defer d.mu.Unlock()
	// The age counts from the end of a slow response. Otherwise the mapper could find it too old at
	// once, and repeat the request forever.
	d.filled = d.now()
	return groups, resources, err
}

// FreshWithContext implements discovery.CachedDiscoveryInterfaceWithContext.
func (d *agingDiscovery) FreshWithContext(context.Context) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.now().Sub(d.filled) < missRefresh
}
