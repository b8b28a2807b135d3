// Package members says which nodes load balancers get.
package members

import (
	"slices"
	"strconv"

	v1 "k8s.io/api/core/v1"
)

// toBeDeleted is the taint of a node that the cluster autoscaler is about to remove
// (k8s.io/autoscaler, cluster-autoscaler/utils/taints).
const toBeDeleted = "ToBeDeletedByClusterAutoscaler"

// IsCandidate reports whether a load balancer may get a node unless it is leaving.
//
// A node that is not ready stays, so that its connections can drain and a restart of its kubelet
// changes no load balancer (KEP-3458). One without a network has no connections yet.
func IsCandidate(node *v1.Node) bool {
	if value, has := node.Labels[v1.LabelNodeExcludeBalancers]; has {
		if excluded, err := strconv.ParseBool(value); err != nil || excluded {
			return false
		}
	}
	return has(node, v1.NodeReady, v1.ConditionTrue) ||
		!has(node, v1.NodeNetworkUnavailable, v1.ConditionTrue)
}

// IsLeaving reports whether a node is about to be removed. A provider may keep it as a member
// without new connections until it is gone.
func IsLeaving(node *v1.Node) bool {
	return node.DeletionTimestamp != nil ||
		slices.ContainsFunc(node.Spec.Taints, func(t v1.Taint) bool { return t.Key == toBeDeleted })
}

func has(node *v1.Node, kind v1.NodeConditionType, status v1.ConditionStatus) bool {
	return slices.ContainsFunc(node.Status.Conditions, func(c v1.NodeCondition) bool {
		return c.Type == kind && c.Status == status
	})
}
