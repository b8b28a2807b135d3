package servicelb

import (
	"maps"
	"slices"
	"testing"

	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	servicehelper "k8s.io/cloud-provider/service/helpers"
	"k8s.io/utils/ptr"

	"github.com/fxccm/fxccm/ccm/ccmtest/controlplane"
	"github.com/fxccm/fxccm/internal/rights"
)

// The patches do what they promise on a real API server, which knows more rules than one in memory.
func TestPatches_RealAPIServer_ChangeOnlyWhatTheyName(t *testing.T) {
	client, err := kubernetes.NewForConfig(controlplane.ForTest(t).RESTConfig())
	if err != nil {
		t.Fatal(err)
	}
	c := &Controller{
		Params:  Params{Client: client.CoreV1()},
		missing: rights.NewMissing(func(string, error) {}),
	}
	services := client.CoreV1().Services("default")
	fresh, err := services.Create(t.Context(), &v1.Service{
		ObjectMeta: metav1.ObjectMeta{
			Name: "web", Finalizers: []string{"example.com/mine"},
			Annotations: map[string]string{"a": "b"},
		},
		Spec: v1.ServiceSpec{
			Type: v1.ServiceTypeLoadBalancer, LoadBalancerClass: ptr.To("example.com/ours"),
			Ports: []v1.ServicePort{{Port: 80}},
		},
	}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}

	claimed, err := c.claim(t.Context(), fresh)
	if err != nil || !isClaimed(claimed) || claimed.Annotations["a"] != "b" ||
		!slices.Contains(claimed.Finalizers, "example.com/mine") {
		t.Fatalf("claimed: %v, %+v", err, claimed)
	}
	if again, err := c.claim(t.Context(), claimed); err != nil || again != claimed {
		t.Errorf("a claimed Service is patched again: %v", err)
	}

	for _, address := range []string{"192.0.2.1", "192.0.2.2", ""} {
		status := &v1.LoadBalancerStatus{}
		if address != "" {
			status.Ingress = []v1.LoadBalancerIngress{{
				IP: address, Ports: []v1.PortStatus{{Port: 80, Protocol: v1.ProtocolTCP}},
			}}
		}
		published, err := c.publish(t.Context(), claimed, status)
		if err != nil || !sameStatus(&published.Status.LoadBalancer, status) {
			t.Fatalf("published: %v, %+v", err, published)
		}
		if claimed, err = services.Get(t.Context(), "web", metav1.GetOptions{}); err != nil {
			t.Fatal(err)
		}
		if !sameStatus(&claimed.Status.LoadBalancer, status) {
			t.Errorf("published %+v, and it is %+v", status, claimed.Status.LoadBalancer)
		}
	}

	if _, err := c.claim(t.Context(), fresh); !apierrors.IsConflict(err) {
		t.Errorf("a Service that has changed is claimed: %v", err)
	}
	if err := c.release(t.Context(), fresh, nil); !apierrors.IsConflict(err) {
		t.Errorf("a Service that has changed is released: %v", err)
	}
	another := claimed.DeepCopy()
	another.UID = types.UID("another")
	if _, err := c.patch(t.Context(), another, map[string]any{}, nil); !isOfAnother(err) {
		t.Errorf("another Service of the name is patched: %v", err)
	}
	if err := c.release(t.Context(), claimed, nil); err != nil {
		t.Fatal(err)
	}
	released, err := services.Get(t.Context(), "web", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if servicehelper.HasLBFinalizer(released) ||
		!slices.Equal(released.Finalizers, []string{"example.com/mine"}) ||
		!maps.Equal(released.Annotations, map[string]string{"a": "b"}) {
		t.Errorf("released: %+v", released.ObjectMeta)
	}
}
