package absence

import (
	"slices"

	v1 "k8s.io/api/core/v1"
)

// removalTaints returns the keys of the taints that announce the removal of a node:
//
//   - the cluster autoscaler's, before it deletes the instance
//     (cluster-autoscaler/utils/taints/taints.go)
//   - Karpenter's, since v1 and before (pkg/apis/v1/taints.go, pkg/apis/v1beta1/taints.go)
func removalTaints() []string {
	return []string{
		"ToBeDeletedByClusterAutoscaler", "karpenter.sh/disrupted", "karpenter.sh/disruption",
	}
}

// IsLeaving reports whether a node is marked for removal: it is being deleted, or has a taint of
// the cluster autoscaler, of Karpenter, or with one of the other keys. A cordoned node is not: most
// come back. Cluster API needs no mark, because it deletes the nodes of its machines itself.
func IsLeaving(node *v1.Node, otherTaints []string) bool {
	return node.DeletionTimestamp != nil ||
		slices.ContainsFunc(node.Spec.Taints, func(taint v1.Taint) bool {
			return slices.Contains(removalTaints(), taint.Key) ||
				slices.Contains(otherTaints, taint.Key)
		})
}
