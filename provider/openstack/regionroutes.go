package openstack

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	cloudprovider "k8s.io/cloud-provider"

	"github.com/fxccm/fxccm/provider/kit/batch"
)

// regionalRoutes writes the route of a node to the router of the node's region. The names of
// listed routes begin with the region, so that a deletion finds it without the node.
type regionalRoutes struct{ *regions }

var _ cloudprovider.Routes = regionalRoutes{}

// Routes implements cloudprovider.Interface. All regions have a router, or none.
func (r *regions) Routes() (cloudprovider.Routes, bool) {
	if r.all[0].routes == nil {
		return nil, false
	}
	return regionalRoutes{r}, true
}

func routePrefix(c *cloud) string { return c.name + ": " }

// ListRoutes implements cloudprovider.Routes. If some regions do not answer, their nodes keep their
// current routes: the route controller would otherwise report that their network is unavailable.
// If no region answers, it fails.
func (r regionalRoutes) ListRoutes(
	ctx context.Context, cluster string,
) ([]*cloudprovider.Route, error) {
	ctx, cancel := context.WithTimeout(ctx, regionTimeout)
	defer cancel()
	var mu sync.Mutex
	var all []*cloudprovider.Route
	errs := batch.InParallel(r.all, len(r.all), func(c *cloud) error {
		found, err := c.routes.ListRoutes(ctx, cluster)
		if err != nil {
			err = c.explain(err)
			found = r.reported(c)
		}
		if r.failsAnew(c, err) {
			r.logger.Error(err, "Routes not listed; the region's nodes keep their routes")
		}
		mu.Lock()
		defer mu.Unlock()
		for _, listed := range found {
			route := *listed
			route.Name = routePrefix(c) + listed.Name
			all = append(all, &route)
		}
		return err
	})
	if !slices.Contains(errs, nil) {
		return nil, errs[0]
	}
	return all, nil
}

// failsAnew notes the result of a list, and reports whether it is a failure with another text than
// the last one: the route controller lists the routes every few seconds.
func (r regionalRoutes) failsAnew(c *cloud, err error) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if err == nil {
		delete(r.unlisted, c)
		return false
	}
	isNew := r.unlisted[c] != err.Error()
	r.unlisted[c] = err.Error()
	return isNew
}

// reported returns the routes that the route controller has recorded in the conditions of the nodes
// that are, or may be, in a region.
func (r regionalRoutes) reported(c *cloud) []*cloudprovider.Route {
	var all []*cloudprovider.Route
	for _, node := range r.nodesIn(c, r.allNodes()) {
		for _, condition := range node.Status.Conditions {
			if condition.Type != v1.NodeNetworkUnavailable ||
				condition.Status != v1.ConditionFalse {
				continue
			}
			for _, cidr := range node.Spec.PodCIDRs {
				all = append(all, &cloudprovider.Route{
					TargetNode: types.NodeName(node.Name), DestinationCIDR: cidr,
				})
			}
		}
	}
	return all
}

// CreateRoute implements cloudprovider.Routes.
func (r regionalRoutes) CreateRoute(
	ctx context.Context, cluster, hint string, wanted *cloudprovider.Route,
) error {
	node, err := r.node(string(wanted.TargetNode))
	if err != nil {
		return fmt.Errorf("%s: %w; retrying", apiServer, err)
	}
	c, err := r.place(ctx, node)
	if err != nil {
		return err
	}
	return c.routes.CreateRoute(ctx, cluster, hint, wanted)
}

// DeleteRoute implements cloudprovider.Routes.
func (r regionalRoutes) DeleteRoute(
	ctx context.Context, cluster string, listed *cloudprovider.Route,
) error {
	for _, c := range r.all {
		if name, ok := strings.CutPrefix(listed.Name, routePrefix(c)); ok {
			route := *listed
			route.Name = name
			return c.routes.DeleteRoute(ctx, cluster, &route)
		}
	}
	return fmt.Errorf("delete route %s: its name has no region of cloud.conf", listed.Name)
}
