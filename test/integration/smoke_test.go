package integration_test

import (
	"testing"

	"github.com/fxccm/fxccm/ccm/ccmtest"
)

func TestAll_NodeIsInitialisedServiceGetsAddressRouteAppears(t *testing.T) {
	cloud := newCloud(t, []string{"n1"})
	run(t, cloud)
	ccmtest.CreateNode(t, shared.Admin, ccmtest.TaintedNode("n1", ccmtest.NodePodCIDRs("10.244.1.0/24")))
	ccmtest.WaitNodeInitialized(t, shared.Admin, "n1")
	ccmtest.WaitRoute(t, cloud, "n1", "10.244.1.0/24")
	ccmtest.CreateService(t, shared.Admin, ccmtest.LoadBalancerService("web"))
	ccmtest.WaitServiceAddress(t, shared.Admin, "default", "web")
}
