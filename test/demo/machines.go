package main

import (
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	cloudproviderapi "k8s.io/cloud-provider/api"

	"github.com/fxccm/fxccm/test/internal/attempt"
)

// Steps with single machines and their nodes.

func (c *cluster) joinNodes(t *attempt.T) string {
	before := c.openStack.calls()
	for i := range nodeCount {
		c.join(t, nodeName(i+1), i+1)
	}
	for i := range nodeCount {
		c.awaitInitialized(t, c.openStack, nodeName(i+1))
	}
	asked := c.openStack.calls().since(before)
	if servers := asked.only("server_list", "server_get"); servers.total() > nodeCount {
		t.Fatalf("the servers of %d nodes were requested more than once each: %s", nodeCount,
			servers)
	}
	return fmt.Sprintf(
		"%d nodes have provider ID, type, zone and address; OpenStack received %s", nodeCount,
		asked)
}

func (c *cluster) awaitNodeRoutes(t *attempt.T) string {
	c.awaitRoutes(t, c.openStack)
	nodes, err := c.nodes(t.Context())
	t.Check(err)
	for _, node := range nodes {
		may, err := c.openStack.mayUse(node.Name, node.Spec.PodCIDR)
		t.Check(err)
		t.Check(expect("that the port of "+node.Name+" may send from its pods' addresses", may,
			true))
	}
	return fmt.Sprintf(
		"%d routes in the router, and each port may send from its pods' addresses: %s",
		len(nodes),
		c.openStack.calls().only("router_add_extraroutes", "router_update", "port_update"))
}

// stopMachine switches a machine off and on again.
func (c *cluster) stopMachine(t *attempt.T) string {
	t.Check(c.openStack.setStatus(stoppedNode, "SHUTOFF"))
	c.setReady(t, corev1.ConditionFalse, stoppedNode)
	begun := time.Now()
	c.awaitShutdownTaint(t, stoppedNode, true)
	tainted := time.Since(begun)
	t.Check(c.openStack.setStatus(stoppedNode, "ACTIVE"))
	c.setReady(t, corev1.ConditionTrue, stoppedNode)
	c.awaitShutdownTaint(t, stoppedNode, false)
	return fmt.Sprintf(
		"%s was tainted after %.1f s and not deleted; the taint was removed when the machine ran again",
		stoppedNode, tainted.Seconds())
}

func (c *cluster) awaitShutdownTaint(t *attempt.T, name string, want bool) {
	c.until(t, func() error {
		node, err := c.node(t, name)
		if err != nil {
			return err
		}
		return expect("that "+name+" is tainted as shut down",
			hasTaint(node, cloudproviderapi.TaintNodeShutdown), want)
	})
}

// loseMachine removes a machine. The cluster first sees a silent kubelet.
func (c *cluster) loseMachine(t *attempt.T) string {
	before := c.openStack.calls()
	lost, err := c.node(t, lostNode)
	t.Check(err)
	begun := time.Now()
	t.Check(c.openStack.removeMachine(lostNode))
	c.setReady(t, corev1.ConditionFalse, lostNode)
	c.until(t, func() error {
		_, err := c.node(t, lostNode)
		return expect("that the node "+lostNode+" is not found", apierrors.IsNotFound(err), true)
	})
	deleted := time.Since(begun)
	if deleted < absenceConfirmation {
		t.Fatalf("node %s was deleted after %s: Nova cannot have answered 404 twice, %s apart",
			lostNode, deleted, absenceConfirmation)
	}
	c.until(t, func() error {
		return expect("the route to the pods of "+lostNode, c.openStack.routeTo(lost), "")
	})
	c.awaitSameBalanced(t)
	return fmt.Sprintf(
		"%s was deleted after %.1f s, and so were its route and its member; OpenStack received %s",
		lostNode, deleted.Seconds(), c.openStack.calls().since(before))
}
