package guard

import (
	"context"
	"errors"
	"slices"

	cloudprovider "k8s.io/cloud-provider"
)

type routes struct {
	real cloudprovider.Routes
	caller
}

// ListRoutes never returns a nil route: upstream's route controller dereferences each of them, in a
// goroutine whose panic ends the process.
func (r routes) ListRoutes(
	ctx context.Context, clusterName string,
) ([]*cloudprovider.Route, error) {
	return call(ctx, r.caller, reads("Routes.ListRoutes", ""),
		func(ctx context.Context) ([]*cloudprovider.Route, error) {
			list, err := r.real.ListRoutes(ctx, clusterName)
			if err == nil && slices.Contains(list, nil) {
				return nil, errors.New("cloud provider listed a route that is nil")
			}
			return list, err
		})
}

func (r routes) CreateRoute(
	ctx context.Context, clusterName, nameHint string, route *cloudprovider.Route,
) error {
	return do(ctx, r.caller, writes("Routes.CreateRoute", targetNode(route)),
		func(ctx context.Context) error {
			return r.real.CreateRoute(ctx, clusterName, nameHint, route)
		})
}

func (r routes) DeleteRoute(
	ctx context.Context, clusterName string, route *cloudprovider.Route,
) error {
	return do(ctx, r.caller, writes("Routes.DeleteRoute", targetNode(route)),
		func(ctx context.Context) error {
			return r.real.DeleteRoute(ctx, clusterName, route)
		})
}

func targetNode(route *cloudprovider.Route) string {
	if route == nil {
		return ""
	}
	return string(route.TargetNode)
}

type clusters struct {
	real cloudprovider.Clusters
	caller
}

func (c clusters) ListClusters(ctx context.Context) ([]string, error) {
	return call(ctx, c.caller, reads("Clusters.ListClusters", ""), c.real.ListClusters)
}

func (c clusters) Master(ctx context.Context, clusterName string) (string, error) {
	return call(ctx, c.caller, reads("Clusters.Master", ""),
		func(ctx context.Context) (string, error) {
			return c.real.Master(ctx, clusterName)
		})
}
