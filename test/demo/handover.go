package main

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// Steps with the two replicas.

func startReplicas(ctx context.Context, c *cluster) (string, error) {
	if err := c.startReplicas(); err != nil {
		return "", err
	}
	var leader, other *replica
	err := c.until(ctx, func(ctx context.Context) (err error) {
		if leader, other, err = c.leaderAndOther(ctx); err != nil {
			return err
		}
		return errors.Join(leader.ready(ctx), other.ready(ctx))
	})
	if err != nil {
		return "", err
	}
	return fmt.Sprintf("%s leads, %s stands by, both are ready", leader.name, other.name), nil
}

func stopLeader(ctx context.Context, c *cluster) (string, error) {
	leader, other, err := c.leaderAndOther(ctx)
	if err != nil {
		return "", err
	}
	type end struct {
		code int
		err  error
	}
	ended := make(chan end, 1)
	begun := time.Now()
	go func() {
		code, err := leader.stop()
		ended <- end{code, err}
	}()
	err = c.until(ctx, func(ctx context.Context) error {
		return expect("the holder of the lease", c.holder(ctx, leaseName), other.name)
	})
	took := time.Since(begun)
	last := <-ended // also without a new leader: stop has a limit of its own
	if err := errors.Join(err, last.err); err != nil {
		return "", err
	}
	if err := errors.Join(
		expect("the exit code of "+leader.name, last.code, 0),
		c.until(ctx, other.ready),
	); err != nil {
		return "", err
	}
	if took > handOverLimit {
		return "",
			fmt.Errorf(
				"%s took over after %.1f s: the lease was not released, but expired",
				other.name, took.Seconds())
	}
	return fmt.Sprintf(
		"%s leads %.1f s after the SIGTERM to %s, which has drained and ended with exit code %d",
		other.name, took.Seconds(), leader.name, last.code), nil
}

func workAgain(ctx context.Context, c *cluster) (string, error) {
	before := c.openStack.calls()
	c.openStack.addMachine(lateNode)
	if err := c.join(ctx, lateNode, nodeCount+1); err != nil {
		return "", err
	}
	if err := c.awaitInitialised(ctx, c.openStack, lateNode); err != nil {
		return "", err
	}
	if err := c.awaitRoutes(ctx, c.openStack); err != nil {
		return "", err
	}
	// The new leader keeps the load balancer of the previous one.
	if err := c.expectBalanced(ctx); err != nil {
		return "", err
	}
	return fmt.Sprintf(
		"%s is initialised, has its route, and is a member of the same load balancer; OpenStack received %s",
		lateNode, c.openStack.calls().since(before)), nil
}

func startStopped(ctx context.Context, c *cluster) (string, error) {
	leader, other, err := c.leaderAndOther(ctx)
	if err != nil {
		return "", err
	}
	if err := other.start(); err != nil {
		return "", err
	}
	err = c.until(ctx, func(ctx context.Context) error {
		return errors.Join(other.ready(ctx),
			expect("the holder of the lease", c.holder(ctx, leaseName), leader.name))
	})
	if err != nil {
		return "", err
	}
	return fmt.Sprintf("%s stands by and is ready, %s still leads", other.name, leader.name), nil
}

func endReplicas(ctx context.Context, c *cluster) (string, error) {
	if err := stopProcesses(c.replicas...); err != nil {
		return "", err
	}
	if holder := c.holder(ctx, leaseName); holder != "" {
		return "", fmt.Errorf("the lease still names %s", holder)
	}
	return "exit code 0 twice, the lease has no holder", nil
}
