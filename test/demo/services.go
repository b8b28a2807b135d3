package main

import (
	"context"
	"errors"
	"fmt"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/fxccm/fxccm/ccm/ccmtest"
)

func serviceNames() []string { return []string{"api", "shop", "www"} }

func createServices(ctx context.Context, c *cluster) (string, error) {
	for _, name := range serviceNames() {
		if err := c.createService(ctx, name); err != nil {
			return "", err
		}
	}
	var seen []string
	for _, name := range serviceNames() {
		address, err := c.awaitAddress(ctx, name)
		if err != nil {
			return "", err
		}
		seen = append(seen, name+" "+address)
	}
	return strings.Join(seen, ", "), nil
}

func (c *cluster) createService(ctx context.Context, name string) error {
	_, err := c.client.CoreV1().Services(metav1.NamespaceDefault).Create(ctx,
		ccmtest.LoadBalancerService(name), metav1.CreateOptions{})
	if err != nil {
		return fmt.Errorf("create Service %s: %w", name, err)
	}
	return nil
}

// awaitAddress waits until a Service has the address of the load balancer in the cloud, which leads
// to all nodes.
func (c *cluster) awaitAddress(ctx context.Context, name string) (address string, err error) {
	err = c.until(ctx, func(ctx context.Context) error {
		service, err := c.client.CoreV1().Services(metav1.NamespaceDefault).Get(ctx, name,
			metav1.GetOptions{})
		if err != nil {
			return err
		}
		nodes, err := c.nodes(ctx)
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
	return address, err
}
