package openstack

import (
	"context"
	"errors"
	"fmt"

	"github.com/fxccm/fxccm/ccm"
)

var (
	_ ccm.ClusterCleaner = (*cloud)(nil)
	_ ccm.ClusterCleaner = (*regions)(nil)
)

// CleanUpCluster implements ccm.ClusterCleaner. It deletes the load balancers and security groups
// whose tags name the cluster. From a load balancer that others use, it removes only the parts of
// this cluster. Floating IPs are detached and kept.
func (c *cloud) CleanUpCluster(ctx context.Context, uid string) ([]string, error) {
	if c.balancing == nil {
		return nil, errors.New("load balancers are disabled: [LoadBalancer] enabled is false")
	}
	return c.balancing.balancers.CleanUp(ctx, uid)
}

// CleanUpCluster implements ccm.ClusterCleaner. It cleans up each region that serves load
// balancers.
func (r *regions) CleanUpCluster(ctx context.Context, uid string) ([]string, error) {
	var (
		all  []string
		errs []error
	)
	serving := r.where(func(c *cloud) bool { return c.balancing != nil })
	if len(serving) == 0 {
		return nil, errors.New("load balancers are disabled in all regions")
	}
	for _, c := range serving {
		left, err := c.CleanUpCluster(ctx, uid)
		for _, each := range left {
			all = append(all, "region "+c.name+": "+each)
		}
		if err != nil {
			errs = append(errs, fmt.Errorf("region %s: %w", c.name, err))
		}
	}
	return all, errors.Join(errs...)
}
