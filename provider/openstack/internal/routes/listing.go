package routes

import (
	"k8s.io/apimachinery/pkg/types"
	cloudprovider "k8s.io/cloud-provider"
)

// listing returns the router's routes for upstream's controller.
//
// Within the cluster's CIDRs, the controller deletes blackholes and routes whose destination is not
// a pod CIDR of their target node. It compares the addresses of the target node with those of the
// route (EnableNodeAddresses), and completes deletions before creations if the first route has the
// flag. A route to any InternalIP of its node is correct, so a new order of the addresses does not
// interrupt traffic. A route without its address pair is not listed, so that the controller creates
// it, which completes it.
func listing(all []entry, k knowledge) []*cloudprovider.Route {
	listed := make([]*cloudprovider.Route, 0, len(all))
	for _, e := range all {
		if e.foreign {
			continue
		}
		if r := describe(e.route, k); r != nil {
			listed = append(listed, r)
		}
	}
	return listed
}

// describe is nil for foreign routes and for those without their address pair.
func describe(r route, k knowledge) *cloudprovider.Route {
	listed := &cloudprovider.Route{
		Name: r.String(), DestinationCIDR: r.destination.String(),
		EnableNodeAddresses: true,
	}
	switch o := k.owner(r); o.standing {
	case ours:
		if pair, known := k.paired[r]; known && !pair.complete && o.claimed {
			return nil // a change was interrupted, or another client removed the pair
		}
		node := k.nodes.byName[o.node]
		listed.TargetNode = types.NodeName(o.node)
		listed.TargetNodeAddresses = node.Status.Addresses
		if written, ok := podCIDR(node, r.destination); ok {
			listed.DestinationCIDR = written
		}
	case orphan:
		listed.TargetNode = types.NodeName(o.node)
	case stale:
		listed.Blackhole = true
	default:
		return nil
	}
	return listed
}
