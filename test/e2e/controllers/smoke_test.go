package controllers_test

import (
	"fmt"
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	cloudproviderapi "k8s.io/cloud-provider/api"

	"github.com/fxccm/fxccm/ccm/ccmtest"
	"github.com/fxccm/fxccm/provider/fake"
)

// All rules that the four controllers need are in use.
func TestAll_NodeAndServiceGoThroughTheirWholeLives(t *testing.T) {
	t.Parallel()
	cloud := newCloud(t, []string{"n1"})
	run(t, cloud)
	client := shared.Client(t)
	ccmtest.CreateNode(t, client,
		ccmtest.TaintedNode("n1", ccmtest.NodePodCIDRs("10.244.1.0/24")))
	ccmtest.Eventually(t, "the node is initialized", ccmtest.Initialized(client, "n1"))
	ccmtest.Eventually(t, "the route exists", ccmtest.Routed(cloud, "n1", "10.244.1.0/24"))
	ccmtest.CreateService(t, client, ccmtest.LoadBalancerService("web"))
	ccmtest.Eventually(t, "the Service has an address",
		ccmtest.ServiceAddress(client, "default", "web"))
	deleteService(t, "web")
	ccmtest.Eventually(t, "the Service is gone",
		ccmtest.Gone(client.CoreV1().Services("default").Get, "web"))

	if err := cloud.StopInstance("n1"); err != nil {
		t.Fatal(err)
	}
	setNotReady(t, "n1")
	isShutDown := func(want bool) func(*corev1.Node) error {
		return func(n *corev1.Node) error {
			if slices.ContainsFunc(n.Spec.Taints, func(taint corev1.Taint) bool {
				return taint.Key == cloudproviderapi.TaintNodeShutdown
			}) != want {
				return fmt.Errorf("its taints are %v", n.Spec.Taints)
			}
			return nil
		}
	}
	ccmtest.Eventually(t, "the node has the shutdown taint",
		ccmtest.Object(client.CoreV1().Nodes().Get, "n1", isShutDown(true)))
	if err := cloud.StartInstance("n1"); err != nil {
		t.Fatal(err)
	}
	// The node is not ready yet.
	ccmtest.Eventually(t, "the node has no shutdown taint",
		ccmtest.Object(client.CoreV1().Nodes().Get, "n1", isShutDown(false)))
	if err := cloud.RemoveInstance("n1"); err != nil {
		t.Fatal(err)
	}
	ccmtest.Eventually(t, "the node is gone", ccmtest.Gone(client.CoreV1().Nodes().Get, "n1"))
}

// The API server refuses a status in which an address is there twice for a type.
func TestAddresses_CloudReportsEachTwice_NodeHasThemOnce(t *testing.T) {
	t.Parallel()
	each := []corev1.NodeAddress{
		{Type: corev1.NodeHostName, Address: "twice-1"},
		{Type: corev1.NodeInternalIP, Address: "10.0.0.1"},
		{Type: corev1.NodeInternalIP, Address: "fd00::1"},
		{Type: corev1.NodeExternalIP, Address: "10.0.0.1"},
	}
	cloud := newCloud(t, nil)
	if err := cloud.AddInstances(fake.Instance{
		Name: "twice-1",
		Addresses: slices.Concat(each, each, []corev1.NodeAddress{
			{Type: corev1.NodeInternalIP, Address: "FD00:0:0::1"},
		}),
	}); err != nil {
		t.Fatal(err)
	}
	run(t, cloud)
	client := shared.Client(t)
	ccmtest.CreateNode(t, client, ccmtest.TaintedNode("twice-1"))
	node := ccmtest.Eventually(t, "the node is initialized",
		ccmtest.Initialized(client, "twice-1"))
	if !slices.Equal(node.Status.Addresses, each) {
		t.Errorf("the addresses are %v, want %v", node.Status.Addresses, each)
	}
}

// setNotReady changes a node like its kubelet.
func setNotReady(t *testing.T, name string) {
	t.Helper()
	patch := []byte(`{"status":{"conditions":[{"type":"Ready","status":"False"}]}}`)
	if _, err := shared.Client(t).CoreV1().Nodes().Patch(t.Context(), name,
		types.StrategicMergePatchType, patch, metav1.PatchOptions{}, "status"); err != nil {
		t.Fatal(err)
	}
}
