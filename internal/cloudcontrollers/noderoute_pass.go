package cloudcontrollers

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	corelisters "k8s.io/client-go/listers/core/v1"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/record"
	"k8s.io/client-go/util/workqueue"
	cloudprovider "k8s.io/cloud-provider"
	nodeutil "k8s.io/component-helpers/node/util"
	"k8s.io/klog/v2"
)

const (
	// Reasons of the condition NetworkUnavailable, as upstream writes them.
	routeCreated, noRouteCreated = "RouteCreated", "NoRouteCreated"
	// conditionWrites is how many nodes get their condition at once.
	conditionWrites = 16
)

// routePasses is the cloudprovider.Routes that upstream gets, and selects the nodes that upstream
// sees. In each pass upstream lists the routes and then the nodes, logs two lines for every node,
// and tries again whatever failed. With routePasses, a pass has only the nodes with work to do, and
// their routes:
//
//   - A node whose routes and condition are as they must be is left out.
//   - A node without an address cannot have a route yet, which is not a failure. It gets its
//     condition here, because upstream writes it only after a failure.
//   - A node whose route failed is left out until its pause has ended, or its addresses change.
//   - A node that only lacks its condition is left out while the write of the condition is paused.
//
// A node is left out together with its routes, else upstream would delete them.
type routePasses struct {
	cloudprovider.Routes
	client kubernetes.Interface
	lister corelisters.NodeLister
	// selector selects the nodes that get routes. Routes to others are left alone.
	selector labels.Selector
	pauses   *pauses
	// recorder writes the events.
	recorder record.EventRecorder

	// handler is upstream's handler of changes of nodes. Upstream has one only with the feature
	// gate CloudControllerManagerWatchBasedRoutesReconciliation, with which it makes no periodic
	// pass.
	handler cache.ResourceEventHandler

	// shown are the nodes of the pass. Upstream lists the nodes after the routes, in the same
	// goroutine.
	shown []*v1.Node
	// listed are the provider's routes, by those that upstream gets in their place.
	listed map[*cloudprovider.Route]*cloudprovider.Route
}

// show returns the nodes of the pass.
func (p *routePasses) show([]*v1.Node) []*v1.Node { return p.shown }

// handle keeps upstream's handler.
func (p *routePasses) handle(handler cache.ResourceEventHandler) { p.handler = handler }

// retry makes upstream begin a pass if a step of the last one has failed and its pause has ended.
// To upstream, it is a resync of a node, which leads to a pass without being a change.
func (p *routePasses) retry(context.Context) {
	if p.pauses.isDue() {
		node := &v1.Node{}
		p.handler.OnUpdate(node, node)
	}
}

// ListRoutes implements cloudprovider.Routes. It begins a pass.
func (p *routePasses) ListRoutes(
	ctx context.Context, cluster string,
) ([]*cloudprovider.Route, error) {
	p.shown = nil
	if p.pauses.last(listing()) {
		return nil, nil // a pass without nodes and routes does nothing
	}
	routes, err := p.Routes.ListRoutes(ctx, cluster)
	p.pauses.note(listing(), err)
	if err != nil {
		return nil, err
	}
	nodes, err := p.lister.List(labels.Everything())
	if err != nil {
		return nil, err
	}
	return p.begin(ctx, nodes, routes), nil
}

// begin selects the nodes of the pass, and returns its routes.
func (p *routePasses) begin(
	ctx context.Context, nodes []*v1.Node, routes []*cloudprovider.Route,
) []*cloudprovider.Route {
	routes = p.spell(nodes, routes)
	of := map[types.NodeName][]*cloudprovider.Route{}
	for _, r := range routes {
		of[r.TargetNode] = append(of[r.TargetNode], r)
	}
	isKnown, isLeftOut := map[types.NodeName]bool{}, map[types.NodeName]bool{}
	var waiting []*v1.Node
	tries := map[try]bool{listing(): true}
	for _, node := range nodes {
		name := types.NodeName(node.Name)
		isKnown[name] = true
		if !p.selector.Matches(labels.Set(node.Labels)) {
			isLeftOut[name] = true
			continue
		}
		_, condition := nodeutil.GetNodeCondition(&node.Status, v1.NodeNetworkUnavailable)
		isRouted := hasRoutes(node, of[name])
		isEarly := len(node.Spec.PodCIDRs) > 0 && len(of[name]) == 0 && !hasAddress(node)
		if isRouted && isCondition(condition, v1.ConditionFalse, routeCreated) ||
			isEarly && isCondition(condition, v1.ConditionTrue, noRouteCreated) {
			isLeftOut[name] = true
			continue // its failures are forgotten, because what failed is there
		}
		steps, writing := routeTries(node, of[name]), conditionOf(node.Name)
		isPaused := slices.ContainsFunc(steps, p.pauses.last)
		for _, tried := range append(steps, writing) {
			tries[tried] = true
		}
		switch {
		case isEarly:
			isLeftOut[name] = true
			if !p.pauses.last(writing) {
				waiting = append(waiting, node)
			}
		case isPaused && condition != nil, (isPaused || isRouted) && p.pauses.last(writing):
			isLeftOut[name] = true
		default:
			p.shown = append(p.shown, node)
		}
	}
	for _, r := range routes {
		if !isKnown[r.TargetNode] {
			tries[deletion(r)] = true
		}
	}
	p.pauses.keep(tries)
	p.noteNoRoute(ctx, waiting)
	return slices.DeleteFunc(routes, func(r *cloudprovider.Route) bool {
		return isLeftOut[r.TargetNode] ||
			!isKnown[r.TargetNode] && p.pauses.last(deletion(r))
	})
}

// routeTries are the tries that a pass may make for the routes of a node.
func routeTries(node *v1.Node, routes []*cloudprovider.Route) (tries []try) {
	for _, cidr := range node.Spec.PodCIDRs {
		tries = append(tries, creation(types.NodeName(node.Name), cidr, node.Status.Addresses))
	}
	for _, r := range routes {
		tries = append(tries, deletion(r))
	}
	return tries
}

// spell returns the routes with the destinations that their nodes have in another spelling, such as
// 2001:db8:0:0::/64 for 2001:db8::/64. Upstream compares texts, and would create the route and
// delete it in each pass.
func (p *routePasses) spell(
	nodes []*v1.Node, routes []*cloudprovider.Route,
) []*cloudprovider.Route {
	ranges := map[types.NodeName][]string{}
	for _, node := range nodes {
		ranges[types.NodeName(node.Name)] = node.Spec.PodCIDRs
	}
	p.listed = map[*cloudprovider.Route]*cloudprovider.Route{}
	routes = slices.Clone(routes)
	for i, r := range routes {
		if slices.Contains(ranges[r.TargetNode], r.DestinationCIDR) {
			continue
		}
		for _, cidr := range ranges[r.TargetNode] {
			if IsSameCIDR(cidr, r.DestinationCIDR) {
				spelled := *r
				spelled.DestinationCIDR = cidr
				routes[i], p.listed[&spelled] = &spelled, r
				break
			}
		}
	}
	return routes
}

// isCondition reports whether upstream would not change a condition.
func isCondition(c *v1.NodeCondition, status v1.ConditionStatus, reason string) bool {
	return c != nil && c.Status == status && c.Reason == reason
}

// hasRoutes reports whether upstream would not change a route of the node.
func hasRoutes(node *v1.Node, routes []*cloudprovider.Route) bool {
	missing := map[string]bool{}
	for _, cidr := range node.Spec.PodCIDRs {
		missing[cidr] = true
	}
	if len(missing) == 0 {
		return false
	}
	for _, r := range routes {
		if r.Blackhole || !slices.Contains(node.Spec.PodCIDRs, r.DestinationCIDR) ||
			r.EnableNodeAddresses &&
				!equality.Semantic.DeepEqual(r.TargetNodeAddresses, node.Status.Addresses) {
			return false
		}
		delete(missing, r.DestinationCIDR)
	}
	return len(missing) == 0
}

// hasAddress reports whether the node has an address of its instance. The kubelet sets the hostname
// itself.
func hasAddress(node *v1.Node) bool {
	return slices.ContainsFunc(node.Status.Addresses, func(a v1.NodeAddress) bool {
		return a.Type == v1.NodeInternalIP || a.Type == v1.NodeExternalIP
	})
}

// noteNoRoute writes the condition that keeps pods away from nodes without a route.
func (p *routePasses) noteNoRoute(ctx context.Context, nodes []*v1.Node) {
	workqueue.ParallelizeUntil(ctx, conditionWrites, len(nodes), func(i int) {
		err := nodeutil.SetNodeCondition(p.client, types.NodeName(nodes[i].Name), v1.NodeCondition{
			Type: v1.NodeNetworkUnavailable, Status: v1.ConditionTrue, Reason: noRouteCreated,
			Message:            "The node has no address yet, so it has no route to its pods",
			LastTransitionTime: metav1.Now(),
		})
		if err != nil {
			klog.FromContext(ctx).Error(err, "Condition NetworkUnavailable not written; retrying",
				"node", nodes[i].Name)
		}
	})
}

// wroteCondition notes the result of a write of the condition NetworkUnavailable. Upstream repeats
// a write after a conflict at once.
func (p *routePasses) wroteCondition(node string, err error) {
	if !apierrors.IsConflict(err) {
		p.pauses.note(conditionOf(node), err)
	}
}

// CreateRoute implements cloudprovider.Routes. It writes an event for a failure, which upstream
// would word with the duration of the call.
func (p *routePasses) CreateRoute(
	ctx context.Context, cluster, hint string, route *cloudprovider.Route,
) error {
	err := p.Routes.CreateRoute(ctx, cluster, hint, route)
	tried := creation(route.TargetNode, route.DestinationCIDR, route.TargetNodeAddresses)
	if p.pauses.note(tried, err) {
		for _, node := range p.shown {
			if node.Name == string(route.TargetNode) {
				p.recorder.Event(node, v1.EventTypeWarning, "FailedToCreateRoute", err.Error())
			}
		}
	}
	return err
}

// DeleteRoute implements cloudprovider.Routes.
func (p *routePasses) DeleteRoute(
	ctx context.Context, cluster string, route *cloudprovider.Route,
) error {
	err := p.Routes.DeleteRoute(ctx, cluster, cmp.Or(p.listed[route], route))
	p.pauses.note(deletion(route), err)
	return err
}

func listing() try { return try{step: "list the routes"} }

// creation is another try for other addresses of the node, with which it may succeed.
func creation(node types.NodeName, cidr string, addresses []v1.NodeAddress) try {
	return try{
		step:  fmt.Sprintf("create the route of node %s to %s", node, cidr),
		input: fmt.Sprint(addresses),
	}
}

func deletion(route *cloudprovider.Route) try {
	return try{
		step: fmt.Sprintf("delete the route of node %s to %s",
			cmp.Or(route.TargetNode, "(unknown)"), route.DestinationCIDR),
		input: route.Name,
	}
}

// conditionOf is the write of the condition NetworkUnavailable.
func conditionOf(node string) try {
	return try{step: "write the condition NetworkUnavailable of node " + node, right: toPatch}
}
