//go:build !race

// Upstream's service controller has a data race when it finds nodes and Services with load
// balancers at its start: its node worker reads what its service workers write. These tests run
// without the race detector.

package openstack_test

import (
	"errors"
	"testing"

	"github.com/fxccm/fxccm/provider/openstack/openstacktest"
)

// Leadership is lost while Octavia has the request and has not answered: the successor finds the
// load balancer, and does not create a second one.
func TestRestart_LeaderChangesInTheMiddleOfACreation_ThereIsOne(t *testing.T) {
	besideOthers(t)
	for name, fault := range map[string]openstacktest.Fault{
		"lead-unanswered":          {Operation: "loadbalancer_create", Hang: true, AfterEffect: true, Times: 1},
		"lead-not-carried-out":     {Operation: "loadbalancer_create", Hang: true, Times: 1},
		"lead-floating-unanswered": {Operation: "floating_ip_create", Hang: true, AfterEffect: true, Times: 1},
	} {
		t.Run(name, func(t *testing.T) {
			s := newBalancedSite(t)
			machines := s.addNodes(shared.Client(t), name)
			s.Inject(fault)
			first := serving(t, s, as("first"))
			createService(t, shared.Client(t), name)
			s.waitCalls(0, 1, by("first", operations(fault.Operation)), "the request is under way")
			first.elector.Lose(errors.New("another has the lease"))
			if release := first.elector.WaitReleased(t); !release.Drained {
				t.Errorf("the term was released as %+v", release)
			}
			before := s.mark()
			serving(t, s, as("second"))
			service := waitServed(t, shared.Client(t), name)
			s.waitShape(service, s.usual(service, machines...))
			if a, b := len(s.LoadBalancers()), len(s.FloatingIPs()); a != 1 || b != 1 {
				t.Errorf("there are %d load balancers and %d floating IPs, want one of each", a, b)
			}
			if late := s.since(before, by("first", changes)); len(late) > 0 {
				t.Errorf("after the loss the first has sent:\n%s", describe(late))
			}
			deleteService(t, shared.Client(t), name)
			s.wantNothingLeft()
		})
	}
}
