package multimanager_test

import (
	"testing"
	"time"

	"github.com/fxccm/fxccm/ccm"
	"github.com/fxccm/fxccm/ccm/ccmtest"
	"github.com/fxccm/fxccm/ccm/ccmtest/controlplane"
	"github.com/fxccm/fxccm/provider/fake"
)

const (
	// renewalsSeen is the number of renewals of each lease before the check of the bystanders.
	renewalsSeen = 2
	// busyEvery is the number of bystanders for each one that has a call in flight.
	busyEvery = 5
)

// A bystander is a cluster that must not be disturbed.
type bystander struct {
	*cluster
	term uint64
	// release ends the call in flight; nil without one.
	release func()
}

// bystanders are watched from the moment at which they were chosen.
type bystanders struct {
	t    *testing.T
	all  []bystander
	mark controlplane.Mark
}

// watch begins to watch clusters that lead. Some of them have a call to the cloud in flight, for a
// new node.
func watch(t *testing.T, clusters []*cluster) *bystanders {
	t.Helper()
	w := &bystanders{t: t}
	for i, c := range clusters {
		b := bystander{cluster: c, term: c.first.Status().Term}
		if i%busyEvery == 0 {
			b.release = c.cloud.On(fake.InstanceMetadata).For(c.name + "-slow").Hang()
			c.join("slow")
		}
		w.all = append(w.all, b)
	}
	for _, b := range w.all {
		if b.release != nil {
			ccmtest.Eventually(t, b.name+" asks its cloud for the new node",
				ccmtest.Called(b.cloud, b.slow))
		}
	}
	w.mark = shared.Audit().Mark()
	return w
}

func (b bystander) slow(call fake.Call) bool {
	return call.Method == fake.InstanceMetadata && call.Object == b.name+"-slow"
}

// verify waits until all leases have been renewed a few times, and fails the test after another
// term, a failed renewal, or a canceled call.
func (w *bystanders) verify() {
	w.t.Helper()
	for _, b := range w.all {
		w.verifyElection(b)
		if b.release == nil {
			continue
		}
		if calls := b.cloud.Calls(b.slow); len(calls) != 1 || calls[0].Finished {
			w.t.Errorf("%s: the call in flight was disturbed: %+v", b.name, calls)
		}
		b.release()
		b.waitServed()
		if calls := b.cloud.Calls(b.slow); calls[0].Err != "" {
			w.t.Errorf("%s: the call that was in flight ended with %q", b.name, calls[0].Err)
		}
	}
}

func (w *bystanders) verifyElection(b bystander) {
	w.t.Helper()
	for _, r := range w.waitRenewals(b) {
		if r.Code != 200 {
			w.t.Errorf("%s: a renewal failed: %s", b.name, r)
		}
	}
	status := b.first.Status()
	if status.State != ccm.StateLeading || !status.Ready || status.Term != b.term {
		w.t.Errorf("%s is %s in term %d (%s), want it to lead in term %d as before", b.name,
			status.State, status.Term, status.Reason, b.term)
	}
}

// waitRenewals waits for a few renewals since the watch began, and returns all.
func (w *bystanders) waitRenewals(b bystander) (renewals []controlplane.AuditRecord) {
	w.t.Helper()
	for limit := time.Now().Add(ccmtest.WaitLimit); len(renewals) < renewalsSeen; {
		if time.Now().After(limit) {
			w.t.Fatalf("%s has renewed its lease %d times in %s", b.name, len(renewals),
				ccmtest.WaitLimit)
		}
		if renewals != nil {
			time.Sleep(100 * time.Millisecond)
		}
		renewals = append([]controlplane.AuditRecord{}, b.renewals(w.mark)...)
	}
	return renewals
}
