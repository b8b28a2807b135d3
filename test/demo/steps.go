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

// A story has the steps of a demo. The ending is that of a check.
type story[W world] struct{ preparation, chapters, ending []step[W] }

// A step changes something and waits for the expected result.
type step[W world] struct {
	name string
	// limit is generous: the machine may be busy.
	limit time.Duration
	// do returns the observed result.
	do func(ctx context.Context, w W) (seen string, err error)
}

const (
	nodeCount = 6
	// Each of these nodes has a step of its own.
	stoppedNode = "node-2"
	silentNode  = "node-3"
	lostNode    = "node-6"
	lateNode    = "node-7"

	// handOverLimit is shorter than the lease: without a release the hand-over would take longer.
	handOverLimit = 10 * time.Second
)

// preparation starts the control plane and the clouds.
func preparation() []step[*cluster] {
	return []step[*cluster]{
		{"a control plane starts", 2 * time.Minute, prepareControlPlane},
		{"the clouds are served", 10 * time.Second, prepareClouds},
	}
}

// chapters are what the demo shows.
func chapters() []step[*cluster] {
	return []step[*cluster]{
		{"two replicas start, one leads", time.Minute, startReplicas},
		{"nodes join and are initialised", time.Minute, joinNodes},
		{"nodes get routes to their pods", time.Minute, awaitNodeRoutes},
		{"a Service gets a load balancer and a floating IP", time.Minute, createBalanced},
		{"a machine is switched off and on", time.Minute, stopMachine},
		{"Keystone fails, no node is deleted", time.Minute, failLogins},
		{"Nova finds no machine, no node is deleted", time.Minute, hideMachines},
		{"a machine is deleted, and so is its node", time.Minute, loseMachine},
		{"the leader is stopped, the other takes over", time.Minute, stopLeader},
		{"the new leader works", time.Minute, workAgain},
		{"the stopped replica comes back", time.Minute, startStopped},
		{"the Service is deleted, with all it had in OpenStack", time.Minute, deleteBalanced},
		{"both replicas stop cleanly", time.Minute, endReplicas},
		{"a host that embeds fxccm starts, on a fake cloud", time.Minute, startHost},
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

// ending has the last steps of a check.
func ending() []step[*cluster] {
	return []step[*cluster]{
		{"the host stops cleanly", time.Minute, endHost},
		{"no process and no file is left", time.Minute, endAll},
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
			return "", fmt.Errorf("process %d of the control plane still runs", pid)
		}
	}
	if _, err := os.Stat(c.dir); !errors.Is(err, fs.ErrNotExist) {
		return "", fmt.Errorf("the folder %s still exists", c.dir)
	}
	return "the control plane has ended, and its folder is removed", nil
}

// pause waits, or returns the cause that ended ctx.
func pause(ctx context.Context, d time.Duration) error {
	select {
	case <-time.After(d):
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
