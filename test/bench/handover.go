package main

import (
	"context"
	"fmt"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"

	"github.com/fxccm/fxccm/ccm"
	"github.com/fxccm/fxccm/provider/fake"
)

// measureHandover measures how long a cluster is without a leader when the leader of two replicas
// is asked to end, as in every rolling update: from SIGTERM until the other holds the lease, and
// until it has initialised a node that registers meanwhile.
func measureHandover(ctx context.Context, b *bench) error {
	retry := ccm.DefaultConfig().LeaderElection.RetryPeriod.Duration
	return b.measureLeading(ctx, "hand-over", handoverTarget,
		"Hand-over: SIGTERM → other replica holds the lease",
		"Hand-over: SIGTERM → it has initialised a node",
		func(
			ctx context.Context, t *trial, c candidate, round int,
		) (led, worked time.Duration, _ error) {
			// The result depends on the moment between two renewals at which the leader is asked.
			// The rounds are spread over that time.
			moment := (float64(round) + 0.5) / float64(b.settings.rounds) * float64(retry)
			return timeHandover(ctx, t, c, time.Duration(moment))
		})
}

func timeHandover(
	ctx context.Context, t *trial, c candidate, moment time.Duration,
) (led, worked time.Duration, err error) {
	cluster := t.bench.cluster
	if err := t.cloud.AddInstances(fake.Instance{Name: "first"},
		fake.Instance{Name: "next"}); err != nil {
		return 0, 0, err
	}
	leader, holder, err := t.startLeader(ctx, c)
	if err != nil {
		return 0, 0, err
	}
	if err := t.startStandby(ctx, c, holder); err != nil {
		return 0, 0, err
	}
	select {
	case <-time.After(moment):
	case <-ctx.Done():
		return 0, 0, context.Cause(ctx)
	}
	taken, err := cluster.watchLease(ctx, func(lease *coordinationv1.Lease) bool {
		return isHeld(lease) && holderOf(lease) != holder
	})
	if err != nil {
		return 0, 0, err
	}
	asked := time.Now()
	if err := leader.terminate(); err != nil {
		return 0, 0, err
	}
	// A node that registers earlier might still be initialised by the old leader.
	select {
	case <-leader.done:
	case <-ctx.Done():
		return 0, 0, fmt.Errorf("wait for the leader to end: %w", context.Cause(ctx))
	}
	if err := cluster.createNodes(ctx, newNode("next")); err != nil {
		return 0, 0, err
	}
	node, err := cluster.watchNode(ctx, "next")
	if err != nil {
		return 0, 0, err
	}
	takenAt, err := taken.wait()
	if err != nil {
		return 0, 0, fmt.Errorf("wait for the other replica to take the lease: %w", err)
	}
	workedAt, err := node.wait()
	if err != nil {
		return 0, 0, fmt.Errorf("wait for the other replica to initialise a node: %w", err)
	}
	return takenAt.Sub(asked), workedAt.Sub(asked), nil
}

// startLeader starts the first replica and returns when it has initialised a node: all of it runs
// then.
func (t *trial) startLeader(ctx context.Context, c candidate) (_ *replica, holder string, _ error) {
	cluster := t.bench.cluster
	if err := cluster.createNodes(ctx, newNode("first")); err != nil {
		return nil, "", err
	}
	node, err := cluster.watchNode(ctx, "first")
	if err != nil {
		return nil, "", err
	}
	leader, err := t.start(c)
	if err != nil {
		return nil, "", err
	}
	if _, err := node.wait(); err != nil {
		return nil, "", fmt.Errorf("wait for the leader to initialise a node: %w", err)
	}
	lease, err := cluster.watchLease(ctx, func(lease *coordinationv1.Lease) bool {
		holder = holderOf(lease)
		return true
	})
	if err != nil {
		return nil, "", err
	}
	_, err = lease.wait()
	return leader, holder, err
}

// startStandby starts the second replica and returns when that one has had a look at the lease. It
// does that as soon as it serves; that is not seen from here, so two renewals of the leader's are
// waited for.
func (t *trial) startStandby(ctx context.Context, c candidate, holder string) error {
	standby, err := t.start(c)
	if err != nil {
		return err
	}
	if err := standby.awaitServing(ctx); err != nil {
		return err
	}
	renewals := -1 // the first time seen is no renewal
	var last time.Time
	renewed, err := t.bench.cluster.watchLease(ctx, func(lease *coordinationv1.Lease) bool {
		if lease.Spec.RenewTime != nil && holderOf(lease) == holder &&
			!lease.Spec.RenewTime.Time.Equal(last) {
			last = lease.Spec.RenewTime.Time
			renewals++
		}
		return renewals == 2
	})
	if err != nil {
		return err
	}
	if _, err := renewed.wait(); err != nil {
		return fmt.Errorf("wait for the leader to renew the lease: %w", err)
	}
	return nil
}
