package conformance

import (
	"fmt"

	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/fxccm/fxccm/ccm"
	"github.com/fxccm/fxccm/ccm/ccmtest"
	"github.com/fxccm/fxccm/internal/waittest"
)

// EndpointForwarder is a [Cloud] whose provider is a ccm.EndpointBalancer.
type EndpointForwarder interface {
	Cloud

	// Endpoints are two addresses of pods, and the annotations of a Service whose load balancer
	// forwards to pods.
	Endpoints() (first, second string, annotations map[string]string)

	// ForwardsTo reports whether a load balancer forwards to the address.
	ForwardsTo(address string) bool
}

// endpoints checks that a load balancer follows the endpoints of its Service.
func (x *trial) endpoints() string {
	cloud, ok := x.suite.NewCloud(x).(EndpointForwarder)
	if !ok {
		x.Skip("the cloud is not an EndpointForwarder")
	}
	m := x.start(cloud)
	m.WaitReady()
	x.join(m)
	balancers, _ := m.provider().LoadBalancer()
	if _, ok := balancers.(ccm.EndpointBalancer); !ok {
		x.Fatal("the load balancers of the provider are no ccm.EndpointBalancer")
	}
	first, second, annotations := cloud.Endpoints()
	service := ccmtest.LoadBalancerService(x.name())
	service.Annotations = annotations
	service = ccmtest.CreateService(x, x.client, service)
	port := service.Spec.Ports[0]
	slice := &discoveryv1.EndpointSlice{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: service.Namespace, Name: service.Name,
			Labels: map[string]string{discoveryv1.LabelServiceName: service.Name},
		},
		AddressType: discoveryv1.AddressTypeIPv4,
		Endpoints:   []discoveryv1.Endpoint{{Addresses: []string{first}}},
		Ports: []discoveryv1.EndpointPort{{
			Name: &port.Name, Protocol: &port.Protocol, Port: new(int32(8080)),
		}},
	}
	slices := x.client.DiscoveryV1().EndpointSlices(service.Namespace)
	slice, err := slices.Create(x.Context(), slice, metav1.CreateOptions{})
	if err != nil {
		x.Fatal(err)
	}
	waittest.Until(x, "the load balancer forwards to the first endpoint", func() error {
		return forwards(cloud, first, second)
	})
	slice.Endpoints[0].Addresses = []string{second}
	if _, err := slices.Update(x.Context(), slice, metav1.UpdateOptions{}); err != nil {
		x.Fatal(err)
	}
	waittest.Until(x, "the load balancer forwards to the second endpoint alone", func() error {
		return forwards(cloud, second, first)
	})
	if err := slices.Delete(x.Context(), slice.Name, metav1.DeleteOptions{}); err != nil {
		x.Fatal(err)
	}
	if err := x.client.CoreV1().Services(service.Namespace).Delete(x.Context(), service.Name,
		metav1.DeleteOptions{}); err != nil {
		x.Fatal(err)
	}
	ccmtest.Eventually(x, "the Service is gone",
		ccmtest.Gone(x.client.CoreV1().Services(service.Namespace).Get, service.Name))
	return "the load balancer follows them"
}

func forwards(cloud EndpointForwarder, to, notTo string) error {
	switch {
	case !cloud.ForwardsTo(to):
		return fmt.Errorf("no load balancer forwards to %s", to)
	case cloud.ForwardsTo(notTo):
		return fmt.Errorf("a load balancer forwards to %s", notTo)
	}
	return nil
}
