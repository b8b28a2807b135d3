package main

import (
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"

	"github.com/fxccm/fxccm/ccm"
	"github.com/fxccm/fxccm/provider/fake"
)

// measureHandover measures how long a cluster is without a leader when the leader of two replicas
// is asked to end, as in every rolling update: from SIGTERM until the other holds the lease, and
// until it has initialized a node that registers meanwhile.
func measureHandover(b *bench) {
	retry := ccm.DefaultConfig().LeaderElection.RetryPeriod.Duration
	b.measureLeading("hand-over", handoverTarget,
		"Hand-over: SIGTERM → other replica holds the lease",
		"Hand-over: SIGTERM → it has initialized a node",
		func(t *trial, c candidate, round int) (led, worked time.Duration) {
			// The result depends on the moment between two renewals at which the leader is asked.
			// The rounds are spread over that time.
			moment := (float64(round) + 0.5) / float64(b.rounds) * float64(retry)
			return t.timeHandover(c, time.Duration(moment))
		})
}

func (t *trial) timeHandover(c candidate, moment time.Duration) (led, worked time.Duration) {
	t.Check(t.cloud.AddInstances(fake.Instance{Name: "first"}, fake.Instance{Name: "next"}))
	leader, holder := t.startLeader(c)
	t.startStandby(c, holder)
	t.pause(moment)
	taken := t.watchLease("other holder of the Lease", func(lease *coordinationv1.Lease) bool {
		return isHeld(lease) && holderOf(lease) != holder
	})
	asked := time.Now()
	leader.Stop()
	// A node that registers earlier might still be initialized by the old leader.
	t.until(leader.HasExited)
	t.createNodes(newNode("next"))
	node := t.watchNode("next")
	return taken.wait().Sub(asked), node.wait().Sub(asked)
}

// startLeader starts the first replica and returns when it has initialized a node: all of it runs
// then.
func (t *trial) startLeader(c candidate) (leader *process, holder string) {
	t.createNodes(newNode("first"))
	node := t.watchNode("first")
	leader = t.start(c)
	node.wait()
	t.watchLease("holder of the Lease", func(lease *coordinationv1.Lease) bool {
		holder = holderOf(lease)
		return true
	}).wait()
	return leader, holder
}

// startStandby starts the second replica and returns when that one has had a look at the lease. It
// does that as soon as it serves; that is not seen from here, so two renewals of the leader's are
// waited for.
func (t *trial) startStandby(c candidate, holder string) {
	standby := t.start(c)
	t.until(func() bool { return t.isServing(standby) })
	renewals := -1 // the first time seen is no renewal
	var last time.Time
	t.watchLease("renewal of the Lease", func(lease *coordinationv1.Lease) bool {
		if lease.Spec.RenewTime != nil && holderOf(lease) == holder &&
			!lease.Spec.RenewTime.Time.Equal(last) {
			last = lease.Spec.RenewTime.Time
			renewals++
		}
		return renewals == 2
	}).wait()
}
