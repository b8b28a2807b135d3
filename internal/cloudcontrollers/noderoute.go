package cloudcontrollers

import (
	"context"
	"fmt"
	"time"

	routecontroller "k8s.io/cloud-provider/controllers/route"
	// route.New panics unless the gate it reads is registered in the process's feature gate.
	_ "k8s.io/controller-manager/pkg/features/register"
)

// NodeRoute builds the node-route-controller: it keeps a route in the cloud for every pod CIDR of
// every node, and the condition NetworkUnavailable of the nodes.
//
// clusterCIDR is --cluster-cidr. It is checked only if the provider serves routes. Upstream ends
// the process if it is invalid.
func NodeRoute(t Term, period time.Duration, clusterCIDR string) (Run, error) {
	routes, ok := t.Cloud().Routes()
	if !ok {
		return nil, notServed("routes")
	}
	cidrs, err := ParseClusterCIDRs(clusterCIDR)
	if err != nil {
		return nil, fmt.Errorf(
			"clusterCIDR (--cluster-cidr): %w; it is needed because the provider serves routes. "+
				"If they are not wanted, set configureCloudRoutes (--configure-cloud-routes) to false", err)
	}
	client, err := t.Client(routeClient)
	if err != nil {
		return nil, err
	}
	events := &recording{client: client, component: "route_controller"}
	controller, err := routecontroller.New(routes, client,
		events.nodes(t.Informers().Core().V1().Nodes()), t.ClusterName(), cidrs)
	if err != nil {
		return nil, err
	}
	return func(ctx context.Context) error {
		events.record(ctx, controller, func() { controller.Run(ctx, period, t.Metrics()) })
		return nil
	}, nil
}
