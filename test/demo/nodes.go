package main

import (
	"context"
	"errors"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/fxccm/fxccm/ccm/ccmtest"
	"github.com/fxccm/fxccm/test/internal/attempt"
)

func (c *cluster) nodes(ctx context.Context) ([]corev1.Node, error) {
	all, err := c.client.CoreV1().Nodes().List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, err
	}
	return all.Items, nil
}

func (c *cluster) node(t *attempt.T, name string) (*corev1.Node, error) {
	return c.client.CoreV1().Nodes().Get(t.Context(), name, metav1.GetOptions{})
}

// join registers a node like a kubelet with --cloud-provider=external. In a real cluster,
// kube-controller-manager sets the addresses of its pods.
func (c *cluster) join(t *attempt.T, name string, number int) {
	node := ccmtest.TaintedNode(name, ccmtest.NodePodCIDRs(fmt.Sprintf("10.200.%d.0/24", number)))
	_, err := c.client.CoreV1().Nodes().Create(t.Context(), node, metav1.CreateOptions{})
	t.Check(err)
}

// setReady sets the condition Ready of nodes, as after their kubelets have stopped or continued to
// report.
func (c *cluster) setReady(t *attempt.T, ready corev1.ConditionStatus, names ...string) {
	for _, name := range names {
		_, err := c.client.CoreV1().Nodes().Patch(t.Context(), name, types.StrategicMergePatchType,
			fmt.Appendf(nil, `{"status":{"conditions":[{"type":"Ready","status":%q}]}}`, ready),
			metav1.PatchOptions{}, "status")
		t.Check(err)
	}
}

// awaitInitialized waits until a node has the data of its machine.
func (c *cluster) awaitInitialized(t *attempt.T, in cloud, name string) {
	c.until(t, func() error {
		node, err := c.node(t, name)
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

// awaitRoutes waits until each node has its route, and its condition reports it.
func (c *cluster) awaitRoutes(t *attempt.T, in cloud) {
	c.until(t, func() error {
		nodes, err := c.nodes(t.Context())
		for _, node := range nodes {
			err = errors.Join(err,
				expect("the route of "+node.Name, in.routeTo(&node), node.Spec.PodCIDR),
				expect("condition NetworkUnavailable of "+node.Name,
					condition(&node, corev1.NodeNetworkUnavailable), corev1.ConditionFalse),
			)
		}
		return err
	})
}
