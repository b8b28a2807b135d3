package main

import (
	"context"
	"errors"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/util/retry"

	"github.com/fxccm/fxccm/ccm/ccmtest"
)

func (c *cluster) nodes(ctx context.Context) ([]corev1.Node, error) {
	all, err := c.client.CoreV1().Nodes().List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, err
	}
	return all.Items, nil
}

// join registers a node as a kubelet with --cloud-provider=external does. Its pods' addresses come
// from the kube-controller-manager in a real cluster.
func (c *cluster) join(ctx context.Context, name string, number int) error {
	node := ccmtest.TaintedNode(name, ccmtest.NodePodCIDRs(fmt.Sprintf("10.200.%d.0/24", number)))
	if _, err := c.client.CoreV1().Nodes().Create(ctx, node, metav1.CreateOptions{}); err != nil {
		return fmt.Errorf("create Node %s: %w", name, err)
	}
	return nil
}

// silence sets the condition of a node whose kubelet has stopped reporting.
func (c *cluster) silence(ctx context.Context, name string) error {
	return c.setReady(ctx, name, corev1.ConditionFalse)
}

// wake sets the condition of a node whose kubelet reports again.
func (c *cluster) wake(ctx context.Context, name string) error {
	return c.setReady(ctx, name, corev1.ConditionTrue)
}

func (c *cluster) setReady(ctx context.Context, name string, ready corev1.ConditionStatus) error {
	err := retry.RetryOnConflict(retry.DefaultBackoff, func() error {
		node, err := c.client.CoreV1().Nodes().Get(ctx, name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		for i := range node.Status.Conditions {
			if node.Status.Conditions[i].Type == corev1.NodeReady {
				node.Status.Conditions[i].Status = ready
			}
		}
		_, err = c.client.CoreV1().Nodes().UpdateStatus(ctx, node, metav1.UpdateOptions{})
		return err
	})
	if err != nil {
		return fmt.Errorf("set the condition Ready of Node %s to %s: %w", name, ready, err)
	}
	return nil
}

// awaitInitialised waits until a node has the data of its machine.
func (c *cluster) awaitInitialised(ctx context.Context, in cloud, name string) error {
	return c.until(ctx, func(ctx context.Context) error {
		node, err := c.client.CoreV1().Nodes().Get(ctx, name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		want, err := in.machine(name)
		if err != nil {
			return err
		}
		return errors.Join(
			expect(name+"'s taint", isTainted(node), false),
			expect(name+"'s provider ID", node.Spec.ProviderID, want.providerID),
			expect(name+"'s instance type", node.Labels[corev1.LabelInstanceTypeStable], want.kind),
			expect(name+"'s region", node.Labels[corev1.LabelTopologyRegion], want.region),
			expect(name+"'s zone", node.Labels[corev1.LabelTopologyZone], want.zone),
			expect(name+"'s address", internalIP(node), want.address),
		)
	})
}

// awaitRoutes waits until each node's pods can be reached, and the node's condition reports it.
func (c *cluster) awaitRoutes(ctx context.Context, in cloud) error {
	return c.until(ctx, func(ctx context.Context) error {
		nodes, err := c.nodes(ctx)
		if err != nil {
			return err
		}
		for _, node := range nodes {
			if err := errors.Join(
				expect("the route of "+node.Name, in.routeTo(&node), node.Spec.PodCIDR),
				expect("condition NetworkUnavailable of "+node.Name,
					condition(&node, corev1.NodeNetworkUnavailable), corev1.ConditionFalse),
			); err != nil {
				return err
			}
		}
		return nil
	})
}
