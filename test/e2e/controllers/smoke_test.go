package controllers_test

import (
	"testing"

	"github.com/fxccm/fxccm/ccm/ccmtest"
)

func TestAll_NodeIsInitializedServiceGetsAddressRouteAppears(t *testing.T) {
	t.Parallel()
	cloud := newCloud(t, []string{"n1"})
	run(t, cloud)
	ccmtest.CreateNode(t, shared.Client(t),
		ccmtest.TaintedNode("n1", ccmtest.NodePodCIDRs("10.244.1.0/24")))
	ccmtest.Eventually(t, "the node is initialized", ccmtest.Initialized(shared.Client(t), "n1"))
	ccmtest.Eventually(t, "the route exists", ccmtest.Routed(cloud, "n1", "10.244.1.0/24"))
	ccmtest.CreateService(t, shared.Client(t), ccmtest.LoadBalancerService("web"))
	ccmtest.Eventually(t, "the Service has an address",
		ccmtest.ServiceAddress(shared.Client(t), "default", "web"))
}
