package ccmtest_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/fxccm/fxccm/ccm"
	"github.com/fxccm/fxccm/ccm/ccmtest"
	"github.com/fxccm/fxccm/ccm/ccmtest/controlplane"
	"github.com/fxccm/fxccm/provider/fake"
)

func TestStartApp_NodeGoesThroughItsWholeLife(t *testing.T) {
	cloud := cloudWith(t, "node-a")
	app := ccmtest.StartApp(t, cluster, cloud)
	ready := app.WaitReady()
	for _, c := range ready.Controllers {
		if c.State != ccm.ControllerRunning {
			t.Errorf("controller %s is %s (%s), want all four to run", c.Name, c.State, c.Reason)
		}
	}

	ccmtest.CreateNode(t, app.Client,
		ccmtest.TaintedNode("node-a", ccmtest.NodePodCIDRs("10.244.1.0/24")))
	node := ccmtest.Eventually(t, "the node is initialized",
		ccmtest.Initialized(app.Client, "node-a"))
	if node.Spec.ProviderID != "fake://region-1/node-a" {
		t.Errorf("providerID is %q", node.Spec.ProviderID)
	}
	if zone := node.Labels[corev1.LabelTopologyZone]; zone != "region-1a" {
		t.Errorf("zone is %q", zone)
	}
	ccmtest.Eventually(t, "the node has an address",
		ccmtest.NodeAddress(app.Client, "node-a", corev1.NodeInternalIP))
	ccmtest.Eventually(t, "the route exists", ccmtest.Routed(cloud, "node-a", "10.244.1.0/24"))

	if err := cloud.RemoveInstance("node-a"); err != nil {
		t.Fatal(err)
	}
	setReady(t, app, "node-a", corev1.ConditionFalse)
	ccmtest.Eventually(t, "the node is gone",
		ccmtest.Gone(app.Client.CoreV1().Nodes().Get, "node-a"))
	ccmtest.Eventually(t, "the route is gone", func(context.Context) (struct{}, error) {
		if routes := cloud.Routes(); len(routes) > 0 {
			return struct{}{}, fmt.Errorf("the routes are %+v", routes)
		}
		return struct{}{}, nil
	})
	app.VerifyNoLeaks()
}

func TestStartManager_ServiceGetsItsAddressAndLosesItsLoadBalancer(t *testing.T) {
	cloud := fake.New()
	c := ccmtest.StartManager(t, cluster, cloud)
	c.WaitReady()
	ccmtest.CreateService(t, c.Client,
		ccmtest.LoadBalancerService("web", ccmtest.ServicePorts(80, 443)))
	address := ccmtest.Eventually(t, "the Service has an address",
		ccmtest.ServiceAddress(c.Client, "default", "web"))
	balancer, ok := cloud.LoadBalancer("default/web")
	if !ok || len(balancer.Ingress) != 1 || balancer.Ingress[0] != address ||
		len(balancer.Ports) != 2 {
		t.Errorf("the Service has %s, the cloud has %+v", address, balancer)
	}

	if err := c.Client.CoreV1().Services("default").Delete(t.Context(), "web",
		deleteNow); err != nil {
		t.Fatal(err)
	}
	ccmtest.Eventually(t, "the Service is gone",
		ccmtest.Gone(c.Client.CoreV1().Services("default").Get, "web"))
	if balancer, ok := cloud.LoadBalancer("default/web"); ok {
		t.Errorf("the Service is gone, and its load balancer is left: %+v", balancer)
	}
	c.VerifyNoLeaks()
}

// witness runs another CCM with its own cloud and waits until it has acted on the node. Another CCM
// had the same reason to act, and as much time.
func witness(t *testing.T, node string) {
	t.Helper()
	other := ccmtest.StartManager(t, cluster, cloudWith(t, node))
	ccmtest.Eventually(t, "the node is initialized", ccmtest.Initialized(other.Client, node))
	ccmtest.Eventually(t, "the node has an address",
		ccmtest.NodeAddress(other.Client, node, corev1.NodeInternalIP))
	other.Stop()
}

func TestLeadershipLost_NoCallIsMadeUntilItIsWonAgain(t *testing.T) {
	cloud := cloudWith(t, "node-a", "node-b", "node-c")
	app := ccmtest.StartApp(t, cluster, cloud)
	ccmtest.CreateNode(t, app.Client, ccmtest.TaintedNode("node-a"))
	ccmtest.Eventually(t, "the node is initialized", ccmtest.Initialized(app.Client, "node-a"))

	app.Elector.Lose(errors.New("a network partition"))
	release := app.Elector.WaitReleased(t)
	if !release.Drained || !errors.Is(release.Err, ccm.ErrLeadershipLost) {
		t.Errorf("the term ended with %+v, want it drained and lost", release)
	}
	ccmtest.Eventually(t, "the Manager is a standby", ccmtest.State(app.Manager, ccm.StateStandby))
	cloud.ResetCalls()
	// A request that was in flight when leadership was lost was canceled, and may be recorded only
	// now.
	over := time.Now()
	ccmtest.CreateNode(t, app.Client, ccmtest.TaintedNode("node-b"))
	witness(t, "node-b")
	if calls := cloud.Calls(); len(calls) > 0 {
		t.Errorf("the cloud was called without leadership: %+v", calls)
	}
	requests, err := cluster.Audit().All(controlplane.ByUser(app.User()),
		controlplane.ReceivedAfter(over))
	if err != nil {
		t.Fatal(err)
	}
	if len(requests) > 0 {
		t.Errorf("the API server was called without leadership: %v", requests)
	}

	app.Elector.Lead()
	if status := app.WaitReady(); status.Term != 2 {
		t.Errorf("term %d, want 2", status.Term)
	}
	ccmtest.CreateNode(t, app.Client, ccmtest.TaintedNode("node-c"))
	ccmtest.Eventually(t, "the node is initialized", ccmtest.Initialized(app.Client, "node-c"))
	if calls := cloud.Calls(fake.CallFilter{Caller: app.Caller(1)}.Matches); len(calls) > 0 {
		t.Errorf("the first term called the cloud after its end: %+v", calls)
	}
	if calls := cloud.Calls(fake.CallFilter{Caller: app.Caller(2), Object: "node-c"}.Matches); len(
		calls) == 0 {
		t.Error("the second term did not call the cloud for node-c")
	}
	app.VerifyNoLeaks()
}
