package cloudcontrollers

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	corelisters "k8s.io/client-go/listers/core/v1"
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

	// shown are the nodes of the pass. Upstream lists the nodes after the routes, in the same
	// goroutine.
	shown []*v1.Node
	// listed are the provider's routes, by those that upstream gets in their place.
	listed map[*cloudprovider.Route]*cloudprovider.Route
}

// show returns the nodes of the pass.
func (p *routePasses) show([]*v1.Node) []*v1.Node { return p.shown }

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
		if hasRoutes(node, condition, of[name]) {
			isLeftOut[name] = true
			continue // keep forgets its failures: what had failed is there
		}
		paused := false
		for _, tried := range triesOf(node, of[name]) {
			tries[tried] = true
			paused = paused || p.pauses.last(tried)
		}
		switch {
		case len(node.Spec.PodCIDRs) > 0 && len(of[name]) == 0 && !hasAddress(node):
			waiting = append(waiting, node)
			isLeftOut[name] = true
		case condition != nil && paused:
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

// triesOf are the tries of a pass that has the node and its routes.
func triesOf(node *v1.Node, routes []*cloudprovider.Route) (tries []try) {
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

// hasRoutes reports whether upstream would neither change a route of the node nor its condition.
func hasRoutes(
	node *v1.Node, condition *v1.NodeCondition, routes []*cloudprovider.Route,
) bool {
	if condition == nil || condition.Status != v1.ConditionFalse ||
		condition.Reason != routeCreated {
		return false
	}
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

// noteNoRoute writes the condition that keeps pods away from nodes without a route, once a node.
func (p *routePasses) noteNoRoute(ctx context.Context, nodes []*v1.Node) {
	workqueue.ParallelizeUntil(ctx, conditionWrites, len(nodes), func(i int) {
		_, condition := nodeutil.GetNodeCondition(&nodes[i].Status, v1.NodeNetworkUnavailable)
		if condition != nil && condition.Status == v1.ConditionTrue &&
			condition.Reason == noRouteCreated {
			return
		}
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
	return try{fmt.Sprintf("create the route of node %s to %s", node, cidr), fmt.Sprint(addresses)}
}

func deletion(route *cloudprovider.Route) try {
	return try{
		fmt.Sprintf("delete the route of node %s to %s", cmp.Or(route.TargetNode, "(unknown)"),
			route.DestinationCIDR),
		route.Name,
	}
}
