package openstack_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/fxccm/fxccm/ccm"
	"github.com/fxccm/fxccm/ccm/ccmtest"
	"github.com/fxccm/fxccm/provider/openstack/cloudconf"
	"github.com/fxccm/fxccm/provider/openstack/openstacktest"
)

// as has the replica tell its name in each request to OpenStack.
func as(name string) func(*launch) {
	return func(l *launch) { l.Name, l.Config.CloudProvider.UserAgents = name, []string{name} }
}

// by chooses the calls of a replica.
func by(name string, which func(openstacktest.Call) bool) func(openstacktest.Call) bool {
	return func(c openstacktest.Call) bool {
		return strings.Contains(c.UserAgent, name) && which(c)
	}
}

// routeWork creates n nodes that are initialised and want a route each, and returns the routes.
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

// waitSteady waits until there are so many such calls, and no more come for a while.
func (s *site) waitSteady(least int, which func(openstacktest.Call) bool) {
	s.t.Helper()
	const quiet = 300 * time.Millisecond
	last, since := -1, time.Now()
	ccmtest.Eventually(s.t,
		fmt.Sprintf("%d calls or more are in flight, and no others come", least),
		func(context.Context) (bool, error) {
			n := len(s.since(0, which))
			if n != last {
				last, since = n, time.Now()
			}
			if n < least || time.Since(since) < quiet {
				return false, fmt.Errorf("there are %d", n)
			}
			return true, nil
		})
}

// Leadership is lost while all that the first replica may have in flight waits for Neutron, and
// more is queued behind it. Nothing is just being sent then, so the count begins before the loss
// and needs no allowance.
func TestLeadership_LostInTheMiddle_NothingChangesOpenStackAnyMore(t *testing.T) {
	t.Parallel()
	for name, lose := range map[string]func(*replica){
		"taken":   func(r *replica) { r.elector.Lose(errors.New("another has the lease")) },
		"expired": func(r *replica) { r.elector.ExpireClock() },
	} {
		t.Run(name, func(t *testing.T) {
			s := newSite(t)
			s.Inject(openstacktest.Fault{Match: by("first", changes), Hang: true})
			routing := configured(func(c *cloudconf.Config) { c.Route.RouterID = s.router })
			// The work is there before the route controller is: it is all in the first pass, which
			// does not end.
			want := routeWork(t, s, "led-"+name, 40)
			first := ready(t, s, as("first"), routing, configured(unhurried))
			// A node that is not ready: the replica asks for it, and finds out by itself that its
			// time is over.
			notReady(t, s.addServer("led-marker-"+name))
			s.waitSteady(16, by("first", changes))

			before := s.mark()
			lose(first)
			release := first.elector.WaitReleased(t)
			if !release.Drained || !errors.Is(release.Err, ccm.ErrLeadershipLost) {
				t.Errorf(
					"the term was released as %+v, want that leadership was lost and all has drained", release)
			}
			s.noConnections()

			second := ready(t, s, as("second"), routing)
			s.waitRoutes(want...)
			if late := s.since(before, by("first", changes)); len(late) > 0 {
				t.Errorf("after the loss the first replica has sent:\n%s", describe(late))
			}
			if done := s.since(before, by("second", changes)); len(done) == 0 {
				t.Error("the second replica is not told apart")
			}
			second.unbroken()
		})
	}
}

// The process thinks that it leads, and is in the middle of a call whose first request has been
// answered. That its time is over is told to nobody: the next request, which would change
// something, is what finds out.
func TestLeadership_ExpiredBetweenTwoRequestsOfOneCall_TheSecondIsNotSent(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	routeWork(t, s, "between", 20)
	looksForPorts := func(c openstacktest.Call) bool {
		return strings.Contains(c.Query, "ip_address") && c.Operation == "port_list"
	}
	s.Inject(openstacktest.Fault{Match: looksForPorts, Delay: 700 * time.Millisecond})
	r := ready(t, s, as("frozen"), configured(unhurried), configured(func(c *cloudconf.Config) {
		c.Route.RouterID = s.router
	}))
	s.waitCalls(0, 1, looksForPorts, "the ports of next hops are looked for")
	r.elector.ExpireClock()
	release := r.elector.WaitReleased(t)
	if !release.Drained || !errors.Is(release.Err, ccm.ErrLeadershipLost) {
		t.Errorf("the term was released as %+v, want that leadership was lost and all has drained",
			release)
	}
	if made := s.since(0, changes); len(made) > 0 {
		t.Errorf("OpenStack was changed after the time was over:\n%s", describe(made))
	}
}

// On a stop calls in flight may end first, and then nothing is sent either.
func TestLeadership_Stopped_NothingChangesOpenStackAnyMore(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	s.Inject(openstacktest.Fault{Match: by("stopped", changes), Delay: 300 * time.Millisecond})
	want := routeWork(t, s, "stop", 40)
	r := ready(t, s, as("stopped"), configured(func(c *cloudconf.Config) {
		c.Route.RouterID = s.router
	}))
	s.waitCalls(0, 3, changes, "ports are changed")
	r.stop()
	before := s.mark()
	s.noConnections()

	ready(t, s, as("heir"), configured(func(c *cloudconf.Config) { c.Route.RouterID = s.router }))
	s.waitRoutes(want...)
	if late := s.since(before,
		by("stopped", func(openstacktest.Call) bool { return true })); len(late) > 0 {
		t.Errorf("after its end the replica has sent:\n%s", describe(late))
	}
}

func TestTerms_TwentyLeaveNothingBehind(t *testing.T) {
	const terms = 20
	s := newSite(t)
	// Each pass asks for it, by which the replica notices that its time is over.
	notReady(t, s.addServer("terms-marker"))
	before := ccmtest.IgnoringCurrent()
	r := ready(t, s, configured(func(c *cloudconf.Config) { c.Route.RouterID = s.router }))
	lose := func() { r.elector.Lose(errors.New("another has the lease")) }
	ends := []func(){lose, r.elector.ExpireClock, r.stop, func() {
		// In the middle of a call.
		remove := s.Inject(openstacktest.Fault{Operation: "server_*", Hang: true})
		defer remove()
		s.waitCalls(s.mark(), 1, operations("server_*"), "servers are asked for")
		lose()
		r.elector.WaitReleased(t)
	}}
	for term := range terms {
		m := s.addServer(fmt.Sprintf("terms-%d", term))
		tainted(t, m.name, ccmtest.NodePodCIDRs("10.244.1.0/24"))
		s.waitRoutes(route("10.244.1.0/24", s.address(m, 4)))
		deleteNode(t, m.name)
		s.waitRoutes()
		ends[term%len(ends)]()
		if release := r.elector.WaitReleased(t); !release.Drained {
			t.Fatalf("term %d was released as %+v", term+1, release)
		}
		s.noConnections()
		// After a loss a Manager waits a second before it leads again; one that is started anew
		// does not.
		r.stop()
		if term+1 < terms {
			r.elector.Lead()
			r.run()
			ccmtest.WaitReady(t, r.Manager)
		}
	}
	ccmtest.VerifyNoLeaks(t, before)
	if got := r.Status().Term; got != terms {
		t.Errorf("there were %d terms, want %d", got, terms)
	}
	if logins := s.logins(0); logins != terms {
		t.Errorf("there were %d logins in %d terms, want one in each", logins, terms)
	}
}
