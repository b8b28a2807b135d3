package fake

import (
	"fmt"
	"slices"
	"time"
)

// An Option configures a [Cloud]; see [New].
type Option func(*Cloud)

// WithProviderName sets the result of ProviderName and the prefix of provider IDs. The default is
// "fake".
func WithProviderName(name string) Option {
	return func(c *Cloud) {
		if !isWord(name) {
			panic(fmt.Sprintf(
				"fake: provider name %q is not made of letters, digits, '.', '_' and '-'", name))
		}
		c.name = name
	}
}

// WithRegion sets the region and the zone of instances without one, and of the machine that calls
// GetZone. The defaults are "region-1" and "region-1a".
func WithRegion(region, zone string) Option {
	return func(c *Cloud) {
		if !isWord(region) || !isWord(zone) {
			panic(
				fmt.Sprintf(
					"fake: region %q or zone %q is not made of letters, digits, '.', '_' and '-'",
					region, zone))
		}
		c.region, c.zone = region, zone
	}
}

// WithLatency makes every call to the cloud take d, as [Cloud.SetLatency] does. The default is 0.
func WithLatency(d time.Duration) Option { return func(c *Cloud) { c.SetLatency(d) } }

// Without removes interfaces: the getters of the cloud's providers return false for them, and the
// providers implement neither cloudprovider.InformerUser nor PVLabeler if these are removed.
func Without(interfaces ...Interface) Option {
	return func(c *Cloud) {
		for _, i := range interfaces {
			if !slices.Contains(optional(), i) {
				panic(fmt.Sprintf("fake: a cloud cannot be without %q", i))
			}
			delete(c.supported, i)
		}
	}
}

// WithoutClusterID makes HasClusterID return false.
func WithoutClusterID() Option { return func(c *Cloud) { c.hasClusterID = false } }

// WithCluster adds a cluster to the Clusters interface, with the address of its master. Without it
// the list is empty. Load balancers and routes may belong to any cluster name, even one that is not
// listed.
func WithCluster(name, master string) Option { return func(c *Cloud) { c.clusters[name] = master } }

// WithRouteNodeAddresses makes routes store the addresses of their node, and announce that
// (cloudprovider.Route.EnableNodeAddresses): the route controller then replaces a route after its
// node's addresses have changed.
func WithRouteNodeAddresses() Option { return func(c *Cloud) { c.routeNodeAddresses = true } }

// WithCallLimit sets how many calls, and how many concurrent calls, the cloud keeps before it drops
// the oldest quarter. The default is 100,000, some 20 MB.
func WithCallLimit(n int) Option {
	return func(c *Cloud) {
		if n < 4 {
			panic(fmt.Sprintf("fake: a limit of %d calls is less than 4", n))
		}
		c.record.limit = n
	}
}
