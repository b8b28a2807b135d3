package multimanager_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/fxccm/fxccm/ccm"
	"github.com/fxccm/fxccm/ccm/ccmtest"
	"github.com/fxccm/fxccm/ccm/ccmtest/controlplane"
	"github.com/fxccm/fxccm/ccm/ccmtest/netfault"
	"github.com/fxccm/fxccm/provider/fake"
)

// The tests run sequentially: with more Managers than those of one test, more requests begin at
// once than the API server accepts, and it answers some renewals with 429.

func TestManagers_HalfIsStoppedAndStartedAgain_OthersAreNotDisturbed(t *testing.T) {
	f := newFleet(t, "half")
	f.run()
	for _, c := range f.clusters {
		c.waitServed()
	}
	for _, c := range f.clusters {
		c.wantOwnOnly()
	}
	going, staying := f.clusters[:size/2], f.clusters[size/2:]
	watched := watch(t, staying)
	stop(t, firsts(going)...)
	for _, c := range going {
		if status := c.first.Status(); status.State != ccm.StateStopped {
			t.Errorf("%s is %s, want it to be stopped", c.name, status.State)
		}
		if holder := c.leaseHolder(); holder != "" {
			t.Errorf("the lease of %s, which was stopped, is held by %q", c.name, holder)
		}
		c.cloud.ResetCalls()
		c.join("late")
	}
	for _, c := range going {
		if calls := c.cloud.Calls(); len(calls) > 0 {
			t.Errorf("%s is stopped, and its cloud is called: %+v", c.name, calls)
		}
		c.first.run()
	}
	for _, c := range going {
		c.waitServed()
		if status := c.first.Status(); status.Term != 2 {
			t.Errorf("%s is in term %d, want the second", c.name, status.Term)
		}
	}
	watched.verify()
	f.end()
}

func TestManagers_SomeLeadersStopOrAreCutOff_OnlyTheirStandbysTakeOver(t *testing.T) {
	f := newFleet(t, "pairs")
	const pairs = 10
	for i, c := range f.clusters {
		if i < pairs {
			c.first = c.start("first", quick)
		} else {
			c.first = c.start("first", nil)
		}
	}
	for _, c := range f.clusters {
		ccmtest.Eventually(t, "the Manager is ready", ccmtest.Ready(c.first.Manager))
	}
	var seconds []*replica
	for _, c := range f.clusters[:pairs] {
		seconds = append(seconds, c.start("second", quick))
	}
	for _, second := range seconds {
		ccmtest.Eventually(t, second.name+" stands by",
			ccmtest.Status(second.Manager, func(s ccm.Status) bool {
				return s.State == ccm.StateStandby && s.Election.Leader != ""
			}))
	}
	watched := watch(t, f.clusters[pairs:])

	stopped, cut := f.clusters[:pairs/2], f.clusters[pairs/2:pairs]
	for _, c := range cut {
		if err := c.first.endpoint.Set(netfault.Stall()); err != nil {
			t.Fatal(err)
		}
	}
	stop(t, firsts(stopped)...)
	for i, c := range f.clusters[:pairs] {
		ccmtest.Eventually(t, "the Manager is ready", ccmtest.Ready(seconds[i].Manager))
		c.join("new")
		c.waitServed()
		if holder := c.leaseHolder(); holder != seconds[i].name {
			t.Errorf("the lease of %s is held by %q, want %q", c.name, holder, seconds[i].name)
		}
		if overlaps := c.cloud.ConcurrentCalls(); len(overlaps) > 0 {
			t.Errorf("two terms changed the cloud of %s at once: %+v", c.name, overlaps)
		}
		if calls := c.cloud.Calls(fake.CallFilter{Caller: fake.TermCaller(c.first.name, 1)}.Matches,
			about(c.name+"-new")); len(calls) > 0 {
			t.Errorf(
				"the former leader of %s asked its cloud for a node that came when it did not lead any more: %+v", c.name, calls)
		}
	}
	watched.verify()

	// The replicas that were cut off come back, and see that they do not lead.
	for _, c := range cut {
		if err := c.first.endpoint.Set(netfault.Pass()); err != nil {
			t.Fatal(err)
		}
	}
	for i, c := range cut {
		second := seconds[pairs/2+i]
		ccmtest.Eventually(t, c.first.name+" stands by",
			ccmtest.Status(c.first.Manager, func(s ccm.Status) bool {
				return s.State == ccm.StateStandby && s.Election.Leader == second.name
			}))
	}
	f.end()
}

// breakages are the faults of an endpoint.
var breakages = []netfault.Fault{netfault.Refuse(), netfault.Stall(), netfault.WrongCertificate()}

func TestManagers_SomeEndpointsBreak_OthersAreNotDisturbed(t *testing.T) {
	f := newFleet(t, "broken")
	// Some endpoints break while their Managers lead, and some are broken when their Managers
	// start.
	leading, starting, staying := f.clusters[:len(breakages)],
		f.clusters[len(breakages):2*len(breakages)], f.clusters[2*len(breakages):]
	for _, c := range leading {
		c.first = c.start("first", quick)
	}
	for i, c := range starting {
		c.first = c.prepare("first", quick)
		if err := c.first.endpoint.Set(breakages[i]); err != nil {
			t.Fatal(err)
		}
	}
	for _, c := range staying {
		c.first = c.start("first", nil)
	}
	for _, c := range slices.Concat(leading, staying) {
		ccmtest.Eventually(t, "the Manager is ready", ccmtest.Ready(c.first.Manager))
	}
	watched := watch(t, staying)

	for i, c := range leading {
		if err := c.first.endpoint.Set(breakages[i]); err != nil {
			t.Fatal(err)
		}
	}
	for _, c := range starting {
		c.first.run()
	}
	for i, c := range slices.Concat(leading, starting) {
		fault := breakages[i%len(breakages)]
		ccmtest.Eventually(t,
			fmt.Sprintf("%s, whose endpoint is %s, says what is wrong", c.name, fault),
			ccmtest.Status(c.first.Manager,
				// On a busy machine, an attempt may time out before it sees the certificate.
				func(s ccm.Status) bool {
					return s.State == ccm.StateDegraded && s.Reason != "" &&
						(fault != netfault.WrongCertificate() ||
							strings.Contains(s.Reason, "certificate"))
				}))
	}
	stop(t, starting[1].first) // its endpoint hangs
	watched.verify()

	for _, c := range slices.Concat(leading, starting) {
		if err := c.first.endpoint.Set(netfault.Pass()); err != nil {
			t.Fatal(err)
		}
	}
	starting[1].first.run()
	for _, c := range slices.Concat(leading, starting) {
		ccmtest.Eventually(t, "the Manager is ready", ccmtest.Ready(c.first.Manager))
		c.join("new")
		c.waitServed()
	}
	f.end()
}

// wantOwnOnly fails the test unless the cluster's Manager leads in its own election, changes only
// its own part, and is the only caller of the cloud.
func (c *cluster) wantOwnOnly() {
	c.t.Helper()
	if status := c.first.Status(); status.State != ccm.StateLeading || status.Term != 1 {
		c.t.Errorf("%s is %s in term %d, want it to lead in its first", c.name, status.State,
			status.Term)
	}
	if holder := c.leaseHolder(); holder != c.first.name {
		c.t.Errorf("the lease of %s is held by %q, want %q", c.name, holder, c.first.name)
	}
	if callers := callersOf(c.cloud); !slices.Equal(callers,
		[]string{fake.TermCaller(c.first.name, 1)}) {
		c.t.Errorf("the cloud of %s was called by %q, want its own Manager alone", c.name, callers)
	}
	for _, write := range c.writes() {
		if !strings.HasPrefix(write.Name, c.name) && write.Namespace != c.name &&
			write.Resource != "events" {
			c.t.Errorf("%s wrote to another part: %s", c.name, write)
		}
	}
}

func firsts(clusters []*cluster) (all []*replica) {
	for _, c := range clusters {
		all = append(all, c.first)
	}
	return all
}

// callersOf are all callers of the cloud.
func callersOf(cloud *fake.Cloud) []string {
	var callers []string
	for caller := range cloud.Stats().Callers {
		callers = append(callers, caller)
	}
	return callers
}

func about(object string) func(fake.Call) bool { return fake.CallFilter{Object: object}.Matches }

// writes are all mutating requests of the cluster's Managers.
func (c *cluster) writes() []controlplane.AuditRecord {
	c.t.Helper()
	records, err := shared.Audit().All(controlplane.ByUser(c.user), controlplane.Mutating())
	if err != nil {
		c.t.Fatal(err)
	}
	return records
}
