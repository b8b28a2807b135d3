package nodes

import (
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"testing"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/cloud-provider/api"

	"github.com/fxccm/fxccm/ccm/ccmtest/controlplane"
	"github.com/fxccm/fxccm/internal/rights"
)

func newWriter(client kubernetes.Interface) writer {
	return writer{client.CoreV1(), rights.NewMissing(func(string, error) {})}
}

// The patches do what they promise on a real API server, which knows more rules than one in memory.
func TestPatches_RealAPIServer_ChangeOnlyWhatTheyName(t *testing.T) {
	client, err := kubernetes.NewForConfig(controlplane.ForTest(t).RESTConfig())
	if err != nil {
		t.Fatal(err)
	}
	w, all := newWriter(client), client.CoreV1().Nodes()
	get := func() *v1.Node {
		t.Helper()
		node, err := all.Get(t.Context(), "node-1", metav1.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		return node
	}
	since := metav1.Now()
	if _, err := all.Create(t.Context(), &v1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: "node-1"},
		Spec: v1.NodeSpec{PodCIDR: "10.0.0.0/24", Taints: []v1.Taint{
			{Key: api.TaintExternalCloudProvider, Effect: v1.TaintEffectNoSchedule},
			{Key: "example.com/mine", Effect: v1.TaintEffectNoExecute, TimeAdded: &since},
			{Key: api.TaintExternalCloudProvider, Effect: v1.TaintEffectNoExecute},
		}},
	}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	server := get()
	// An older program decodes a node without the fields that its types lack.
	older := server.DeepCopy()
	older.Spec.PodCIDR, older.Spec.PodCIDRs = "", nil
	for i := range older.Spec.Taints {
		older.Spec.Taints[i].TimeAdded = nil
	}
	wanted := change{
		providerID: "test://1", taint: true,
		labels: map[string]string{v1.LabelTopologyZone: "zone-1"},
		addresses: []v1.NodeAddress{
			{Type: v1.NodeInternalIP, Address: "10.0.0.1"},
			{Type: v1.NodeInternalIP, Address: "10.0.0.2"},
		},
	}
	another := older.DeepCopy()
	another.UID = types.UID("another")
	if err := w.write(t.Context(), another, wanted); !errors.Is(err, errStale) {
		t.Errorf("another node of the name is patched: %v", err)
	}
	if err := w.write(t.Context(), older, wanted); err != nil {
		t.Fatal(err)
	}
	if err := w.write(t.Context(), older, wanted); !errors.Is(err, errStale) {
		t.Errorf("the provider ID is written again: %v", err)
	}
	twice := change{addresses: []v1.NodeAddress{wanted.addresses[0], wanted.addresses[0]}}
	if err := w.write(t.Context(), older, twice); !isRefusal(err) {
		t.Errorf("an address is written twice: %v", err)
	}
	got := get()
	server.Spec.ProviderID = "test://1"
	server.Spec.Taints = server.Spec.Taints[1:2]
	if a, b := text(t, got.Spec), text(t, server.Spec); a != b {
		t.Errorf("the spec is %s, want %s", a, b)
	}
	if !reflect.DeepEqual(got.Status.Addresses, wanted.addresses) ||
		got.Labels[v1.LabelTopologyZone] != "zone-1" {
		t.Errorf("addresses %v, labels %v", got.Status.Addresses, got.Labels)
	}

	if err := w.write(t.Context(), older, change{taint: true}); !errors.Is(err, errStale) {
		t.Errorf("taints that have changed are patched: %v", err)
	}
	if err := w.patch(t.Context(), got, "", withTaint(got, shutdown)...); err != nil {
		t.Fatal(err)
	}
	got = get()
	if err := w.patch(t.Context(), got, "", withoutTaints(got, isShutdownTaint)...); err != nil {
		t.Fatal(err)
	}
	if a, b := text(t, get().Spec), text(t, server.Spec); a != b {
		t.Errorf("the spec is %s, want %s", a, b)
	}
	err = w.write(t.Context(), got, change{labels: map[string]string{"zone": "zone 1"}})
	if !isRefusal(err) {
		t.Errorf("an invalid label is no refusal: %v", err)
	}

	bare, err := all.Create(t.Context(), &v1.Node{ObjectMeta: metav1.ObjectMeta{Name: "node-2"}},
		metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	bare.Labels = nil
	labels := change{labels: map[string]string{"a": "b"}}
	if err := w.write(t.Context(), bare, labels); err != nil {
		t.Errorf("a node without labels: %v", err)
	}
	// Admission taints new nodes.
	if _, err := all.Patch(t.Context(), "node-2", types.MergePatchType,
		[]byte(`{"spec":{"taints":null}}`), metav1.PatchOptions{}); err != nil {
		t.Fatal(err)
	}
	bare.Spec.Taints = nil
	if err := w.patch(t.Context(), bare, "", withTaint(bare, shutdown)...); err != nil {
		t.Errorf("a node without taints: %v", err)
	}
	err = w.patch(t.Context(), bare, "", withTaint(bare, shutdown)...)
	if !errors.Is(err, errStale) {
		t.Errorf("new taints of another client are overwritten: %v", err)
	}
}

func TestPatches_RealAPIServer_RemoveOnlyTheConditionOfRoutes(t *testing.T) {
	client, err := kubernetes.NewForConfig(controlplane.ForTest(t).RESTConfig())
	if err != nil {
		t.Fatal(err)
	}
	w, all := newWriter(client), client.CoreV1().Nodes()
	past := metav1.Unix(1_700_000_000, 0)
	noRoute := v1.NodeCondition{
		Type: v1.NodeNetworkUnavailable, Status: v1.ConditionTrue, Reason: "NoRouteCreated",
		LastTransitionTime: past,
	}
	ready := v1.NodeCondition{
		Type: v1.NodeReady, Status: v1.ConditionTrue, Reason: "KubeletReady",
	}
	node, err := all.Create(t.Context(), &v1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: "routeless"},
		Status:     v1.NodeStatus{Conditions: []v1.NodeCondition{noRoute, ready}},
	}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if err := w.write(t.Context(), node, change{abandoned: true}); err != nil {
		t.Fatal(err)
	}
	got, err := all.Get(t.Context(), node.Name, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if len(got.Status.Conditions) != 1 || got.Status.Conditions[0].Type != v1.NodeReady {
		t.Errorf("the conditions are %v, want the node's own alone", got.Status.Conditions)
	}
	// A route controller elsewhere writes the condition again, before the informer shows this.
	later := noRoute
	later.LastTransitionTime = metav1.Unix(past.Unix()+1, 0)
	got.Status.Conditions = []v1.NodeCondition{later, ready}
	if _, err := all.UpdateStatus(t.Context(), got, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	err = w.write(t.Context(), node, change{abandoned: true})
	if !errors.Is(err, errStale) {
		t.Errorf("a condition that was written meanwhile is removed: %v", err)
	}
}

func isRefusal(err error) bool {
	_, is := errors.AsType[refusal](err)
	return is
}

func text(t *testing.T, value any) string {
	t.Helper()
	data, err := json.Marshal(value)
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

func TestLabelValue_AnyText_IsValid(t *testing.T) {
	long := fmt.Sprintf("%064d", 0)
	for in, want := range map[string]string{
		"m1.large": "m1.large", "": "", "m1 large (gpu)": "m1-large-gpu", "--a__": "a",
		"zürich": "z-rich", "((": "", long: long[:63], long[:62] + "./x": long[:62],
	} {
		if got := labelValue(in); got != want {
			t.Errorf("%q becomes %q, want %q", in, got, want)
		}
	}
}
