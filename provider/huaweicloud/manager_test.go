package huaweicloud

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/fxccm/fxccm/ccm"
	"github.com/fxccm/fxccm/ccm/ccmtest"
	"github.com/fxccm/fxccm/ccm/ccmtest/controlplane"
	"github.com/fxccm/fxccm/internal/waittest"
	"github.com/fxccm/fxccm/provider/huaweicloud/internal/stub"
)

// startManager runs a service controller with the provider.
func startManager(t *testing.T, cloud *stub.Cloud) *ccmtest.CCM {
	t.Helper()
	plane, err := controlplane.Start(t.Context(), controlplane.Options{DisableAudit: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := plane.Stop(context.Background()); err != nil {
			t.Error(err)
		}
	})
	app := ccmtest.StartManager(t, plane, nil,
		ccmtest.WithProvider(Provider(WithConfig(Config{
			ECSEndpoint: cloud.URL, ELBEndpoint: cloud.URL, EIPEndpoint: cloud.URL,
			Region: "stub-1", ProjectID: stub.ProjectID, RouterID: stub.VPC,
			SubnetID: stub.Subnet, AccessKeyID: stub.AccessKeyID,
			AccessKeySecret: stub.AccessKeySecret, RemovalTaints: []string{"example.com/leaving"},
		}))),
		ccmtest.WithConfig(func(c *ccm.Config) { c.Controllers = []string{"service"} }))
	app.WaitReady()
	return app
}

func TestManager_NodeGetsATaintOfRemovalTaints_IsNoMemberAnyMore(t *testing.T) {
	cloud := stub.New(t)
	app := startManager(t, cloud)
	nodeJoins(t, app, "node-1", "192.168.1.1")
	nodeJoins(t, app, "node-2", "192.168.1.2")
	service := ccmtest.CreateService(t, app.Client, ccmtest.LoadBalancerService("web"))
	port := service.Spec.Ports[0].NodePort
	first, second := fmt.Sprintf("192.168.1.1:%d", port), fmt.Sprintf("192.168.1.2:%d", port)
	waitMembers(t, cloud, first, second)
	if _, err := app.Client.CoreV1().Nodes().Patch(t.Context(), "node-1",
		types.StrategicMergePatchType,
		[]byte(`{"spec":{"taints":[{"key":"example.com/leaving","effect":"NoSchedule"}]}}`),
		metav1.PatchOptions{}); err != nil {
		t.Fatal(err)
	}
	waitMembers(t, cloud, second)
}

// The provider returns a RetryError while the EIP that the Service names has no address.
func TestManager_LoadBalancerHasNoAddressYet_NodesFollowWithoutAWarning(t *testing.T) {
	cloud := stub.New(t)
	app := startManager(t, cloud)

	nodeJoins(t, app, "node-1", "192.168.1.1")
	eip := cloud.AddPublicIP("")
	service := ccmtest.CreateService(t, app.Client, ccmtest.LoadBalancerService("pending",
		ccmtest.ServiceAnnotation("kubernetes.io/elb.eip-id", eip)))
	port := service.Spec.Ports[0].NodePort
	first, second := fmt.Sprintf("192.168.1.1:%d", port), fmt.Sprintf("192.168.1.2:%d", port)
	waitMembers(t, cloud, first)
	nodeJoins(t, app, "node-2", "192.168.1.2")
	waitMembers(t, cloud, first, second)
	now, err := app.Client.CoreV1().Services(service.Namespace).Get(t.Context(), service.Name,
		metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if got := now.Status.LoadBalancer.Ingress; len(got) > 0 {
		t.Errorf("the Service has the addresses %v before its EIP has one", got)
	}

	cloud.SetPublicIPAddress(eip, "203.0.113.9")
	address := ccmtest.Eventually(t, "the Service has an address",
		ccmtest.ServiceAddress(app.Client, service.Namespace, service.Name))
	if address != "203.0.113.9" {
		t.Errorf("the address is %s", address)
	}
	waittest.Until(t, "an event says that it is ensured, and none that it failed",
		func(ctx context.Context) (err error) {
			list, err := app.Client.CoreV1().Events(service.Namespace).List(ctx,
				metav1.ListOptions{FieldSelector: "involvedObject.uid=" + string(service.UID)})
			if err != nil {
				return err
			}
			err = errors.New("it is missing")
			for _, event := range list.Items {
				switch event.Reason {
				case "SyncLoadBalancerFailed":
					t.Fatalf("a wait is a failure: %s", event.Message)
				case "EnsuredLoadBalancer":
					err = nil
				}
			}
			return err
		})
}

func nodeJoins(t *testing.T, app *ccmtest.CCM, name, address string) {
	t.Helper()
	ccmtest.CreateNode(t, app.Client, ccmtest.ReadyNode(name, func(n *corev1.Node) {
		n.Status.Addresses = append(n.Status.Addresses,
			corev1.NodeAddress{Type: corev1.NodeInternalIP, Address: address})
	}))
}

// waitMembers waits until the only pool has these members.
func waitMembers(t *testing.T, cloud *stub.Cloud, want ...string) {
	t.Helper()
	waittest.Until(t, fmt.Sprintf("the members are %q", want), func() (err error) {
		var got []string
		for _, pool := range cloud.Pools() {
			got = append(got, cloud.Members(pool.Id)...)
		}
		if !slices.Equal(got, want) {
			err = fmt.Errorf("they are %q", got)
		}
		return err
	})
}
