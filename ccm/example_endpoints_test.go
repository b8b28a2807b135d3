package ccm_test

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	cloudprovider "k8s.io/cloud-provider"

	"github.com/fxccm/fxccm/ccm"
)

// podBalancers forward to the pods of the Services that ask for it, and to nodes otherwise.
type podBalancers struct{ cloudprovider.LoadBalancer }

var _ ccm.EndpointBalancer = podBalancers{}

// WantsEndpoints implements ccm.EndpointBalancer.
func (podBalancers) WantsEndpoints(service *corev1.Service) bool {
	return service.Annotations["example.com/to-pods"] == "true"
}

// EnsureEndpointLoadBalancer implements ccm.EndpointBalancer.
func (b podBalancers) EnsureEndpointLoadBalancer(
	ctx context.Context, clusterName string, service *corev1.Service, nodes []*corev1.Node,
	endpoints []*discoveryv1.EndpointSlice,
) (*corev1.LoadBalancerStatus, error) {
	err := b.UpdateEndpointLoadBalancer(ctx, clusterName, service, nodes, endpoints)
	return &corev1.LoadBalancerStatus{
		Ingress: []corev1.LoadBalancerIngress{{IP: "203.0.113.7"}},
	}, err
}

// UpdateEndpointLoadBalancer implements ccm.EndpointBalancer.
func (podBalancers) UpdateEndpointLoadBalancer(
	_ context.Context, _ string, service *corev1.Service, _ []*corev1.Node,
	endpoints []*discoveryv1.EndpointSlice,
) error {
	for _, slice := range endpoints {
		for _, endpoint := range slice.Endpoints {
			// A real provider also checks that the addresses are those of pods.
			fmt.Println(service.Name, "forwards to", endpoint.Addresses)
		}
	}
	return nil
}

// The service-lb-controller calls these methods of the load balancers of a provider.
func ExampleEndpointBalancer() {
	service := &corev1.Service{ObjectMeta: metav1.ObjectMeta{
		Name: "web", Annotations: map[string]string{"example.com/to-pods": "true"},
	}}
	var balancers ccm.EndpointBalancer = podBalancers{}
	if !balancers.WantsEndpoints(service) {
		return
	}
	status, err := balancers.EnsureEndpointLoadBalancer(context.Background(), "kubernetes", service,
		nil, []*discoveryv1.EndpointSlice{{
			Endpoints: []discoveryv1.Endpoint{{Addresses: []string{"10.244.1.1"}}},
		}})
	fmt.Println(status.Ingress[0].IP, err)
	// Output:
	// web forwards to [10.244.1.1]
	// 203.0.113.7 <nil>
}
