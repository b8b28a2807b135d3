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
	// mapperReset is how old a mapping can get before the API server is asked again, as upstream.
	mapperReset = 30 * time.Second
	// missRefresh is how old discovery must be for a kind that it does not know to be looked for
	// again.
	missRefresh = 2 * time.Second
)

// newMapper returns a RESTMapper that asks the API server when it is first used. Its requests end
// with ctx: its methods take none, and while one waits for an answer a reset waits too.
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

// agingDiscovery is a cache of discovery that says it is not fresh when it is older than
// missRefresh. The mapper then looks again for what it has not found. Client-go's own cache is
// fresh for ever once it is filled, so that a kind added later does not exist for it; and never if
// the API server has listed no group at all, so that the mapper asks without end.
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

// ServerGroupsAndResourcesWithContext is what the mapper is filled with.
func (d *agingDiscovery) ServerGroupsAndResourcesWithContext(
	ctx context.Context,
) ([]*metav1.APIGroup, []*metav1.APIResourceList, error) {
	cached := d.CachedDiscoveryInterfaceWithContext
	groups, resources, err := cached.ServerGroupsAndResourcesWithContext(ctx)
	d.mu.Lock()
	defer d.mu.Unlock()
	// The end of a slow answer, so that the mapper does not find it old at once and ask again for
	// ever.
	d.filled = d.now()
	return groups, resources, err
}

// FreshWithContext implements discovery.CachedDiscoveryInterfaceWithContext.
func (d *agingDiscovery) FreshWithContext(context.Context) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.now().Sub(d.filled) < missRefresh
}
