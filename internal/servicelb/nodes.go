package servicelb

import (
	"maps"
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/fxccm/fxccm/internal/members"
)

// isCandidate reports whether load balancers may get a node unless it is leaving.
func (c *Controller) isCandidate(node *v1.Node) bool {
	return c.Nodes.Matches(labels.Set(node.Labels)) && members.IsCandidate(node)
}

// sameMember reports whether two versions of a node are the same to every load balancer. Agents
// write annotations every few seconds. No provider is known to read them for load balancers, and
// upstream's controller does not compare them.
func (c *Controller) sameMember(a, b *v1.Node) bool {
	if !c.isCandidate(a) || !c.isCandidate(b) {
		return c.isCandidate(a) == c.isCandidate(b)
	}
	return a.UID == b.UID && a.Spec.ProviderID == b.Spec.ProviderID &&
		members.IsLeaving(a) == members.IsLeaving(b) &&
		equality.Semantic.DeepEqual(a.Status.Addresses, b.Status.Addresses) &&
		maps.Equal(a.Labels, b.Labels) &&
		equality.Semantic.DeepEqual(taints(a), taints(b))
}

// sameRoutes reports whether a provider sees the same routes to the pods of a node.
func sameRoutes(a, b *v1.Node) bool {
	return members.LacksRoute(a) == members.LacksRoute(b) &&
		slices.Equal(a.Spec.PodCIDRs, b.Spec.PodCIDRs)
}

// taints are the taints of a node that the cluster's users or the cloud set. Kubernetes' own follow
// the conditions of the node, which do not matter.
func taints(node *v1.Node) []v1.Taint {
	return slices.DeleteFunc(slices.Clone(node.Spec.Taints), func(t v1.Taint) bool {
		return strings.HasPrefix(t.Key, "node.kubernetes.io/")
	})
}

// members returns the nodes that load balancers get now.
func (c *Controller) members() ([]*v1.Node, error) {
	nodes, err := c.nodes.List(c.Nodes)
	if err != nil {
		return nil, err
	}
	return slices.DeleteFunc(nodes, func(node *v1.Node) bool {
		return !members.IsCandidate(node) || members.IsLeaving(node) || members.IsShutDown(node)
	}), nil
}
