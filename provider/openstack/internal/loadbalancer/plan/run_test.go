package plan

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	clocktesting "k8s.io/utils/clock/testing"

	"github.com/fxccm/fxccm/internal/waittest"
	"github.com/fxccm/fxccm/provider/openstack/internal/failure"
	"github.com/fxccm/fxccm/provider/openstack/internal/loadbalancer/neutron"
	"github.com/fxccm/fxccm/provider/openstack/internal/loadbalancer/octavia"
	"github.com/fxccm/fxccm/provider/openstack/openstacktest"
)

// A change that comes in time is cheaper than a look, unless many share the look.
func TestRun_UsualDurationIsKnown_NextChangeIsTriedWithoutALook(t *testing.T) {
	s := newSlowSite(t, 6*time.Second)
	start, lb := s.add("lb")
	port := 80
	run := func(timeout time.Duration) {
		t.Helper()
		var steps []Step
		for range 2 {
			port++
			steps = append(steps, CreateListener{
				LoadBalancer: Ref{ID: lb.ID},
				Listener: octavia.Listener{
					Name: fmt.Sprint("l-", port), Protocol: octavia.TCP, Port: port,
					ConnectionLimit: -1,
				},
			})
		}
		_, err := s.run(start, timeout, steps...)
		s.must(err)
	}
	settle := func() {
		t.Helper()
		_, err := s.runner.Octavia.Settled(t.Context(), lb.ID, octavia.PendingUpdate,
			unlimited)
		s.must(err)
		s.ForgetCalls()
	}
	const create, look = "loadbalancer_listener_create", "loadbalancer_get"
	want := func(refusals int, operations ...string) {
		t.Helper()
		got := slices.Compact(s.operations())
		if !slices.Equal(got, operations) || s.refusals() != refusals {
			t.Errorf("the requests are %v, of which %d were refused; want %v and %d", got,
				s.refusals(), operations, refusals)
		}
		settle()
	}
	run(unlimited)
	want(0, create, look, create)
	run(0)
	want(0, create)

	// Others that were busy a moment ago will be busy again.
	for n := range 10 {
		s.runner.Octavia.Begin(fmt.Sprint("other-", n), octavia.PendingUpdate)
	}
	for n := range 10 {
		_, err := s.runner.Octavia.Get(t.Context(), fmt.Sprint("other-", n))
		if !errors.Is(err, octavia.ErrNotFound) {
			t.Fatal(err)
		}
	}
	s.ForgetCalls()
	run(unlimited)
	want(0, create, look, create)

	remove := s.Provision(openstacktest.ProvisioningRule{Duration: 20 * time.Second, Times: 1})
	run(unlimited)
	remove()
	want(1, create, look, create)

	s.runner.Octavia.Begin("another", octavia.PendingUpdate)
	run(unlimited)
	want(0, create, look, create)
}

func TestRun_NewLoadBalancer_HasItsFloatingIPWhilePending(t *testing.T) {
	s := newSlowSite(t, time.Minute)
	s.ForgetCalls()
	done, err := s.run(nil, 0,
		CreateLoadBalancer{LoadBalancer: wantedBalancer(s)},
		CreateFloatingIP{LoadBalancer: lbRef(), Wanted: wantedIP(s)},
	)
	s.must(err)
	if got, want := s.operations(),
		[]string{
			"loadbalancer_create", "floating_ip_create",
			"floating_ip_tag_replace",
		}; !slices.Equal(got, want) {
		t.Errorf("the requests are %v, want %v", got, want)
	}
	lb := s.is("lb")
	if lb.ProvisioningStatus != openstacktest.StatusPendingCreate ||
		done.LoadBalancer.Status != octavia.PendingCreate ||
		s.FloatingIPs()[0].PortID != lb.VIPPortID {
		t.Errorf("the load balancer is %s, in the result %s, and the floating IP is %+v",
			lb.ProvisioningStatus,
			done.LoadBalancer.Status, s.FloatingIPs()[0])
	}
}

func TestRun_PendingForEver_EndsWithTheStepThatWaits(t *testing.T) {
	for _, timeout := range []time.Duration{0, 4 * time.Second, 5 * time.Minute} {
		t.Run(timeout.String(), func(t *testing.T) {
			s := newSlowSite(t, time.Second)
			s.Provision(openstacktest.ProvisioningRule{Never: true})
			begin := s.time.Now()
			listener := CreateListener{LoadBalancer: lbRef(), Listener: tcpListener()}
			done, err := s.run(nil, timeout,
				CreateLoadBalancer{LoadBalancer: wantedBalancer(s), Bare: true},
				CreateFloatingIP{LoadBalancer: lbRef(), Wanted: wantedIP(s)},
				listener,
				CreatePool{LoadBalancer: lbRef(), Pool: tcpPool()},
			)
			took := s.time.Since(begin)
			var pending *PendingError
			if !errors.As(err, &pending) || !errors.Is(err, octavia.ErrPending) {
				t.Fatalf("the error is %v", err)
			}
			if pending.LoadBalancerID != s.is("lb").ID ||
				pending.Status != octavia.PendingCreate ||
				!strings.Contains(err.Error(), listener.String()) {
				t.Errorf("the error holds %+v: %v", pending, err)
			}
			if len(done.Done) != 2 || done.FloatingIP == nil ||
				done.LoadBalancer.VIP.PortID == "" ||
				done.LoadBalancer.Status != octavia.PendingCreate {
				t.Errorf("the result is %+v", done)
			}
			// No read comes after the timeout. The clock advances by half seconds.
			if took < timeout-15*time.Second || took > timeout+time.Second {
				t.Errorf("the run took %s", took)
			}
			if s.refusals() != 0 {
				t.Errorf("%d changes were refused", s.refusals())
			}
		})
	}
}

func TestRun_PortIsClosedAfterTheMembers_OctaviaHasChangedThem(t *testing.T) {
	for provider, isEarly := range map[string]bool{
		"amphora": false, octavia.ProviderOVN: true,
	} {
		t.Run(provider, func(t *testing.T) {
			s := newSlowSite(t, time.Minute)
			rule := s.AddSecurityGroupRule(openstacktest.SecurityGroupRule{
				SecurityGroupID: s.AddSecurityGroup(openstacktest.SecurityGroup{Name: "nodes"}),
				Direction:       "ingress",
			})
			isOpen := func() bool {
				return slices.ContainsFunc(s.SecurityGroupRules(),
					func(r openstacktest.SecurityGroupRule) bool { return r.ID == rule })
			}
			start, lb := s.add("lb")
			start.Provider = provider
			closing := DeleteRule{ID: rule, AfterMembers: true}
			done, err := s.run(start, 0,
				UpdateLoadBalancer{ID: lb.ID, Name: "lb", Tags: []string{"a"}}, closing)
			if !errors.Is(err, octavia.ErrPending) || len(done.Done) != 1 || !isOpen() {
				t.Fatalf("the port is open: %t; the result is %+v, %v", isOpen(), done, err)
			}
			// Only the state of the load balancer shows that the change of this run is over.
			start.Status = octavia.PendingUpdate
			_, err = s.run(start, unlimited, closing)
			if isEarly {
				if !errors.Is(err, octavia.ErrPending) || !isOpen() {
					t.Errorf("the port is open: %t; the error is %v", isOpen(), err)
				}
				start = s.seen(lb.ID)
				start.Provider, start.Status = provider, octavia.Active
				_, err = s.run(start, unlimited, closing)
			}
			s.must(err)
			if is := s.is(lb.ID).ProvisioningStatus; !isEarly && is != openstacktest.StatusActive {
				t.Errorf("the load balancer is %s", is)
			}
			if isOpen() {
				t.Error("the port is not closed")
			}
		})
	}
}

func TestRun_Busy_IsWaitedForAndTriedAgain(t *testing.T) {
	for name, step := range map[string]func(openstacktest.LoadBalancer) Step{
		"the load balancer itself": func(lb openstacktest.LoadBalancer) Step {
			return UpdateLoadBalancer{ID: lb.ID, Name: "lb", Tags: []string{"a"}}
		},
		"what is below it": func(lb openstacktest.LoadBalancer) Step {
			return DeleteListener{ID: lb.Listeners[0].ID, Name: "listener_0"}
		},
		"a creation": func(lb openstacktest.LoadBalancer) Step {
			return CreateListener{
				LoadBalancer: Ref{ID: lb.ID},
				Listener: octavia.Listener{
					Name: "l", Protocol: octavia.TCP, Port: 81,
					ConnectionLimit: -1,
				},
			}
		},
		"its deletion": func(lb openstacktest.LoadBalancer) Step {
			return DeleteLoadBalancer{ID: lb.ID, Name: "lb", Cascade: true}
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := newSlowSite(t, 0)
			start, lb := s.add("lb")
			remove := s.Provision(
				openstacktest.ProvisioningRule{Duration: 7 * time.Second, Times: 1})
			defer remove()
			// Another client changes the load balancer.
			_, err := s.run(start, 0,
				UpdateLoadBalancer{ID: lb.ID, Name: "lb", Tags: []string{"theirs"}})
			s.must(err)
			s.ForgetCalls()
			start.Tags = []string{"theirs"}

			_, err = s.run(start, time.Minute, step(lb))
			s.must(err)
			if s.refusals() != 1 || len(s.changes()) != 2 {
				t.Errorf("the requests are %v, of which %d were refused", s.operations(),
					s.refusals())
			}
		})
	}
}

func TestRun_UncertainDeletion_IsReadBeforeARetry(t *testing.T) {
	for name, fault := range map[string]openstacktest.Fault{
		"502": {Status: http.StatusBadGateway}, "504, carried out": {Status: http.StatusGatewayTimeout, AfterEffect: true},
		"no answer": {Drop: true}, "no answer, carried out": {Drop: true, AfterEffect: true},
	} {
		for what, step := range map[string]func(openstacktest.LoadBalancer) Step{
			"listener": func(lb openstacktest.LoadBalancer) Step {
				return DeleteListener{ID: lb.Listeners[0].ID}
			},
			"load balancer": func(lb openstacktest.LoadBalancer) Step {
				return DeleteLoadBalancer{ID: lb.ID, Cascade: true}
			},
		} {
			t.Run(name+", "+what, func(t *testing.T) {
				s := newSlowSite(t, 5*time.Second)
				start, lb := s.add("lb")
				s.ForgetCalls()
				fault.Match, fault.Times = isChange, 1
				s.Inject(fault)
				_, err := s.run(start, time.Minute, step(lb))
				s.must(err)
				calls := s.operations()
				again := slices.Index(calls[1:], calls[0]) + 1
				switch {
				case !slices.ContainsFunc(calls[1:], func(o string) bool {
					return o == "loadbalancer_get" || o == "loadbalancer_list"
				}):
					t.Errorf("the load balancer was not read: %v", calls)
				case again > 0 && again < 2:
					t.Errorf("the deletion is repeated before the load balancer was read: %v",
						calls)
				case s.refusals() > 0:
					t.Errorf("the deletion is requested while Octavia is at work: %v", calls)
				}
			})
		}
	}
}

// An outcome that stays uncertain is an error.
func TestRun_DeletionThatStaysUncertain_IsAnError(t *testing.T) {
	s := newSlowSite(t, 0)
	start, lb := s.add("lb")
	s.ForgetCalls()
	s.Inject(openstacktest.Fault{Match: isChange, Status: http.StatusBadGateway})
	_, err := s.run(start, time.Minute, DeleteListener{ID: lb.Listeners[0].ID})
	if !errors.Is(err, octavia.ErrUncertain) || len(s.changes()) != 2 {
		t.Errorf("%v; the requests are %v", err, s.operations())
	}
}

func TestRun_BusyForEver_IsPending(t *testing.T) {
	s := newSlowSite(t, 0)
	start, lb := s.add("lb")
	s.must(s.SetProvisioningStatus(lb.ID, openstacktest.StatusPendingUpdate))
	done, err := s.run(start, 4*time.Second,
		UpdateLoadBalancer{ID: lb.ID, Name: "lb", Tags: []string{"a"}})
	var pending *PendingError
	if !errors.As(err, &pending) || pending.Status != octavia.PendingUpdate ||
		len(done.Done) != 0 {
		t.Errorf("%v, %+v", err, done)
	}
	if n := s.refusals(); n != 1 {
		t.Errorf("%d attempts were made", n)
	}
}

// A pool can be busy, or in ERROR, while its load balancer is ACTIVE.
func TestRun_BusyPool_IsTriedWithPauses(t *testing.T) {
	s := newSlowSite(t, 0)
	start, lb := s.add("lb")
	pool := lb.Pools[0].ID
	s.must(s.SetProvisioningStatus(pool, openstacktest.StatusError))
	step := SetMembers{
		Pool: Ref{ID: pool}, PoolName: "pool_0",
		Members: []octavia.Member{member("node-2", "10.0.0.102")},
	}
	_, err := s.run(start, 10*time.Second, step)
	var pending *PendingError
	if !errors.As(err, &pending) || !errors.Is(err, octavia.ErrPending) ||
		pending.Status != octavia.Active || !strings.Contains(err.Error(), "immutable") {
		t.Errorf("the error is %v", err)
	}
	if n := s.refusals(); n < 3 || n > 13 {
		t.Errorf("%d attempts were made in 10 s", n)
	}

	mended := make(chan error, 1)
	s.ForgetCalls()
	go func() {
		_, err := s.WaitForCall(t.Context(),
			func(c openstacktest.Call) bool { return c.Status == http.StatusConflict })
		mended <- errors.Join(err, s.SetProvisioningStatus(pool, openstacktest.StatusActive))
	}()
	_, err = s.run(start, unlimited, step)
	s.must(errors.Join(err, <-mended))
	if m := s.is("lb").Pools[0].Members; len(m) != 1 || m[0].Name != "node-2" {
		t.Errorf("the members are %+v", m)
	}
}

// A retry does not resolve other conflicts.
func TestRun_OtherConflict_IsAnError(t *testing.T) {
	s := newRunSite(t)
	start, lb := s.add("lb")
	_, err := s.run(start, unlimited,
		CreateListener{LoadBalancer: Ref{ID: lb.ID}, Listener: tcpListener()})
	if err == nil || errors.Is(err, octavia.ErrPending) ||
		!strings.Contains(err.Error(), "already using") || len(s.changes()) != 1 {
		t.Errorf("%v; the requests are %v", err, s.operations())
	}
}

func TestRun_LoadBalancerInError_Stops(t *testing.T) {
	s := newSlowSite(t, time.Second)
	s.Provision(openstacktest.ProvisioningRule{Fail: true})
	done, err := s.run(nil, unlimited,
		CreateLoadBalancer{LoadBalancer: wantedBalancer(s), Bare: true},
		CreateListener{LoadBalancer: lbRef(), Listener: tcpListener()},
		CreatePool{LoadBalancer: lbRef(), Pool: tcpPool()},
	)
	if !errors.Is(err, ErrFailed) || len(done.Done) != 1 ||
		done.LoadBalancer.Status != octavia.InError {
		t.Errorf("%v, %+v", err, done)
	}
	if len(s.changes()) != 1 {
		t.Errorf("the requests are %v", s.operations())
	}
}

// The load balancer may be in ERROR before the run, known from the last read or from a refusal.
func TestRun_LoadBalancerFoundInError_Stops(t *testing.T) {
	for name, step := range map[string]func(openstacktest.LoadBalancer) Step{
		"itself": func(lb openstacktest.LoadBalancer) Step {
			return UpdateLoadBalancer{ID: lb.ID, Tags: []string{"a"}}
		},
		"what is below it": func(lb openstacktest.LoadBalancer) Step {
			return DeleteListener{ID: lb.Listeners[0].ID}
		},
	} {
		s := newRunSite(t)
		start, lb := s.add("lb")
		s.must(s.SetProvisioningStatus(lb.ID, openstacktest.StatusError))
		if _, err := s.run(start, unlimited, step(lb)); !errors.Is(err, ErrFailed) ||
			len(s.changes()) != 1 {
			t.Errorf("%s: %v; the requests are %v", name, err, s.operations())
		}
		s.ForgetCalls()
		start.Status = octavia.InError
		if _, err := s.run(start, unlimited, step(lb)); !errors.Is(err, ErrFailed) ||
			len(s.Calls()) != 0 {
			t.Errorf("%s, seen in ERROR: %v; the requests are %v", name, err, s.operations())
		}
	}
}

func TestRun_WhatMendsError_IsDoneInError(t *testing.T) {
	for name, step := range map[string]func(id string) Step{
		"failover": func(id string) Step {
			return FailoverLoadBalancer{ID: id, Name: "lb"}
		},
		"deletion": func(id string) Step {
			return DeleteLoadBalancer{ID: id, Name: "lb", Cascade: true}
		},
	} {
		s := newSlowSite(t, time.Second)
		start, lb := s.add("lb")
		s.Provision(openstacktest.ProvisioningRule{Fail: true, Times: 1})
		// The first change ends in ERROR, which the second one finds while it waits.
		_, err := s.run(start, unlimited,
			UpdateLoadBalancer{ID: lb.ID, Name: "lb", Tags: []string{"a"}}, step(lb.ID))
		if err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestRun_WhatIsGone_IsErrGone(t *testing.T) {
	gone := "00000000-0000-4000-8000-000000000000"
	for _, step := range []Step{
		UpdateLoadBalancer{ID: gone},
		FailoverLoadBalancer{ID: gone},
		UpdateListener{ID: gone, Listener: tcpListener()},
		CreateListener{LoadBalancer: Ref{ID: gone}, Listener: tcpListener()},
		UpdatePool{ID: gone, Pool: tcpPool()},
		SetMembers{
			Pool:    Ref{ID: gone},
			Members: []octavia.Member{member("n", "10.0.0.1")},
		},
		CreateMember{Pool: Ref{ID: gone}, Member: member("n", "10.0.0.1")},
		UpdateMember{PoolID: gone, ID: gone, Member: member("n", "10.0.0.1")},
		CreateMonitor{Pool: Ref{ID: gone}, Monitor: tcpMonitor()},
		UpdateMonitor{ID: gone, Monitor: tcpMonitor()},
		CreateRule{Group: Ref{ID: gone}, Rule: rule(1)},
	} {
		s := newRunSite(t)
		start, _ := s.add("lb")
		if _, err := s.run(start, unlimited, step,
			UpdateLoadBalancer{ID: start.ID, Tags: []string{"a"}}); !errors.Is(err, ErrGone) ||
			len(s.changes()) != 1 {
			t.Errorf("%s: %v; the requests are %v", step, err, s.operations())
		}
	}
}

func TestRun_LoadBalancerGoneWhileWaitedFor_IsErrGone(t *testing.T) {
	s := newSlowSite(t, time.Hour)
	start, lb := s.add("lb")
	_, err := s.run(start, 0, UpdateLoadBalancer{ID: lb.ID, Tags: []string{"a"}})
	s.must(err)
	start.Status = octavia.PendingUpdate
	s.must(s.DeleteLoadBalancer(lb.ID))
	if _, err := s.run(start, unlimited,
		DeleteListener{ID: lb.Listeners[0].ID}); !errors.Is(err, ErrGone) {
		t.Errorf("the error is %v", err)
	}
}

// A plan that ends with a tag write, or with the deletion of the load balancer, takes time. Changes
// of other clients meanwhile stop it.
func TestRun_TagsChangeMeanwhile_IsErrChanged(t *testing.T) {
	for name, last := range map[string]func(id string) Step{
		"tags": func(id string) Step {
			return UpdateLoadBalancer{ID: id, Tags: []string{}}
		},
		"deletion": func(id string) Step {
			return DeleteLoadBalancer{ID: id, Cascade: true}
		},
	} {
		for when, before := range map[string]bool{
			"before the first step": true,
			"after it":              false,
		} {
			s := newSlowSite(t, time.Second)
			start, lb := s.add("lb")
			given := func() {
				s.must(s.ChangeLoadBalancer(lb.ID, func(lb *openstacktest.LoadBalancer) {
					lb.Tags = []string{"fxccm-cluster=another"}
				}))
			}
			steps := []Step{
				DeletePool{ID: lb.Pools[0].ID},
				DeleteListener{ID: lb.Listeners[0].ID},
				last(lb.ID),
			}
			wanted := steps[:2]
			if before {
				given()
				wanted = nil
			} else {
				s.after = given
			}
			done, err := s.run(start, unlimited, steps...)
			if !errors.Is(err, ErrChanged) || !strings.Contains(err.Error(), lb.ID) ||
				names(done.Done) != names(wanted) || len(s.changes()) != len(wanted) {
				t.Errorf("%s, %s: %v; the completed steps are\n%s",
					name, when, err, names(done.Done))
			}
			if now := s.is(lb.ID); !slices.Equal(now.Tags, []string{"fxccm-cluster=another"}) {
				t.Errorf("%s, %s: the tags are %q", name, when, now.Tags)
			}
		}
	}
}

// Another client that read the tags earlier writes its own list. The load balancer may belong to
// that client now, so the other steps are not taken.
func TestRun_WrittenTagsAreLost_IsErrChanged(t *testing.T) {
	s := newSlowSite(t, time.Second)
	start, lb := s.add("lb")
	s.after = func() {
		s.must(s.ChangeLoadBalancer(lb.ID, func(lb *openstacktest.LoadBalancer) {
			lb.Tags = []string{"fxccm-cluster=another"}
		}))
	}
	done, err := s.run(start, unlimited,
		UpdateLoadBalancer{ID: lb.ID, Tags: []string{"fxccm-cluster=own"}},
		DeleteListener{ID: lb.Listeners[0].ID})
	if !errors.Is(err, ErrChanged) || !strings.Contains(err.Error(), "fxccm-cluster=own") ||
		len(done.Done) != 1 || len(s.changes()) != 1 {
		t.Errorf("%v; the completed steps are\n%s", err, names(done.Done))
	}
}

// Octavia accepts a deletion, and shows its failure later: the load balancer is ACTIVE then, and
// the part is in ERROR.
func TestSeeDeleted_WhatIsThere_IsAnError(t *testing.T) {
	s := newSlowSite(t, time.Second)
	start, lb := s.add("lb")
	listener, pool := lb.Listeners[0].ID, lb.Pools[0].ID
	_, err := s.run(start, 0, UpdateLoadBalancer{ID: lb.ID, Tags: []string{"a"}})
	s.must(err)
	start.Status, start.Tags = octavia.PendingUpdate, []string{"a"}
	s.must(s.SetProvisioningStatus(listener, openstacktest.StatusError))
	after := UpdateLoadBalancer{ID: lb.ID, Tags: []string{}}
	done, err := s.run(start, unlimited,
		SeeDeleted{LoadBalancerID: lb.ID, IDs: []string{"other", listener, pool}}, after)
	if !errors.Is(err, errNotDeleted) || len(done.Done) > 0 {
		t.Fatalf("the error is %v; the completed steps are\n%s", err, names(done.Done))
	}
	for _, id := range []string{listener, pool} {
		if !strings.Contains(err.Error(), id) {
			t.Errorf("%q does not name %s", err, id)
		}
	}
	if now := s.is(lb.ID); now.ProvisioningStatus != openstacktest.StatusActive ||
		!slices.Equal(now.Tags, []string{"a"}) {
		t.Errorf("the load balancer is %s, with the tags %q", now.ProvisioningStatus, now.Tags)
	}
	_, err = s.run(s.seen(lb.ID), unlimited,
		SeeDeleted{LoadBalancerID: lb.ID, IDs: []string{"other"}}, after)
	s.must(err)
	s.must(s.DeleteLoadBalancer(lb.ID))
	if _, err := s.run(start, unlimited,
		SeeDeleted{LoadBalancerID: lb.ID, IDs: []string{listener}}); !errors.Is(err, ErrGone) {
		t.Errorf("with the load balancer gone the error is %v", err)
	}
}

func TestDeleteLoadBalancer_Pending_IsWaitedFor(t *testing.T) {
	s := newSlowSite(t, 5*time.Second)
	start, lb := s.add("lb")
	_, err := s.run(start, 0, UpdateLoadBalancer{ID: lb.ID, Tags: []string{"a"}})
	s.must(err)
	s.ForgetCalls()
	start.Status, start.Tags = octavia.PendingUpdate, []string{"a"}
	done, err := s.run(start, unlimited, DeleteLoadBalancer{ID: lb.ID, Cascade: true})
	s.must(err)
	if s.refusals() != 0 || len(s.changes()) != 1 ||
		done.LoadBalancer.Status != octavia.PendingDelete {
		t.Errorf("the requests are %v, the result is %+v", s.operations(), done)
	}
}

func TestDeleteLoadBalancer_BeingDeleted_IsDone(t *testing.T) {
	s := newRunSite(t)
	start, lb := s.add("lb")
	s.must(s.SetProvisioningStatus(lb.ID, openstacktest.StatusPendingDelete))
	step := DeleteLoadBalancer{ID: lb.ID, Cascade: true}
	// The load balancer was last seen before that.
	done, err := s.run(start, 0, step)
	if err != nil || done.LoadBalancer.Status != octavia.PendingDelete {
		t.Errorf("found in PENDING_DELETE: %v, %+v", err, done)
	}
	s.ForgetCalls()
	start.Status = octavia.PendingDelete
	done, err = s.run(start, 0, step)
	if err != nil || len(s.Calls()) != 0 {
		t.Errorf("seen in PENDING_DELETE: %v; the requests are %v", err, s.operations())
	}
}

func TestDeleteLoadBalancer_Gone_IsDone(t *testing.T) {
	for _, status := range []octavia.Status{
		octavia.Active, octavia.PendingUpdate,
		octavia.Deleted,
	} {
		s := newRunSite(t)
		start, lb := s.add("lb")
		s.must(s.DeleteLoadBalancer(lb.ID))
		start.Status = status
		if _, err := s.run(start, 0,
			DeleteLoadBalancer{ID: lb.ID, Cascade: true}); err != nil {
			t.Errorf("%s: %v", status, err)
		}
	}
}

// The new load balancer can have the address of the old one only after that is gone.
func TestRecreation_WaitsUntilTheOldOneIsGone(t *testing.T) {
	s := newSlowSite(t, 20*time.Second)
	start, old := s.add("lb")
	ip := s.AddFloatingIP(
		openstacktest.FloatingIP{
			NetworkID: s.external, SubnetID: s.floating, PortID: old.VIPPortID,
		})
	recreated := wantedBalancer(s)
	recreated.VIP.Address = old.VIPAddress
	done, err := s.run(start, unlimited,
		DetachFloatingIP{ID: ip},
		DeleteLoadBalancer{ID: old.ID, Cascade: true},
		CreateLoadBalancer{LoadBalancer: recreated},
		AttachFloatingIP{LoadBalancer: lbRef(), ID: ip, Address: s.FloatingIPs()[0].Address},
	)
	s.must(err)
	lb := s.is("lb")
	if lb.ID == old.ID || lb.VIPAddress != old.VIPAddress ||
		s.FloatingIPs()[0].PortID != lb.VIPPortID || done.LoadBalancer.ID != lb.ID ||
		len(s.LoadBalancers()) != 1 {
		t.Errorf("the load balancer is %+v, the floating IP %+v", lb, s.FloatingIPs()[0])
	}
}

func TestRecreation_OldOneStays_MakesNoSecond(t *testing.T) {
	for name, rule := range map[string]openstacktest.ProvisioningRule{
		"pending":  {Never: true},
		"in ERROR": {Fail: true},
	} {
		s := newSlowSite(t, time.Second)
		start, old := s.add("lb")
		s.Provision(rule)
		done, err := s.run(start, 4*time.Second,
			DeleteLoadBalancer{ID: old.ID, Cascade: true},
			CreateLoadBalancer{LoadBalancer: wantedBalancer(s)},
		)
		wanted := map[string]error{"pending": octavia.ErrPending, "in ERROR": ErrFailed}[name]
		if !errors.Is(err, wanted) || len(done.Done) != 1 || len(s.LoadBalancers()) != 1 ||
			done.LoadBalancer.ID != old.ID {
			t.Errorf("%s: %v, %+v", name, err, done)
		}
	}
}

func TestRecreation_OldOneIsThereAfterAll_MakesNoSecond(t *testing.T) {
	s := newRunSite(t)
	start, _ := s.add("lb")
	start.Status = octavia.PendingDelete
	if _, err := s.run(start, 0,
		CreateLoadBalancer{LoadBalancer: wantedBalancer(s)}); err == nil ||
		len(s.changes()) != 0 {
		t.Errorf("%v; the requests are %v", err, s.operations())
	}
}

func TestCreateFloatingIP_FullSubnet_TheNextIsTried(t *testing.T) {
	s := newRunSite(t)
	start, _ := s.add("lb")
	wanted := wantedIP(s)
	wanted.SubnetIDs = []string{s.small, s.floating}
	s.AddFloatingIP(openstacktest.FloatingIP{NetworkID: s.external, SubnetID: s.small})
	step := CreateFloatingIP{LoadBalancer: Ref{ID: start.ID}, Wanted: wanted}
	done, err := s.run(start, 0, step)
	s.must(err)
	if !strings.HasPrefix(done.FloatingIP.Address, "203.0.113.") || len(s.FloatingIPs()) != 2 {
		t.Errorf("the floating IP is %+v", done.FloatingIP)
	}

	wanted.SubnetIDs = []string{s.small, s.small}
	if _, err := s.run(start, 0,
		CreateFloatingIP{LoadBalancer: Ref{ID: start.ID}, Wanted: wanted}); !errors.Is(
		err, neutron.ErrNoAddress) {
		t.Errorf("without a free address: %v", err)
	}
}

func TestCreateFloatingIP_OtherRefusals_EndIt(t *testing.T) {
	s := newRunSite(t)
	start, _ := s.add("lb")
	wanted := wantedIP(s)
	wanted.SubnetIDs = []string{s.small, s.floating}
	s.SetNetworkQuota("floatingip", 0)
	s.ForgetCalls()
	if _, err := s.run(start, 0,
		CreateFloatingIP{LoadBalancer: Ref{ID: start.ID}, Wanted: wanted}); !failure.Of(
		err).IsQuota() || len(s.changes()) != 1 {
		t.Errorf("%v; the requests are %v", err, s.operations())
	}
}

func TestCreateFloatingIP_WithoutSubnet_IsNeutronsChoice(t *testing.T) {
	s := newRunSite(t)
	start, _ := s.add("lb")
	wanted := wantedIP(s)
	wanted.SubnetIDs = nil
	done, err := s.run(start, 0,
		CreateFloatingIP{LoadBalancer: Ref{ID: start.ID}, Wanted: wanted})
	s.must(err)
	if done.FloatingIP.PortID != start.VIP.PortID {
		t.Errorf("the floating IP is %+v", done.FloatingIP)
	}
}

// The floating IP is in the result all the same, so that it is not created again.
func TestCreateFloatingIP_ThatCannotBeTagged_IsInTheResult(t *testing.T) {
	s := newRunSite(t)
	start, _ := s.add("lb")
	s.Inject(openstacktest.Fault{Operation: "floating_ip_tag_replace", Status: 500})
	done, err := s.run(start, 0,
		CreateFloatingIP{LoadBalancer: Ref{ID: start.ID}, Wanted: wantedIP(s)})
	if err == nil || done.FloatingIP == nil || done.FloatingIP.ID != s.FloatingIPs()[0].ID ||
		len(done.Done) != 0 {
		t.Errorf("%v, %+v", err, done)
	}
}

func TestFloatingIP_MadeBeforeItsLoadBalancer_IsAttachedToIt(t *testing.T) {
	s := newRunSite(t)
	done, err := s.run(nil, 0,
		CreateFloatingIP{Wanted: wantedIP(s)},
		CreateLoadBalancer{LoadBalancer: wantedBalancer(s)},
		AttachFloatingIP{LoadBalancer: lbRef()},
	)
	s.must(err)
	ip := s.FloatingIPs()[0]
	if ip.PortID != s.is("lb").VIPPortID || done.FloatingIP.Address != ip.Address ||
		done.FloatingIP.PortID != ip.PortID {
		t.Errorf("the floating IP is %+v, in the result %+v", ip, done.FloatingIP)
	}
}

func TestRun_ReferenceToNothing_MakesNoRequest(t *testing.T) {
	nothing := Ref{Made: "nothing"}
	for _, step := range []Step{
		CreateListener{LoadBalancer: lbRef(), Listener: tcpListener()},
		CreateListener{LoadBalancer: lbRef(), Listener: tcpListener(), Pool: nothing},
		UpdateListener{ID: "id", Listener: tcpListener(), Pool: nothing},
		CreatePool{LoadBalancer: lbRef(), Pool: tcpPool()},
		CreatePool{LoadBalancer: lbRef(), Pool: tcpPool(), Listener: nothing},
		SetMembers{Pool: nothing},
		SetMembers{},
		CreateMember{Pool: nothing},
		CreateMonitor{Pool: nothing, Monitor: tcpMonitor()},
		CreateFloatingIP{LoadBalancer: lbRef(), Wanted: neutron.WantedFloatingIP{}},
		AttachFloatingIP{LoadBalancer: lbRef(), ID: "id"},
		CreateRule{Group: groupRef()},
		AddGroup{Group: groupRef()},
		DeleteListener{},
		DeleteLoadBalancer{},
	} {
		s := newRunSite(t)
		s.ForgetCalls()
		if _, err := s.run(nil, unlimited, step); err == nil || len(s.Calls()) != 0 {
			t.Errorf("%s: %v; the requests are %v", step, err, s.operations())
		}
	}
}

// A floating IP must not point to another load balancer than the one of the step.
func TestAttachFloatingIP_OfWhatIsNotKnown_IsAnError(t *testing.T) {
	s := newRunSite(t)
	start, _ := s.add("lb")
	for _, step := range []Step{
		AttachFloatingIP{LoadBalancer: Ref{ID: "other"}, ID: "id"},
		AttachFloatingIP{LoadBalancer: Ref{ID: start.ID}},
	} {
		if _, err := s.run(start, 0, step); err == nil || len(s.Calls()) != 0 {
			t.Errorf("%s: %v; the requests are %v", step, err, s.operations())
		}
	}
}

func TestRun_Canceled_DoesNothing(t *testing.T) {
	s := newRunSite(t)
	start, lb := s.add("lb")
	why := errors.New("the term is over")
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(why)
	done, err := s.runner.Run(ctx,
		Plan{Steps: []Step{DeleteLoadBalancer{ID: lb.ID, Cascade: true}}},
		start, 0)
	if !errors.Is(err, why) || len(done.Done) != 0 || len(s.Calls()) != 0 {
		t.Errorf("%v; the requests are %v", err, s.operations())
	}
}

func TestRun_CanceledWhileItWaits_EndsAtOnce(t *testing.T) {
	s := newSlowSite(t, time.Second)
	s.Provision(openstacktest.ProvisioningRule{Never: true})
	start, lb := s.add("lb")
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	ended := make(chan error, 1)
	go func() {
		_, err := s.runner.Run(ctx, Plan{Steps: []Step{
			UpdateLoadBalancer{ID: lb.ID, Tags: []string{"a"}},
			DeleteLoadBalancer{ID: lb.ID, Cascade: true},
		}}, start, 1<<62)
		ended <- err
	}()
	waittest.Until(t, "the load balancer is read repeatedly",
		func() bool { return len(s.Calls()) > 5 })
	cancel()
	if err := <-ended; !errors.Is(err, context.Canceled) {
		t.Errorf("the error is %v", err)
	}
	if n := len(s.changes()); n != 1 {
		t.Errorf("%d changes were made", n)
	}
}

func TestRun_CanceledBetweenAttempts_EndsAtOnce(t *testing.T) {
	stopped := clocktesting.NewFakeClock(time.Now())
	s := makeRunSite(t, stopped)
	start, lb := s.add("lb")
	s.must(s.SetProvisioningStatus(lb.Pools[0].ID, openstacktest.StatusError))
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	ended := make(chan error, 1)
	go func() {
		_, err := s.runner.Run(ctx, Plan{Steps: []Step{
			SetMembers{
				Pool:    Ref{ID: lb.Pools[0].ID},
				Members: []octavia.Member{member("n", "10.0.0.102")},
			},
		}}, start, unlimited)
		ended <- err
	}()
	waittest.Until(t, "it pauses", stopped.HasWaiters)
	cancel()
	if err := <-ended; !errors.Is(err, context.Canceled) || s.refusals() != 2 {
		t.Errorf("%v; the requests are %v", err, s.operations())
	}
}
