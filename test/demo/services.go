package main

import (
	"errors"
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/fxccm/fxccm/ccm/ccmtest"
	"github.com/fxccm/fxccm/test/internal/attempt"
)

func (c *cluster) createServices(t *attempt.T) string {
	names := []string{"api", "shop", "www"}
	for _, name := range names {
		c.createService(t, name)
	}
	var seen []string
	for _, name := range names {
		seen = append(seen, name+" "+c.awaitAddress(t, name))
	}
	return strings.Join(seen, ", ")
}

func (c *cluster) createService(t *attempt.T, name string) {
	_, err := c.client.CoreV1().Services(metav1.NamespaceDefault).Create(t.Context(),
		ccmtest.LoadBalancerService(name), metav1.CreateOptions{})
	t.Check(err)
}

func (c *cluster) service(t *attempt.T, name string) (*corev1.Service, error) {
	return c.client.CoreV1().Services(metav1.NamespaceDefault).Get(t.Context(), name,
		metav1.GetOptions{})
}

// awaitAddress waits until a Service has the address of its load balancer in the cloud, whose
// members are all nodes.
func (c *cluster) awaitAddress(t *attempt.T, name string) (address string) {
	c.until(t, func() error {
		service, err := c.service(t, name)
		if err != nil {
			return err
		}
		nodes, err := c.nodes(t.Context())
		if err != nil {
			return err
		}
		balancer, ok := c.fake.LoadBalancer(service.Namespace + "/" + name)
		if !ok {
			return fmt.Errorf("the cloud has no load balancer of Service %s", name)
		}
		address = ingressIP(service)
		return errors.Join(
			expect("the address of Service "+name, address, balancer.Ingress[0]),
			expect("the number of members of Service "+name, len(balancer.Members), len(nodes)),
		)
	})
	return address
}
