package thirdparty_test

import (
	"slices"
	"testing"

	"go.uber.org/fx"
	"go.uber.org/fx/fxtest"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/fxccm/fxccm/ccm"
	"github.com/fxccm/fxccm/ccm/ccmtest"
	"github.com/fxccm/fxccm/hosting/registered"
	"github.com/fxccm/fxccm/test/thirdparty/awsstub"
)

// A host needs only an import that registers the provider, and the provider's name.
func TestModule_InAnFxApp_ANewNodeGetsTheCloudsMetadata(t *testing.T) {
	cloud := newCloud(t)
	signWith(t, "KEY")
	instance := launch(cloud, 1)
	cfg := ccmtest.Config()
	cfg.CloudProvider.Name = "aws"
	cfg.CloudProvider.ConfigFile = t.TempDir() + "/cloud.conf"
	cfg.Controllers = []string{"*", "-node-route-controller"}
	writeFile(t, cfg.CloudProvider.ConfigFile, cloud.Config(awsstub.ClusterID))

	app := fxtest.New(t, ccm.Module, registered.Module("aws"), fx.NopLogger,
		fx.Supply(cfg, shared.RESTConfig()))
	app.RequireStart()
	defer app.RequireStop()
	newNode(t, instance)
	node := waitInitialized(t, instance)

	if node.Spec.ProviderID != providerID(instance) {
		t.Errorf("the provider ID is %q, want %q", node.Spec.ProviderID, providerID(instance))
	}
	for label, want := range map[string]string{
		corev1.LabelInstanceTypeStable: "m5.large",
		corev1.LabelTopologyZone:       "us-east-1b",
		corev1.LabelTopologyRegion:     "us-east-1",
		"topology.k8s.aws/zone-id":     "use1-az6", // the provider's own addition
	} {
		if got := node.Labels[label]; got != want {
			t.Errorf("the label %s is %q, want %q", label, got, want)
		}
	}
	for kind, want := range map[corev1.NodeAddressType]string{
		corev1.NodeInternalIP:  "10.0.0.1",
		corev1.NodeExternalIP:  "192.0.2.1",
		corev1.NodeInternalDNS: "ip-10-0-0-1.ec2.internal",
	} {
		if got := ccmtest.Eventually(t, "the node has an address",
			ccmtest.NodeAddress(shared.Admin, instance.PrivateDNSName, kind)); got != want {
			t.Errorf("the address of type %s is %q, want %q", kind, got, want)
		}
	}
}

func TestNode_WhenItsInstanceIsTerminated_IsDeleted_AndOthersStay(t *testing.T) {
	cloud := newCloud(t)
	signWith(t, "KEY")
	stays, goes := launch(cloud, 1), launch(cloud, 2)
	start(t, cloud)
	for _, i := range []awsstub.Instance{stays, goes} {
		// The lifecycle controller asks only about nodes that are not ready.
		newNode(t, i, ccmtest.NodeNotReady())
		waitInitialized(t, i)
	}

	cloud.Terminate(goes.ID)
	ccmtest.Eventually(t, "the node is gone",
		ccmtest.Gone(shared.Admin.CoreV1().Nodes().Get, goes.PrivateDNSName))

	if node := waitInitialized(t, stays); node.DeletionTimestamp != nil {
		t.Errorf("Node %s is being deleted although its instance runs", node.Name)
	}
}

func TestService_HasALoadBalancerWithTheNodes_UntilItIsDeleted(t *testing.T) {
	cloud := newCloud(t)
	signWith(t, "KEY")
	one, two := launch(cloud, 1), launch(cloud, 2)
	knownNode(t, one)
	knownNode(t, two)
	start(t, cloud)

	loadBalancerService(t, "web")
	balancer := waitBalancer(t, cloud, "web", one.ID, two.ID)
	if address := ccmtest.Eventually(t, "the Service has an address",
		ccmtest.ServiceAddress(shared.Admin, "default", "web")); address != balancer.DNSName {
		t.Errorf("the Service's address is %q, want that of its load balancer, %q", address,
			balancer.DNSName)
	}
	if len(balancer.Listeners) != 1 || balancer.Listeners[0].Port != 80 ||
		!slices.Equal(balancer.Subnets, []string{"subnet-1"}) {
		t.Errorf(
			"the load balancer is %+v, want port 80 and the subnet of the annotation", balancer)
	}

	if err := shared.Admin.CoreV1().Services("default").Delete(t.Context(), "web",
		metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	ccmtest.Eventually(t, "the Service is gone",
		ccmtest.Gone(shared.Admin.CoreV1().Services("default").Get, "web"))
	if left := cloud.Balancers(); len(left) > 0 {
		t.Errorf("after the deletion of the Service the cloud has %v", left)
	}
}

// The Manager has seen the node when the other load balancer has it.
func TestService_NodeJoinsWhileTheCloudBuilds_IsAMemberWithoutAWarning(t *testing.T) {
	cloud := newCloud(t)
	signWith(t, "KEY")
	one, two := launch(cloud, 1), launch(cloud, 2)
	knownNode(t, one)
	start(t, cloud)
	loadBalancerService(t, "other")
	waitBalancer(t, cloud, "other", one.ID)

	release := cloud.Hold("CreateLoadBalancer")
	defer release()
	loadBalancerService(t, "joined")
	waitRequests(t, cloud,
		func(all []awsstub.Request) bool { return count(all, creating) == 2 })
	knownNode(t, two)
	waitBalancer(t, cloud, "other", one.ID, two.ID)
	release()
	waitBalancer(t, cloud, "joined", one.ID, two.ID)
	ccmtest.Eventually(t, "the Service has an address",
		ccmtest.ServiceAddress(shared.Admin, "default", "joined"))
	events, err := shared.Admin.CoreV1().Events("default").List(t.Context(), metav1.ListOptions{
		FieldSelector: "involvedObject.name=joined,type=" + corev1.EventTypeWarning,
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, event := range events.Items {
		t.Errorf("Warning %s: %s", event.Reason, event.Message)
	}

	for _, name := range []string{"joined", "other"} {
		if err := shared.Admin.CoreV1().Services("default").Delete(t.Context(), name,
			metav1.DeleteOptions{}); err != nil {
			t.Fatal(err)
		}
		ccmtest.Eventually(t, "the Service is gone",
			ccmtest.Gone(shared.Admin.CoreV1().Services("default").Get, name))
	}
}
