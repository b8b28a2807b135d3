package openstack_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/fxccm/fxccm/ccm/ccmtest"
	"github.com/fxccm/fxccm/ccm/status"
	"github.com/fxccm/fxccm/provider/openstack/openstacktest"
)

func TestInit_Node_GetsTheDataOfTheCloud(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	s.dualStack()
	s.AddFlavor(openstacktest.Flavor{Name: "m1.large", VCPUs: 4, RAM: 8192})
	m := s.addServer("init-1", func(i *openstacktest.Server) {
		i.Flavor, i.AvailabilityZone = "m1.large", "zone one"
	})
	s.AddFloatingIP(openstacktest.FloatingIP{
		NetworkID: s.public, PortID: m.port,
		FixedAddress: s.address(m, 4), Address: "192.0.2.7",
	})
	r := ready(t, s)

	tainted(t, m.name)
	node := initialized(t, m.name)
	if node.Spec.ProviderID != m.providerID() {
		t.Errorf("provider ID %q, want %q", node.Spec.ProviderID, m.providerID())
	}
	for label, want := range map[string]string{
		corev1.LabelInstanceTypeStable: "m1.large", corev1.LabelTopologyZone: "zone-one",
		corev1.LabelTopologyRegion: "RegionOne",
	} {
		if got := node.Labels[label]; got != want {
			t.Errorf("label %s is %q, want %q", label, got, want)
		}
	}
	event := waitEvent(t, shared.Client(t), node, "InvalidLabelChanged")
	if !strings.Contains(event.Message, `"zone-one", because "zone one"`) {
		t.Errorf("the event about the zone is %q", event.Message)
	}
	ccmtest.Eventually(t, "the node has an address",
		ccmtest.NodeAddress(shared.Client(t), m.name, corev1.NodeExternalIP))
	want := []corev1.NodeAddress{
		{Type: corev1.NodeInternalIP, Address: s.address(m, 4)},
		{Type: corev1.NodeInternalIP, Address: s.address(m, 6)},
		{Type: corev1.NodeExternalIP, Address: "192.0.2.7"},
		{Type: corev1.NodeHostName, Address: m.name},
	}
	if got := getNode(t, m.name).Status.Addresses; !slices.Equal(got, want) {
		t.Errorf("addresses are\n%v, want\n%v", got, want)
	}
	if made := s.since(0, changes); len(made) > 0 {
		t.Errorf("OpenStack was changed:\n%s", describe(made))
	}
	r.unbroken()
}

// A kubelet may update its own Node. It cannot choose another server after the initialization.
func TestNode_ProviderIDIsSet_APIServerRefusesToChangeIt(t *testing.T) {
	t.Parallel()
	const name, id = "fixed-1", "openstack:///own"
	client := shared.Client(t)
	ccmtest.CreateNode(t, client, ccmtest.ReadyNode(name, ccmtest.NodeProviderID(id)))
	for _, other := range []string{`"openstack:///another"`, `""`, "null"} {
		patch := []byte(`{"spec":{"providerID":` + other + `}}`)
		_, err := client.CoreV1().Nodes().Patch(t.Context(), name, types.MergePatchType, patch,
			metav1.PatchOptions{})
		if !apierrors.IsInvalid(err) || !strings.Contains(err.Error(), "providerID") {
			t.Errorf("a patch to %s: %v, want a refusal that names providerID", other, err)
		}
	}
	if got := getNode(t, name).Spec.ProviderID; got != id {
		t.Errorf("the provider ID is %q, want %q", got, id)
	}
}

func TestInit_ServerIsResized_LabelFollows(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	s.AddFlavor(openstacktest.Flavor{Name: "m1.small", VCPUs: 1, RAM: 2048})
	s.AddFlavor(openstacktest.Flavor{Name: "m1.large", VCPUs: 4, RAM: 8192})
	m := s.addServer("resized-1",
		func(i *openstacktest.Server) { i.Flavor = "m1.small" })
	r := ready(t, s, refreshed, func(l *launch) { l.Config.Node.UpdateLabels = true })
	tainted(t, m.name)
	if got := initialized(t, m.name).Labels[corev1.LabelInstanceTypeStable]; got != "m1.small" {
		t.Errorf("the type of the new node is %q", got)
	}
	s.must(s.UpdateServer(m.id, func(i *openstacktest.Server) { i.Flavor = "m1.large" }))
	ccmtest.Eventually(t, "the label is the new flavor",
		ccmtest.Object(shared.Client(t).CoreV1().Nodes().Get, m.name, func(n *corev1.Node) error {
			if got := n.Labels[corev1.LabelInstanceTypeStable]; got != "m1.large" {
				return fmt.Errorf("it is %q", got)
			}
			return nil
		}))
	r.unbroken()
}

func TestInit_NodeWithoutAServer_HasAnEventAndIsInTheStatusUntilItIsInitialized(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	r := ready(t, s)
	const name = "init-unmatched"
	node := tainted(t, name)
	waits := func(reason string) func(status.Manager) bool {
		return func(current status.Manager) bool {
			return slices.ContainsFunc(current.Nodes, func(n status.Node) bool {
				return n.Name == name && n.Reason == reason && n.Message != ""
			})
		}
	}
	ccmtest.Eventually(t, "the node waits", ccmtest.Status(r.Manager, waits("ServerNotFound")))
	event := waitEvent(t, shared.Client(t), node, "ServerNotFound")
	if !hasTexts(event.Message, []string{"no server matches the node", "--provider-id"}) {
		t.Errorf("the event lacks the cause or the advice: %s", event.Message)
	}
	s.addServer(name)
	initialized(t, name)
	ccmtest.Eventually(t, "no node waits",
		ccmtest.Status(r.Manager,
			func(current status.Manager) bool { return len(current.Nodes) == 0 }))
}
