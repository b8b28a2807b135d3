package controllers_test

import (
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	cloudproviderapi "k8s.io/cloud-provider/api"

	"github.com/fxccm/fxccm/ccm/ccmtest"
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
	ccmtest.Eventually(t, "the node has the shutdown taint",
		ccmtest.Object(client.CoreV1().Nodes().Get, "n1", func(n *corev1.Node) error {
			for _, taint := range n.Spec.Taints {
				if taint.Key == cloudproviderapi.TaintNodeShutdown {
					return nil
				}
			}
			return fmt.Errorf("its taints are %v", n.Spec.Taints)
		}))
	if err := cloud.RemoveInstance("n1"); err != nil {
		t.Fatal(err)
	}
	ccmtest.Eventually(t, "the node is gone", ccmtest.Gone(client.CoreV1().Nodes().Get, "n1"))
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
