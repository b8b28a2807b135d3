package ccmtest

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	cloudproviderapi "k8s.io/cloud-provider/api"

	"github.com/fxccm/fxccm/internal/waittest"
)

// A NodeOption changes the Node of [TaintedNode] or [ReadyNode].
type NodeOption func(*corev1.Node)

// TaintedNode is a Node as a kubelet with --cloud-provider=external registers it: it has the taint
// node.cloudprovider.kubernetes.io/uninitialized, no provider ID, no address but its name, and is
// Ready. The cloud should have an instance of that name, because the lifecycle controller deletes a
// Node without an instance if it is not Ready.
func TaintedNode(name string, opts ...NodeOption) *corev1.Node {
	taint := NodeTaint(cloudproviderapi.TaintExternalCloudProvider, "true",
		corev1.TaintEffectNoSchedule)
	return ReadyNode(name, append([]NodeOption{taint}, opts...)...)
}

// ReadyNode is a Node without taints that is Ready. It has no provider ID; see [NodeProviderID].
func ReadyNode(name string, opts ...NodeOption) *corev1.Node {
	node := &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{
			Name:   name,
			Labels: map[string]string{corev1.LabelHostname: name},
		},
		Status: corev1.NodeStatus{
			Addresses: []corev1.NodeAddress{{Type: corev1.NodeHostName, Address: name}},
			Conditions: []corev1.NodeCondition{{
				Type:   corev1.NodeReady,
				Status: corev1.ConditionTrue, Reason: "KubeletReady",
			}},
		},
	}
	for _, opt := range opts {
		opt(node)
	}
	return node
}

// NodeNotReady sets the condition Ready to False, as after a failure of the kubelet: the lifecycle
// controller checks the instances of such Nodes.
func NodeNotReady() NodeOption {
	return func(n *corev1.Node) {
		for i := range n.Status.Conditions {
			if n.Status.Conditions[i].Type == corev1.NodeReady {
				n.Status.Conditions[i].Status = corev1.ConditionFalse
				n.Status.Conditions[i].Reason = "KubeletNotReady"
			}
		}
	}
}

// NodeTaint adds a taint.
func NodeTaint(key, value string, effect corev1.TaintEffect) NodeOption {
	return func(n *corev1.Node) {
		n.Spec.Taints = append(n.Spec.Taints, corev1.Taint{Key: key, Value: value, Effect: effect})
	}
}

// NodeLabel sets a label.
func NodeLabel(key, value string) NodeOption {
	return func(n *corev1.Node) { metav1.SetMetaDataLabel(&n.ObjectMeta, key, value) }
}

// NodeAnnotation sets an annotation.
func NodeAnnotation(key, value string) NodeOption {
	return func(n *corev1.Node) { metav1.SetMetaDataAnnotation(&n.ObjectMeta, key, value) }
}

// NodeProviderID sets spec.providerID.
func NodeProviderID(id string) NodeOption {
	return func(n *corev1.Node) { n.Spec.ProviderID = id }
}

// NodePodCIDRs sets spec.podCIDR and spec.podCIDRs, like the allocator of kube-controller-manager:
// the route controller creates a route to the Node for each.
func NodePodCIDRs(cidrs ...string) NodeOption {
	return func(n *corev1.Node) {
		n.Spec.PodCIDRs = cidrs
		if len(cidrs) > 0 {
			n.Spec.PodCIDR = cidrs[0]
		}
	}
}

// CreateNode creates the Node, and deletes it at the end of the test. If it fails, the test fails.
func CreateNode(t testing.TB, client kubernetes.Interface, node *corev1.Node) *corev1.Node {
	t.Helper()
	ctx, cancel := waittest.Limited(t)
	defer cancel()
	created, err := client.CoreV1().Nodes().Create(ctx, node, metav1.CreateOptions{})
	if err != nil {
		t.Fatalf("create Node %s: %v", node.Name, err)
		return nil
	}
	t.Cleanup(func() {
		ctx, cancel := waittest.Limited(t)
		defer cancel()
		if err := client.CoreV1().Nodes().Delete(ctx, node.Name,
			metav1.DeleteOptions{}); unexpected(err) {
			t.Errorf("delete Node %s: %v", node.Name, err)
		}
	})
	return created
}
