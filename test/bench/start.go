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
	return b.measureLeading(ctx, "start", noWorseTarget,
		"Start: process begins → it holds the lease",
		"Start: process begins → first node initialised",
		timeStart)
}

// measureLeading measures for each candidate, in each round, how long it takes until a process
// leads and until it has initialised a node.
func (b *bench) measureLeading(
	ctx context.Context, name string, target float64, leadTitle, workTitle string,
	measure func(context.Context, *trial, candidate, int) (led, worked time.Duration, _ error),
) error {
	toLease := row{title: leadTitle, target: target, unit: seconds}
	toWork := row{title: workTitle, target: target, unit: seconds}
	for round := range b.settings.rounds {
		for _, c := range candidates() {
			if c.backlogOnly {
				continue
			}
			title := fmt.Sprintf("%s, round %d: %s", name, round+1, c.name)
			b.progress.update(title)
			err := b.trial(ctx, 0, func(ctx context.Context, t *trial) error {
				led, worked, err := measure(ctx, t, c, round)
				if err != nil {
					return err
				}
				b.results.add(toLease, c.name, sample{value: led.Seconds()})
				b.results.add(toWork, c.name, sample{value: worked.Seconds()})
				b.progress.say(fmt.Sprintf(
					"%s holds the lease after %.2f s, and has initialised a node after %.2f s",
					title, led.Seconds(), worked.Seconds()))
				return nil
			})
			if err != nil {
				return fmt.Errorf("%s: %w", c.name, err)
			}
		}
	}
	return nil
}

func timeStart(
	ctx context.Context, t *trial, c candidate, _ int,
) (led, worked time.Duration, err error) {
	cluster := t.bench.cluster
	if err := t.cloud.AddInstances(fake.Instance{Name: "first"}); err != nil {
		return 0, 0, err
	}
	if err := cluster.createNodes(ctx, newNode("first")); err != nil {
		return 0, 0, err
	}
	node, err := cluster.watchNode(ctx, "first")
	if err != nil {
		return 0, 0, err
	}
	var p *replica
	ledAt, err := t.lead(ctx, func() (err error) {
		p, err = t.start(c)
		return err
	})
	if err != nil {
		return 0, 0, err
	}
	workedAt, err := node.wait()
	if err != nil {
		return 0, 0, fmt.Errorf("wait for the first node: %w", err)
	}
	return ledAt.Sub(p.started), workedAt.Sub(p.started), nil
}

func isHeld(lease *coordinationv1.Lease) bool { return holderOf(lease) != "" }
