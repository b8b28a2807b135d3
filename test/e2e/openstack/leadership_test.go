package openstack_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/fxccm/fxccm/ccm/ccmtest"
	"github.com/fxccm/fxccm/ccm/election"
	"github.com/fxccm/fxccm/internal/waittest"
	"github.com/fxccm/fxccm/provider/openstack/cloudconf"
	"github.com/fxccm/fxccm/provider/openstack/openstacktest"
)

// as makes the replica send its name in each request to OpenStack.
func as(name string) func(*launch) {
	return func(l *launch) { l.Name, l.Config.CloudProvider.UserAgents = name, []string{name} }
}

// by selects the calls of a replica.
func by(name string, which func(openstacktest.Call) bool) func(openstacktest.Call) bool {
	return func(c openstacktest.Call) bool {
		return strings.Contains(c.UserAgent, name) && which(c)
	}
}

// routeWork creates n initialized nodes that each need a route, and returns the routes.
func routeWork(t *testing.T, s *site, prefix string, n int) (want []string) {
	t.Helper()
	for i := range n {
		m := s.addServer(fmt.Sprintf("%s-%d", prefix, i))
		cidr := fmt.Sprintf("10.244.%d.0/24", i)
		node := ccmtest.ReadyNode(m.name, ccmtest.NodeProviderID(m.providerID()),
			ccmtest.NodePodCIDRs(cidr))
		node.Status.Addresses = append(node.Status.Addresses,
			corev1.NodeAddress{Type: corev1.NodeInternalIP, Address: s.address(m, 4)})
		ccmtest.CreateNode(t, shared.Client(t), node)
		want = append(want, route(cidr, s.address(m, 4)))
	}
	return want
}

// waitSteady waits until there are at least as many matching calls, and no more come for a while.
func (s *site) waitSteady(least int, which func(openstacktest.Call) bool) {
	s.t.Helper()
	const quiet = 300 * time.Millisecond
	last, since := -1, time.Now()
	waittest.Until(s.t,
		fmt.Sprintf("%d calls or more are in flight, and no others come", least),
		func() error {
			n := len(s.since(0, which))
			if n != last {
				last, since = n, time.Now()
			}
			if n < least || time.Since(since) < quiet {
				return fmt.Errorf("there are %d", n)
			}
			return nil
		})
}

// Leadership is lost while all calls that the first replica may have in flight wait for Neutron,
// and more work is queued. No request is being sent then, so the count begins before the loss and
// needs no allowance.
func TestLeadership_LostInTheMiddle_NothingChangesOpenStackAnyMore(t *testing.T) {
	t.Parallel()
	for name, lose := range map[string]func(*replica){
		"taken":   func(r *replica) { r.elector.Lose(errors.New("another has the lease")) },
		"expired": func(r *replica) { r.elector.ExpireClock() },
	} {
		t.Run(name, func(t *testing.T) {
			s := newSite(t)
			pairs := operations("port_update")
			s.Inject(openstacktest.Fault{Match: by("first", pairs), Hang: true})
			routing := configured(func(c *cloudconf.Config) { c.Route.RouterID = s.router })
			// The work exists before the route controller starts, so all of it is in the first
			// pass, which does not end.
			want := routeWork(t, s, "led-"+name, 40)
			first := ready(t, s, as("first"), routing, configured(unhurried))
			// For a node that is not ready, the replica calls the cloud, and discovers that its
			// time is over.
			notReady(t, s.addServer("led-marker-"+name))
			s.waitSteady(16, by("first", pairs))

			before := s.mark()
			lose(first)
			release := first.elector.WaitReleased(t)
			if !release.Drained || !errors.Is(release.Err, election.ErrLost) {
				t.Errorf(
					"the term was released as %+v, want that leadership was lost and all has drained", release)
			}
			s.noConnections()

			second := ready(t, s, as("second"), routing)
			s.waitRoutes(want...)
			s.waitCalls(before, len(want), by("second", pairs), "the second writes ports")
			if late := s.since(before, by("first", changes)); len(late) > 0 {
				t.Errorf("after the loss the first replica has sent:\n%s", describe(late))
			}
			second.unbroken()
		})
	}
}
