package desired

import (
	"slices"
	"strconv"

	v1 "k8s.io/api/core/v1"
)

// autoscalerTaint is the taint that the cluster autoscaler adds to a node before it deletes it.
const autoscalerTaint = "ToBeDeletedByClusterAutoscaler"

// Node is a node that may be a member.
type Node struct {
	*v1.Node
	// Draining: the node is about to be removed, and gets no new connections.
	Draining bool
}

// Candidates returns the nodes that may be members: the nodes of upstream's service controller
// (k8s.io/cloud-provider, controllers/service/controller.go, stableNodeSetPredicates), ready or
// not, and, as draining, the nodes that it leaves out because they are being deleted.
func Candidates(nodes []*v1.Node) []Node {
	var candidates []Node
	for _, node := range nodes {
		if !isExcluded(node) {
			candidates = append(candidates, Node{node, isDraining(node)})
		}
	}
	return candidates
}

// isExcluded treats a value that is not a boolean as true, as upstream does.
func isExcluded(node *v1.Node) bool {
	value, labeled := node.Labels[v1.LabelNodeExcludeBalancers]
	if !labeled {
		return false
	}
	excluded, err := strconv.ParseBool(value)
	return err != nil || excluded
}

func isDraining(node *v1.Node) bool {
	return !node.DeletionTimestamp.IsZero() ||
		slices.ContainsFunc(node.Spec.Taints,
			func(taint v1.Taint) bool { return taint.Key == autoscalerTaint })
}
