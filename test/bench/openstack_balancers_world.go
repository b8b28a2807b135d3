package main

import (
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/fxccm/fxccm/provider/openstack/openstacktest"
)

// newServices are so many Services with so many ports each.
func newServices(services, ports int) (all []*corev1.Service) {
	for i := range services {
		all = append(all, newServiceOf(fmt.Sprintf("service-%04d", i), ports))
	}
	return all
}

func newServiceOf(name string, ports int) *corev1.Service {
	service := newService(name)
	service.Spec.Ports = nil
	for i := range ports {
		port := int32(8000 + i)
		service.Spec.Ports = append(service.Spec.Ports, corev1.ServicePort{
			Name: fmt.Sprintf("port-%d", i), Port: port, TargetPort: intstr.FromInt32(port),
		})
	}
	return service
}

// checkBalancers is an error unless each Service has a load balancer of its own that is ready, with
// a pool of all members for each port, and a floating IP that leads to it.
func (o *openStack) checkBalancers(services []*corev1.Service, members int) error {
	bySuffix := map[string]openstacktest.LoadBalancer{}
	for _, lb := range o.LoadBalancers() {
		// kube_service_<cluster>_<namespace>_<name>
		suffix := lb.Name[strings.LastIndex(lb.Name, "_")+1:]
		if _, twice := bySuffix[suffix]; twice {
			return fmt.Errorf("service %s has two load balancers", suffix)
		}
		bySuffix[suffix] = lb
	}
	floating := map[string]int{}
	for _, ip := range o.FloatingIPs() {
		floating[ip.PortID]++
	}
	for _, service := range services {
		lb, ok := bySuffix[service.Name]
		if !ok {
			return fmt.Errorf("service %s has no load balancer", service.Name)
		}
		if err := checkBalancer(lb, len(service.Spec.Ports), members); err != nil {
			return fmt.Errorf("the load balancer of service %s %w", service.Name, err)
		}
		if ips := floating[lb.VIPPortID]; ips != 1 {
			return fmt.Errorf("the load balancer of service %s has %d floating IPs", service.Name,
				ips)
		}
	}
	if len(bySuffix) != len(services) {
		return fmt.Errorf("there are %d load balancers for %d Services", len(bySuffix),
			len(services))
	}
	return nil
}

// checkBalancer returns what is wrong, as the end of a sentence.
func checkBalancer(lb openstacktest.LoadBalancer, ports, members int) error {
	if lb.ProvisioningStatus != openstacktest.StatusActive {
		return fmt.Errorf("is %s", lb.ProvisioningStatus)
	}
	if len(lb.Listeners) != ports || len(lb.Pools) != ports {
		return fmt.Errorf("has %d listeners and %d pools for %d ports", len(lb.Listeners),
			len(lb.Pools), ports)
	}
	for _, pool := range lb.Pools {
		if len(pool.Members) != members {
			return fmt.Errorf("has a pool of %d members instead of %d", len(pool.Members), members)
		}
	}
	return nil
}

// fullPools is how many pools have so many members.
func (o *openStack) fullPools(members int) (full int) {
	for _, lb := range o.LoadBalancers() {
		for _, pool := range lb.Pools {
			if len(pool.Members) == members {
				full++
			}
		}
	}
	return full
}

// refuseSome has Octavia refuse one of so many requests, because there are too many.
func (o *openStack) refuseSome(oneOf int) {
	seen := 0 // the cloud asks for one call after the other
	o.Inject(openstacktest.Fault{
		Service: openstacktest.ServiceLoadBalancer, Status: tooMany, RetryAfter: refusedFor,
		Match: func(openstacktest.Call) bool {
			seen++
			return seen%oneOf == 0
		},
	})
}
