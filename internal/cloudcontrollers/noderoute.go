package cloudcontrollers

import (
	"context"
	"fmt"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/wait"
	routecontroller "k8s.io/cloud-provider/controllers/route"
	// route.New panics unless the gate it reads is registered in the process's feature gate.
	_ "k8s.io/controller-manager/pkg/features/register"
)

// NodeRoute builds the node-route-controller: it keeps a route in the cloud for every pod CIDR of
// every selected node, and the condition NetworkUnavailable of the nodes. A node gets its route
// when it has an address. What fails is tried again after growing pauses, and is a problem of the
// status from the second failure on.
//
// clusterCIDR is --cluster-cidr. It is checked only if the provider serves routes: without routes,
// it may be empty. Upstream ends the process if it is invalid.
//
// ccm.New accepts an empty range even if OpenStack's cloud.conf has a router-id. An error there
// would keep nodes and Services from being served. This controller alone fails, with the reason,
// and is built again later.
func NodeRoute(
	t Term, selector labels.Selector, period time.Duration, clusterCIDR string,
) (Run, error) {
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
	nodes := t.Informers().Core().V1().Nodes()
	passes := &routePasses{
		Routes: routes, lister: nodes.Lister(), selector: selector,
		pauses: newPauses(period, t.ReportTrouble), recorder: t.Recorder("route_controller"),
	}
	passes.client = conditionClient{client, passes.wroteCondition}
	controller, err := routecontroller.New(passes, withoutEvents{passes.client},
		shownNodes{nodes, passes.show, passes.handle}, t.ClusterName(), cidrs)
	if err != nil {
		return nil, err
	}
	return func(ctx context.Context) error {
		var retries sync.WaitGroup
		defer retries.Wait()
		ctx, cancel := context.WithCancel(ctx)
		defer cancel() // also after a panic
		if passes.handler != nil {
			retries.Go(func() { wait.UntilWithContext(ctx, passes.retry, period) })
		}
		controller.Run(ctx, period, t.Metrics())
		return nil
	}, nil
}
