package ccmtest_test

import (
	"fmt"
	"testing"

	"github.com/fxccm/fxccm/ccm/ccmtest"
	"github.com/fxccm/fxccm/ccm/ccmtest/controlplane"
	"github.com/fxccm/fxccm/provider/fake"
)

// In a real test, testNodes is TestNodes and takes a *testing.T.
func testNodes(t testing.TB) {
	cp := controlplane.ForTest(t)
	cloud := fake.New()
	if err := cloud.AddInstances(fake.Instance{Name: "node-1", Zone: "zone-b"}); err != nil {
		t.Fatal(err)
	}

	app := ccmtest.StartApp(t, cp, cloud)
	ccmtest.CreateNode(t, app.Client, ccmtest.TaintedNode("node-1"))
	node := ccmtest.Eventually(t, "the node is initialized",
		ccmtest.Initialized(app.Client, "node-1"))
	fmt.Println(node.Spec.ProviderID, node.Labels["topology.kubernetes.io/zone"])

	app.VerifyNoLeaks()
}

// The first test of a host: a registered node is initialized with data of the cloud.
func Example() {
	asTest(testNodes)
	// Output: fake://region-1/node-1 zone-b
}
