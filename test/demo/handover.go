package main

import (
	"errors"
	"fmt"
	"time"

	"github.com/fxccm/fxccm/test/internal/attempt"
)

// Steps with the two replicas.

func (c *cluster) startReplicas(t *attempt.T) string {
	c.start(t, c.replicas...)
	var leader, other *replica
	c.until(t, func() (err error) {
		if leader, other, err = c.leaderAndOther(t.Context()); err != nil {
			return err
		}
		return errors.Join(leader.ready(t.Context()), other.ready(t.Context()))
	})
	return fmt.Sprintf("%s leads, %s stands by, both are ready", leader.name, other.name)
}

func (c *cluster) stopLeader(t *attempt.T) string {
	leader, other, err := c.leaderAndOther(t.Context())
	t.Check(err)
	begun := time.Now()
	leader.process.Load().Stop()
	c.until(t, func() error {
		return expect("the holder of the lease", c.holder(t.Context(), leaseName), other.name)
	})
	took := time.Since(begun)
	code, err := leader.stop()
	t.Check(errors.Join(err, expect("the exit code of "+leader.name, code, 0)))
	c.until(t, func() error { return other.ready(t.Context()) })
	if took > handOverLimit {
		t.Fatalf("%s took over after %.1f s: the lease was not released, but expired", other.name,
			took.Seconds())
	}
	return fmt.Sprintf(
		"%s leads %.1f s after the SIGTERM to %s, which has drained and ended with exit code %d",
		other.name, took.Seconds(), leader.name, code)
}

func (c *cluster) workAgain(t *attempt.T) string {
	before := c.openStack.calls()
	c.openStack.addMachine(lateNode)
	c.join(t, lateNode, nodeCount+1)
	c.awaitInitialized(t, c.openStack, lateNode)
	c.awaitRoutes(t, c.openStack)
	// The new leader keeps the load balancer of the previous one.
	c.awaitSameBalanced(t)
	return fmt.Sprintf(
		"%s is initialized, has its route, and is a member of the same load balancer; OpenStack received %s",
		lateNode, c.openStack.calls().since(before))
}

func (c *cluster) startStopped(t *attempt.T) string {
	leader, other, err := c.leaderAndOther(t.Context())
	t.Check(err)
	c.start(t, other)
	c.until(t, func() error {
		return errors.Join(other.ready(t.Context()),
			expect("the holder of the lease", c.holder(t.Context(), leaseName), leader.name))
	})
	return fmt.Sprintf("%s stands by and is ready, %s still leads", other.name, leader.name)
}

func (c *cluster) endReplicas(t *attempt.T) string {
	t.Check(stopProcesses(c.replicas...))
	t.Check(expect("the holder of the lease", c.holder(t.Context(), leaseName), ""))
	return "exit code 0 twice, the lease has no holder"
}
