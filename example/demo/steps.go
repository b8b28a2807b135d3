package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"syscall"
	"time"
)

// A step does something and waits for what should come of it.
type step struct {
	name string
	// limit is how long it may take on a machine that has much else to do.
	limit time.Duration
	// do returns what was seen.
	do func(ctx context.Context, c *cluster) (seen string, err error)
}

const (
	nodeCount = 6
	// Each of these nodes has a step of its own.
	stoppedNode = "node-2"
	silentNode  = "node-3"
	lostNode    = "node-6"
	lateNode    = "node-7"

	// handOverLimit is less than the lease lasts: a stop that did not release it would take longer.
	handOverLimit = 10 * time.Second
)

// preparation is what the rest runs on.
func preparation() []step {
	return []step{
		{"a control plane starts", 2 * time.Minute, prepareControlPlane},
		{"the clouds are served", 10 * time.Second, prepareClouds},
	}
}

// story is what the demo shows.
func story() []step {
	return []step{
		{"two replicas start, one leads", time.Minute, startReplicas},
		{"nodes join and are initialised", time.Minute, joinNodes},
		{"nodes get routes to their pods", time.Minute, awaitNodeRoutes},
		{"a Service gets a load balancer and a floating IP", time.Minute, createBalanced},
		{"a machine is switched off and on", time.Minute, stopMachine},
		{"Keystone fails, no node goes", time.Minute, failLogins},
		{"Nova knows no machine, no node goes", time.Minute, hideMachines},
		{"a machine vanishes, its node goes", time.Minute, loseMachine},
		{"the leader is stopped, the other takes over", time.Minute, stopLeader},
		{"the new leader works", time.Minute, workAgain},
		{"the stopped replica comes back", time.Minute, startStopped},
		{"the Service is deleted, nothing of it is left", time.Minute, deleteBalanced},
		{"both replicas stop in order", time.Minute, endReplicas},
		{"a host with it inside starts, on a fake cloud", time.Minute, startHost},
		{"Services get load balancers from the fake cloud", time.Minute, createServices},
		{"the host loses its lease and stands by", time.Minute, takeLease},
		{"the host leads again", time.Minute, giveLeaseBack},
		{"no request was forbidden, no terms overlapped", 30 * time.Second, lookBack},
	}
}

func prepareControlPlane(ctx context.Context, c *cluster) (string, error) {
	if err := c.startControlPlane(ctx); err != nil {
		return "", err
	}
	version, err := c.client.Discovery().ServerVersion()
	if err != nil {
		return "", fmt.Errorf("ask the API server for its version: %w", err)
	}
	return fmt.Sprintf("Kubernetes %s at %s", version.GitVersion, c.controlPlane.RESTConfig().Host),
		nil
}

func prepareClouds(_ context.Context, c *cluster) (string, error) {
	if err := c.serveClouds(); err != nil {
		return "", err
	}
	for i := range nodeCount {
		c.openStack.addMachine(nodeName(i + 1))
	}
	return fmt.Sprintf("OpenStack with %d machines at %s, and a fake cloud; a call takes %s",
		nodeCount, c.openStack.server.URL(), cloudLatency), nil
}

func nodeName(i int) string { return fmt.Sprintf("node-%d", i) }

// ending is how a check ends; a person sees it only if it goes wrong.
func ending() []step {
	return []step{
		{"the host stops in order", time.Minute, endHost},
		{"nothing is left", time.Minute, endAll},
	}
}

func endAll(ctx context.Context, c *cluster) (string, error) {
	pids := []int{c.controlPlane.APIServerPID(), c.controlPlane.EtcdPID()}
	if err := c.stop(ctx, false); err != nil {
		return "", err
	}
	for _, pid := range pids {
		if process, err := os.FindProcess(pid); err == nil &&
			process.Signal(syscall.Signal(0)) == nil {
			return "", fmt.Errorf("the process %d of the control plane still runs", pid)
		}
	}
	if _, err := os.Stat(c.dir); !errors.Is(err, fs.ErrNotExist) {
		return "", fmt.Errorf("the folder %s is still there", c.dir)
	}
	return "no process and no file", nil
}

// pause waits, or returns why ctx has ended.
func pause(ctx context.Context, d time.Duration) error {
	select {
	case <-time.After(d):
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
