package openstack_test

import (
	"fmt"
	"slices"
	"testing"

	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/util/retry"

	"github.com/fxccm/fxccm/ccm/ccmtest"
	"github.com/fxccm/fxccm/internal/waittest"
	"github.com/fxccm/fxccm/provider/openstack/cloudconf"
)

// setPods sets the endpoints of the EndpointSlice.
func setPods(slice *discoveryv1.EndpointSlice, addresses ...string) {
	slice.Endpoints = nil
	for _, address := range addresses {
		slice.Endpoints = append(slice.Endpoints,
			discoveryv1.Endpoint{Addresses: []string{address}})
	}
}

// waitMembers waits until the pools of all load balancers have these members.
func (s *site) waitMembers(want ...string) {
	s.t.Helper()
	waittest.Until(s.t, "the pods are members", func() error {
		var got []string
		for _, lb := range s.LoadBalancers() {
			for _, pool := range lb.Pools {
				for _, m := range pool.Members {
					got = append(got, fmt.Sprintf("%s:%d", m.Address, m.ProtocolPort))
				}
			}
		}
		slices.Sort(got)
		if !slices.Equal(got, want) {
			return fmt.Errorf("members %v, want %v", got, want)
		}
		return nil
	})
}

func TestLoadBalancer_ToPods_FollowsTheEndpointSlices(t *testing.T) {
	t.Parallel()
	s := newBalancedSite(t)
	client := shared.Client(t)
	s.addNodes(client, "pods-1")
	r := ready(t, s, balancing(s, func(c *cloudconf.LoadBalancer) {
		c.PodRanges = []string{"10.244.0.0/16"}
	}))
	service := createService(t, client, "pods", ccmtest.ServicePorts(80),
		annotated(annotation+"member-target", "pod"))
	endpoints := client.DiscoveryV1().EndpointSlices(metav1.NamespaceDefault)
	slice := &discoveryv1.EndpointSlice{
		ObjectMeta: metav1.ObjectMeta{
			Name: "pods-1", Labels: map[string]string{discoveryv1.LabelServiceName: "pods"},
		},
		AddressType: discoveryv1.AddressTypeIPv4,
		Ports: []discoveryv1.EndpointPort{{
			Name: new(service.Spec.Ports[0].Name), Port: new(int32(8080)),
		}},
	}
	setPods(slice, "10.244.1.1", "10.244.1.2")
	if _, err := endpoints.Create(t.Context(), slice, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	waitServed(t, client, "pods")
	s.waitMembers("10.244.1.1:8080", "10.244.1.2:8080")

	if err := retry.RetryOnConflict(retry.DefaultRetry, func() error {
		slice, err := endpoints.Get(t.Context(), "pods-1", metav1.GetOptions{})
		if err != nil {
			return err
		}
		setPods(slice, "10.244.1.2", "10.244.1.3")
		_, err = endpoints.Update(t.Context(), slice, metav1.UpdateOptions{})
		return err
	}); err != nil {
		t.Fatal(err)
	}
	s.waitMembers("10.244.1.2:8080", "10.244.1.3:8080")
	deleteService(t, client, "pods")
	s.wantNothingLeft()
	if err := endpoints.Delete(t.Context(), "pods-1", metav1.DeleteOptions{}); err != nil {
		t.Error(err)
	}
	r.unbroken()
}
