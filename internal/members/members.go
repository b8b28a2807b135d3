// Package members says which nodes, or endpoints of Services, load balancers get.
package members

import (
	"slices"
	"strconv"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/cloud-provider/api"
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

// IsCandidate reports whether a load balancer may get a node unless it is leaving.
//
// A node that is not ready stays, so that its connections can drain and a restart of its kubelet
// changes no load balancer (KEP-3458). One without a network, or that has not been ready since it
// registered, has no connections yet.
func IsCandidate(node *v1.Node) bool {
	if value, has := node.Labels[v1.LabelNodeExcludeBalancers]; has {
		if excluded, err := strconv.ParseBool(value); err != nil || excluded {
			return false
		}
	}
	return has(node, v1.NodeReady, v1.ConditionTrue) ||
		!has(node, v1.NodeNetworkUnavailable, v1.ConditionTrue) && !isStarting(node)
}

// startSlack is how much the clocks of a node and of the API server may differ.
const startSlack = 10 * time.Second

// isStarting reports whether a node has not been ready since its kubelet registered it: most
// network plugins write a condition of their own only when they run. The kubelet registers the node
// with the condition Ready.
func isStarting(node *v1.Node) bool {
	return slices.ContainsFunc(node.Status.Conditions, func(c v1.NodeCondition) bool {
		return c.Type == v1.NodeReady && c.Status != v1.ConditionTrue &&
			!c.LastTransitionTime.IsZero() && !node.CreationTimestamp.IsZero() &&
			c.LastTransitionTime.Sub(node.CreationTimestamp.Time).Abs() < startSlack
	})
}

// IsLeaving reports whether a node is marked for removal: it is being deleted, or has a taint of
// the cluster autoscaler, of Karpenter, or with one of the other keys. A provider may keep it as a
// member without new connections until it is gone.
func IsLeaving(node *v1.Node, otherTaints ...string) bool {
	return node.DeletionTimestamp != nil ||
		slices.ContainsFunc(node.Spec.Taints, func(t v1.Taint) bool {
			return slices.Contains(removalTaints(), t.Key) || slices.Contains(otherTaints, t.Key)
		})
}

// Staying returns the nodes that are not leaving.
func Staying(nodes []*v1.Node, otherTaints ...string) []*v1.Node {
	return slices.DeleteFunc(slices.Clone(nodes), func(node *v1.Node) bool {
		return IsLeaving(node, otherTaints...)
	})
}

// LacksRoute reports whether a route controller has found no route to the pods of a node. Network
// plugins write other reasons.
func LacksRoute(node *v1.Node) bool {
	return slices.ContainsFunc(node.Status.Conditions, func(c v1.NodeCondition) bool {
		return c.Type == v1.NodeNetworkUnavailable && c.Status == v1.ConditionTrue &&
			c.Reason == "NoRouteCreated"
	})
}

// IsNew reports whether a node waits for its initialization by the cloud-node-controller.
func IsNew(node *v1.Node) bool { return hasTaint(node, api.TaintExternalCloudProvider) }

// IsShutDown reports whether the cloud has said that the instance of a node is shut down. The
// cloud-node-lifecycle-controller sets this taint if the node is not ready either, and removes it
// when the instance runs again.
func IsShutDown(node *v1.Node) bool { return hasTaint(node, api.TaintNodeShutdown) }

func hasTaint(node *v1.Node, key string) bool {
	return slices.ContainsFunc(node.Spec.Taints, func(t v1.Taint) bool { return t.Key == key })
}

// IsReady reports whether the kubelet of a node says that it is ready.
func IsReady(node *v1.Node) bool { return has(node, v1.NodeReady, v1.ConditionTrue) }

// IsNotReady reports whether the kubelet of a node has said that it is not ready, or has ended its
// reports.
func IsNotReady(node *v1.Node) bool {
	return has(node, v1.NodeReady, v1.ConditionFalse) ||
		has(node, v1.NodeReady, v1.ConditionUnknown)
}

func has(node *v1.Node, kind v1.NodeConditionType, status v1.ConditionStatus) bool {
	return slices.ContainsFunc(node.Status.Conditions, func(c v1.NodeCondition) bool {
		return c.Type == kind && c.Status == status
	})
}
