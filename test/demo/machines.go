package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	cloudproviderapi "k8s.io/cloud-provider/api"
)

// Steps about single machines and their nodes.

func joinNodes(ctx context.Context, c *cluster) (string, error) {
	before := c.openStack.calls()
	for i := range nodeCount {
		if err := c.join(ctx, nodeName(i+1), i+1); err != nil {
			return "", err
		}
	}
	for i := range nodeCount {
		if err := c.awaitInitialised(ctx, c.openStack, nodeName(i+1)); err != nil {
			return "", err
		}
	}
	asked := c.openStack.calls().since(before)
	if servers := asked.only("server_list", "server_get"); servers.total() > nodeCount {
		return "",
			fmt.Errorf("the servers of %d nodes were requested more than once each: %s",
				nodeCount, servers)
	}
	return fmt.Sprintf(
		"%d nodes have provider ID, type, zone and address; OpenStack received %s", nodeCount,
		asked), nil
}

func awaitNodeRoutes(ctx context.Context, c *cluster) (string, error) {
	if err := c.awaitRoutes(ctx, c.openStack); err != nil {
		return "", err
	}
	nodes, err := c.nodes(ctx)
	if err != nil {
		return "", err
	}
	for _, node := range nodes {
		may, err := c.openStack.mayUse(node.Name, node.Spec.PodCIDR)
		if err := errors.Join(err,
			expect("that the port of "+node.Name+" may send from its pods' addresses", may,
				true)); err != nil {
			return "", err
		}
	}
	return fmt.Sprintf(
		"%d routes in the router, and each port may send from its pods' addresses: %s",
		len(nodes),
		c.openStack.calls().only("router_add_extraroutes", "router_update", "port_update")), nil
}

// stopMachine switches a machine off and on again.
func stopMachine(ctx context.Context, c *cluster) (string, error) {
	if err := errors.Join(c.openStack.setStatus(stoppedNode, "SHUTOFF"),
		c.silence(ctx, stoppedNode)); err != nil {
		return "", err
	}
	begun := time.Now()
	if err := c.awaitShutdownTaint(ctx, stoppedNode, true); err != nil {
		return "", err
	}
	tainted := time.Since(begun)
	if err := errors.Join(c.openStack.setStatus(stoppedNode, "ACTIVE"),
		c.wake(ctx, stoppedNode)); err != nil {
		return "", err
	}
	if err := c.awaitShutdownTaint(ctx, stoppedNode, false); err != nil {
		return "", err
	}
	return fmt.Sprintf(
		"%s was tainted after %.1f s and not deleted; the taint was removed when the machine ran again",
		stoppedNode, tainted.Seconds()), nil
}

func (c *cluster) awaitShutdownTaint(ctx context.Context, name string, want bool) error {
	return c.until(ctx, func(ctx context.Context) error {
		node, err := c.client.CoreV1().Nodes().Get(ctx, name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		return expect("that "+name+" is tainted as shut down",
			hasTaint(node, cloudproviderapi.TaintNodeShutdown), want)
	})
}

// loseMachine takes a machine away. The cluster first sees a silent kubelet.
func loseMachine(ctx context.Context, c *cluster) (string, error) {
	before := c.openStack.calls()
	lost, err := c.client.CoreV1().Nodes().Get(ctx, lostNode, metav1.GetOptions{})
	if err != nil {
		return "", err
	}
	begun := time.Now()
	if err := errors.Join(c.openStack.removeMachine(lostNode),
		c.silence(ctx, lostNode)); err != nil {
		return "", err
	}
	err = c.until(ctx, func(ctx context.Context) error {
		nodes, err := c.nodes(ctx)
		if err != nil {
			return err
		}
		_, there := uids(nodes)[lostNode]
		return expect("that there is a node "+lostNode, there, false)
	})
	if err != nil {
		return "", err
	}
	deleted := time.Since(begun)
	if deleted < absenceConfirmation {
		return "",
			fmt.Errorf(
				"node %s was deleted after %s: Nova cannot have answered 404 twice, %s apart", lostNode, deleted, absenceConfirmation)
	}
	err = c.until(ctx, func(context.Context) error {
		return expect("the route to the pods of "+lostNode, c.openStack.routeTo(lost), "")
	})
	if err != nil {
		return "", err
	}
	if err := c.expectBalanced(ctx); err != nil {
		return "", err
	}
	return fmt.Sprintf(
		"%s was deleted after %.1f s, and so were its route and its member; OpenStack received %s",
		lostNode, deleted.Seconds(), c.openStack.calls().since(before)), nil
}
