package main

import (
	"context"
	"fmt"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"

	"github.com/fxccm/fxccm/provider/fake"
)

// measureStart measures how long a process takes, on an empty cluster without a lease, until it
// leads and until it has done its first piece of work: to initialise the one node that waits.
func measureStart(ctx context.Context, b *bench) error {
	toLease := row{
		title: "Start: process begins → it holds the lease", target: noWorseTarget,
		unit: seconds,
	}
	toWork := row{
		title: "Start: process begins → first node initialised", target: noWorseTarget,
		unit: seconds,
	}
	for round := range b.settings.rounds {
		for _, c := range candidates() {
			if c.backlogOnly {
				continue
			}
			err := b.trial(ctx, 0, func(ctx context.Context, t *trial) error {
				led, worked, err := timeStart(ctx, t, c)
				if err != nil {
					return err
				}
				b.results.add(toLease, c.name, sample{value: led.Seconds()})
				b.results.add(toWork, c.name, sample{value: worked.Seconds()})
				b.progress.say(
					fmt.Sprintf(
						"start, round %d: %s holds the lease after %.2f s, and has initialised a node after %.2f s",
						round+1, c.name, led.Seconds(), worked.Seconds()))
				return nil
			})
			if err != nil {
				return fmt.Errorf("%s: %w", c.name, err)
			}
		}
	}
	return nil
}

func timeStart(ctx context.Context, t *trial, c candidate) (led, worked time.Duration, err error) {
	cluster := t.bench.cluster
	if err := t.cloud.AddInstances(fake.Instance{Name: "first"}); err != nil {
		return 0, 0, err
	}
	if err := cluster.createNodes(ctx, newNode("first")); err != nil {
		return 0, 0, err
	}
	lease, err := cluster.watchLease(ctx, isHeld)
	if err != nil {
		return 0, 0, err
	}
	node, err := cluster.watchNode(ctx, "first")
	if err != nil {
		return 0, 0, err
	}
	p, err := t.start(c)
	if err != nil {
		return 0, 0, err
	}
	ledAt, err := lease.wait()
	if err != nil {
		return 0, 0, fmt.Errorf("wait for the lease to be held: %w", err)
	}
	workedAt, err := node.wait()
	if err != nil {
		return 0, 0, fmt.Errorf("wait for the first node: %w", err)
	}
	return ledAt.Sub(p.started), workedAt.Sub(p.started), nil
}

func isHeld(lease *coordinationv1.Lease) bool { return holderOf(lease) != "" }
