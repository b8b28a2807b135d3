package loadbalancer

import (
	"context"
	"slices"
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/fxccm/fxccm/internal/members"
	"github.com/fxccm/fxccm/provider/openstack/internal/loadbalancer/desired"
	"github.com/fxccm/fxccm/provider/openstack/internal/loadbalancer/octavia"
)

// unknownRecheck is when a Service is reconciled again if the region of a node is unknown. A node
// does not change when its region becomes known, so the service controller does not call.
const unknownRecheck = 5 * time.Minute

// reachableNodes returns the nodes that the load balancer reaches. A node of which that is unknown
// remains what it is: a member, or none.
func (r *reconciler) reachableNodes(ctx context.Context) ([]*v1.Node, error) {
	if r.of.config.SortNodes == nil {
		return r.nodes, nil
	}
	sorting, cancel := context.WithTimeout(ctx, reconcileTimeout)
	defer cancel()
	nodes, unknown := r.of.config.SortNodes(sorting, r.nodes)
	if !slices.ContainsFunc(unknown, members.IsCandidate) {
		return nodes, nil
	}
	r.of.repairs.queue.AddAfter(repair{service: r.service.UID}, unknownRecheck)
	is := r.observeFound()
	if err := r.allContents(ctx, &is); err != nil {
		return nil, err
	}
	for _, node := range unknown {
		if hasMember(is.Pools, node.Name) {
			nodes = append(nodes, node)
		}
	}
	r.of.config.Logger.V(2).Info("Region of nodes unknown; they stay members, or none",
		"service", r.service.Namespace+"/"+r.service.Name, "nodes", len(unknown))
	return nodes, nil
}

// hasMember reports whether a node, or a pod on it, is a member.
func hasMember(pools []octavia.Pool, node string) bool {
	return slices.ContainsFunc(pools, func(pool octavia.Pool) bool {
		return slices.ContainsFunc(pool.Members, func(m octavia.Member) bool {
			return m.Name == node || m.Name == desired.MemberName(node, m.Address, m.Port)
		})
	})
}
