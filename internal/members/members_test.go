package members_test

import (
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/fxccm/fxccm/internal/members"
)

func conditions(ready, unavailable v1.ConditionStatus) func(*v1.Node) {
	return func(node *v1.Node) {
		node.Status.Conditions = []v1.NodeCondition{
			{Type: v1.NodeReady, Status: ready},
			{Type: v1.NodeNetworkUnavailable, Status: unavailable},
		}
	}
}

// notReadySince is a node that has not been ready since so long after its registration.
func notReadySince(after time.Duration) func(*v1.Node) {
	return func(node *v1.Node) {
		conditions(v1.ConditionFalse, v1.ConditionUnknown)(node)
		node.CreationTimestamp = metav1.Now()
		node.Status.Conditions[0].LastTransitionTime = metav1.NewTime(time.Now().Add(after))
	}
}

func label(value string) func(*v1.Node) {
	return func(node *v1.Node) {
		node.Labels = map[string]string{v1.LabelNodeExcludeBalancers: value}
	}
}

func TestNode_EachKind_IsCandidateOrLeaving(t *testing.T) {
	for name, test := range map[string]struct {
		change               func(*v1.Node)
		isCandidate, leaving bool
	}{
		"nothing is known":          {func(*v1.Node) {}, true, false},
		"ready":                     {conditions(v1.ConditionTrue, v1.ConditionFalse), true, false},
		"not ready":                 {conditions(v1.ConditionFalse, v1.ConditionFalse), true, false},
		"its state is unknown":      {conditions(v1.ConditionUnknown, v1.ConditionFalse), true, false},
		"not ready, no network":     {conditions(v1.ConditionFalse, v1.ConditionTrue), false, false},
		"ready, says no network":    {conditions(v1.ConditionTrue, v1.ConditionTrue), true, false},
		"not ready yet":             {notReadySince(-time.Second), false, false},
		"not ready any more":        {notReadySince(time.Minute), true, false},
		"excluded":                  {label(""), false, false},
		"excluded by another value": {label("yes"), false, false},
		"not excluded":              {label("false"), true, false},
		"the autoscaler removes it": {func(node *v1.Node) {
			node.Spec.Taints = []v1.Taint{{Key: "ToBeDeletedByClusterAutoscaler"}}
		}, true, true},
		"Karpenter removes it": {func(node *v1.Node) {
			node.Spec.Taints = []v1.Taint{{Key: "karpenter.sh/disrupted"}}
		}, true, true},
		"its instance is shut down": {func(node *v1.Node) {
			node.Spec.Taints = []v1.Taint{{Key: "node.cloudprovider.kubernetes.io/shutdown"}}
		}, true, false},
		"it is being deleted": {func(node *v1.Node) {
			node.DeletionTimestamp = &metav1.Time{Time: time.Now()}
		}, true, true},
	} {
		t.Run(name, func(t *testing.T) {
			var node v1.Node
			test.change(&node)
			if got := members.IsCandidate(&node); got != test.isCandidate {
				t.Errorf("IsCandidate: %v", got)
			}
			if got := members.IsLeaving(&node); got != test.leaving {
				t.Errorf("IsLeaving: %v", got)
			}
		})
	}
}
