package openstack_test

import (
	"context"
	"fmt"
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	cloudproviderapi "k8s.io/cloud-provider/api"

	"github.com/fxccm/fxccm/ccm/ccmtest"
)

// notReady creates a node of the machine whose kubelet reports that it is not ready: the lifecycle
// controller checks its server.
func notReady(t *testing.T, m machine, options ...ccmtest.NodeOption) *corev1.Node {
	t.Helper()
	options = append([]ccmtest.NodeOption{
		ccmtest.NodeProviderID(m.providerID()),
		ccmtest.NodeNotReady(),
	}, options...)
	return ccmtest.CreateNode(t, shared.Client(t), ccmtest.ReadyNode(m.name, options...))
}

// tainted creates a node like a kubelet, to be initialized.
func tainted(t *testing.T, name string, options ...ccmtest.NodeOption) *corev1.Node {
	t.Helper()
	return ccmtest.CreateNode(t, shared.Client(t), ccmtest.TaintedNode(name, options...))
}

func initialized(t *testing.T, name string) *corev1.Node {
	t.Helper()
	return ccmtest.Eventually(t, "the node is initialized",
		ccmtest.Initialized(shared.Client(t), name))
}

func getNode(t *testing.T, name string) *corev1.Node {
	t.Helper()
	node, err := shared.Client(t).CoreV1().Nodes().Get(t.Context(), name, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return node
}

// deleteNode deletes a node like an operator.
func deleteNode(t *testing.T, name string) {
	t.Helper()
	if err := shared.Client(t).CoreV1().Nodes().Delete(t.Context(), name,
		metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
}

// setReady sets the condition Ready like the kubelet.
func setReady(t *testing.T, name string, status corev1.ConditionStatus) {
	t.Helper()
	patch := fmt.Sprintf(`{"status":{"conditions":[{"type":"Ready","status":%q}]}}`, status)
	_, err := shared.Client(t).CoreV1().Nodes().Patch(t.Context(), name,
		types.StrategicMergePatchType, []byte(patch), metav1.PatchOptions{}, "status")
	if err != nil {
		t.Fatal(err)
	}
}

func hasTaint(node *corev1.Node, key string) bool {
	return slices.ContainsFunc(node.Spec.Taints,
		func(taint corev1.Taint) bool { return taint.Key == key })
}

func isNew(node *corev1.Node) bool {
	return hasTaint(node, cloudproviderapi.TaintExternalCloudProvider)
}

// waitAddress waits until the node's first address of the type is this one.
func waitAddress(t *testing.T, name string, kind corev1.NodeAddressType, want string) {
	t.Helper()
	ccmtest.Eventually(t, fmt.Sprintf("%s has %s %s", name, kind, want),
		ccmtest.Object(shared.Client(t).CoreV1().Nodes().Get, name, func(n *corev1.Node) error {
			at := slices.IndexFunc(n.Status.Addresses,
				func(a corev1.NodeAddress) bool { return a.Type == kind })
			if at < 0 || n.Status.Addresses[at].Address != want {
				return fmt.Errorf("its addresses are %v", n.Status.Addresses)
			}
			return nil
		}))
}

// waitEvent waits for an event about exactly this node.
func waitEvent(
	t *testing.T, client kubernetes.Interface, node *corev1.Node, reason string,
) corev1.Event {
	t.Helper()
	return ccmtest.Eventually(t,
		fmt.Sprintf("there is an event %s about node %s", reason, node.Name),
		func(ctx context.Context) (corev1.Event, error) {
			selector := fields.Set{
				"involvedObject.kind": "Node",
				"involvedObject.uid":  string(node.UID),
			}.AsSelector().String()
			list, err := client.CoreV1().Events(metav1.NamespaceDefault).List(ctx,
				metav1.ListOptions{FieldSelector: selector})
			if err != nil {
				return corev1.Event{}, err
			}
			for _, event := range list.Items {
				if event.Reason == reason {
					return event, nil
				}
			}
			return corev1.Event{}, fmt.Errorf("the events are %v", list.Items)
		})
}
