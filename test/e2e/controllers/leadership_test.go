package controllers_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/record"
	"k8s.io/utils/ptr"

	"github.com/fxccm/fxccm/ccm"
	"github.com/fxccm/fxccm/ccm/ccmtest"
	"github.com/fxccm/fxccm/ccm/ccmtest/controlplane"
	"github.com/fxccm/fxccm/ccm/status"
	"github.com/fxccm/fxccm/internal/waittest"
	"github.com/fxccm/fxccm/provider/fake"
	"github.com/fxccm/fxccm/test/internal/suite"
)

// elected enables leader election. All such tests share the lease of the shipped rules, so they do
// not run in parallel.
func elected(p *ccm.Params) { p.Config.LeaderElection.LeaderElect = true }

// named is elected, with an identity.
func named(identity string) func(*ccm.Params) {
	return func(p *ccm.Params) {
		elected(p)
		p.Config.LeaderElection.Identity = identity
	}
}

func drainTimeout(d time.Duration) func(*ccm.Params) {
	return func(p *ccm.Params) { p.Config.DrainTimeout = metav1.Duration{Duration: d} }
}

func lease(t *testing.T) *coordinationv1.Lease {
	t.Helper()
	lease, err := shared.Client(t).CoordinationV1().Leases("kube-system").Get(t.Context(),
		"cloud-controller-manager", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return lease
}

func holder(t *testing.T) string { return ptr.Deref(lease(t).Spec.HolderIdentity, "") }

func TestLeadership_StopHandsOverAndTheOtherContinues(t *testing.T) {
	cloud := newCloud(t, []string{"handover-1", "handover-2"})
	first := run(t, cloud, named("first"))
	second := start(t, params(t, cloud, named("second")))
	ccmtest.Eventually(t, "the second knows who leads",
		ccmtest.Status(second.Manager,
			func(s status.Manager) bool { return s.Election.Leader == "first" }))
	if s := second.Status(); s.State != status.Standby {
		t.Errorf("the second is %s while the first leads", s.State)
	}
	ccmtest.CreateNode(t, shared.Client(t), ccmtest.TaintedNode("handover-1"))
	ccmtest.Eventually(t, "the node is initialized",
		ccmtest.Initialized(shared.Client(t), "handover-1"))

	if err := first.stop(); err != nil {
		t.Fatal(err)
	}
	ccmtest.Eventually(t, "the Manager is ready", ccmtest.Ready(second.Manager))
	ccmtest.CreateNode(t, shared.Client(t), ccmtest.TaintedNode("handover-2"))
	ccmtest.Eventually(t, "the node is initialized",
		ccmtest.Initialized(shared.Client(t), "handover-2"))
	if overlaps := cloud.ConcurrentCalls(); len(overlaps) > 0 {
		t.Errorf("two terms changed the cloud at once: %+v", overlaps)
	}
	for _, message := range []string{
		"first became leader", "first stopped leading",
		"second became leader",
	} {
		waittest.Until(t, "an event says that "+message, func(ctx context.Context) error {
			events, err := shared.Client(t).CoreV1().Events("kube-system").List(ctx,
				metav1.ListOptions{FieldSelector: "reason=LeaderElection"})
			if err != nil {
				return err
			}
			for _, event := range events.Items {
				if event.Message == message && event.InvolvedObject.Kind == "Lease" {
					return nil
				}
			}
			return fmt.Errorf("%d other events", len(events.Items))
		})
	}
}

// The call finishes, its result reaches the Service, and only then the lease is released.
func TestLeadership_StopLetsACallInFlightFinish(t *testing.T) {
	cloud := newCloud(t, nil)
	cloud.On("EnsureLoadBalancer").Delay(time.Second)
	r := run(t, cloud, only("service"), named("patient"))
	ccmtest.CreateService(t, shared.Client(t), ccmtest.LoadBalancerService("slow"))
	ccmtest.Eventually(t, "the load balancer is being made",
		ccmtest.Called(cloud, fake.CallFilter{Method: "EnsureLoadBalancer"}.Matches))
	if err := r.stop(); err != nil {
		t.Fatal(err)
	}
	calls := cloud.Calls(fake.CallFilter{Method: "EnsureLoadBalancer"}.Matches)
	if len(calls) != 1 || calls[0].Err != "" || !calls[0].Finished {
		t.Errorf("calls that created load balancers: %+v, want one success", calls)
	}
	service, err := shared.Client(t).CoreV1().Services("default").Get(t.Context(), "slow",
		metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if len(service.Status.LoadBalancer.Ingress) != 1 {
		t.Errorf("the status was not written: %+v", service.Status)
	}
	if h := holder(t); h != "" {
		t.Errorf("the lease is still held by %q", h)
	}
}

// A call that takes longer than its part of the drain is canceled, and the lease is kept until it
// has returned.
func TestLeadership_LeaseIsKeptWhileACallIsInFlight(t *testing.T) {
	cloud := newCloud(t, nil)
	release := cloud.On("EnsureLoadBalancer").IgnoringContext().Hang()
	r := run(t, cloud, only("service"), named("keeper"), drainTimeout(20*time.Second))
	ccmtest.CreateService(t, shared.Client(t), ccmtest.LoadBalancerService("hanging"))
	ccmtest.Eventually(t, "the load balancer is being made",
		ccmtest.Called(cloud, fake.CallFilter{Method: "EnsureLoadBalancer"}.Matches))
	r.cancel()
	ccmtest.Eventually(t, "the term drains", ccmtest.Status(r.Manager, func(s status.Manager) bool {
		return s.State == status.Draining &&
			slices.ContainsFunc(s.Running, func(a status.Activity) bool {
				return a.String() == "call LoadBalancer.EnsureLoadBalancer default/hanging"
			})
	}))
	// A renewal after the drain began proves that the lease is still held.
	begun := lease(t).Spec.RenewTime.Time
	waittest.Until(t, "the lease is renewed while the term drains", func() bool {
		l := lease(t)
		return l.Spec.RenewTime.After(begun) &&
			ptr.Deref(l.Spec.HolderIdentity, "") == "keeper"
	})
	release()
	if err := r.stop(); err != nil {
		t.Fatal(err)
	}
	if h := holder(t); h != "" {
		t.Errorf("the lease is still held by %q", h)
	}
}

// A call that does not drain is named, and the lease is left to expire.
func TestLeadership_DrainTimeoutKeepsTheLease(t *testing.T) {
	cloud := newCloud(t, nil)
	release := cloud.On("EnsureLoadBalancer").IgnoringContext().Hang()
	r := run(t, cloud, only("service"), named("stuck"), drainTimeout(time.Second))
	ccmtest.CreateService(t, shared.Client(t), ccmtest.LoadBalancerService("stuck"))
	ccmtest.Eventually(t, "the load balancer is being made",
		ccmtest.Called(cloud, fake.CallFilter{Method: "EnsureLoadBalancer"}.Matches))
	err := r.stop()
	var timedOut *ccm.DrainTimeoutError
	if !errors.As(err, &timedOut) || !timedOut.MayAct() ||
		!slices.ContainsFunc(timedOut.Running, func(a status.Activity) bool {
			return a.String() == "call LoadBalancer.EnsureLoadBalancer default/stuck"
		}) {
		t.Errorf("Run returned %v, want a DrainTimeoutError that names the call", err)
	}
	if h := holder(t); h != "stuck" {
		t.Errorf("the lease is held by %q although the term acts", h)
	}
	release()
	ccmtest.Eventually(t, "nothing runs",
		ccmtest.Status(r.Manager, func(s status.Manager) bool { return len(s.Running) == 0 }))

	// Another replica takes over when the lease has expired.
	run(t, cloud, only("service"), named("heir"))
	ccmtest.Eventually(t, "the Service has an address",
		ccmtest.ServiceAddress(shared.Client(t), "default", "stuck"))
}

// Losing the lease ends the term, not the process.
func TestLeadership_LossEndsTheTermAndTheManagerStandsByAgain(t *testing.T) {
	cloud := newCloud(t, []string{"lost-1"})
	r := run(t, cloud, named("loser"))
	steal(t, "thief")
	ccmtest.Eventually(t, "the Manager stands by",
		ccmtest.Status(r.Manager, func(s status.Manager) bool {
			return s.State == status.Standby && s.Election.Leader == "thief"
		}))
	mark := shared.Audit().Mark()
	ccmtest.CreateNode(t, shared.Client(t), ccmtest.TaintedNode("lost-1"))

	// The thief does not renew, so the lease expires and the Manager leads again: a second term in
	// one process.
	current := ccmtest.Eventually(t, "the Manager is ready", ccmtest.Ready(r.Manager))
	if current.Term != 2 {
		t.Errorf("term %d, want 2", current.Term)
	}
	ccmtest.Eventually(t, "the node is initialized",
		ccmtest.Initialized(shared.Client(t), "lost-1"))
	taken := waitRequests(t, mark, 1, controlplane.ByResource("coordination.k8s.io", "leases"),
		controlplane.ByVerb("update"), controlplane.ByCode(200))[0].Time
	for _, request := range requests(t, mark, controlplane.Mutating()) {
		if request.Time.Before(taken) && request.Resource != "leases" {
			t.Errorf("a request without leadership: %s", request)
		}
	}
}

// steal writes another holder into the lease, like a replica that treats it as expired.
func steal(t *testing.T, identity string) {
	t.Helper()
	ccmtest.Eventually(t, "the lease is stolen",
		func(ctx context.Context) (*coordinationv1.Lease, error) {
			l := lease(t)
			l.Spec.HolderIdentity = ptr.To(identity)
			l.Spec.RenewTime = ptr.To(metav1.NowMicro())
			return shared.Client(t).CoordinationV1().Leases(l.Namespace).Update(ctx, l,
				metav1.UpdateOptions{})
		})
}

func TestLeadership_WithoutElectionItLeadsAtOnceAndTouchesNoLease(t *testing.T) {
	cloud := newCloud(t, []string{"alone-1"})
	mark := shared.Audit().Mark()
	run(t, cloud)
	ccmtest.CreateNode(t, shared.Client(t), ccmtest.TaintedNode("alone-1"))
	ccmtest.Eventually(t, "the node is initialized",
		ccmtest.Initialized(shared.Client(t), "alone-1"))
	if r := requests(t, mark,
		controlplane.ByResource("coordination.k8s.io", "leases")); len(r) > 0 {
		t.Errorf("the lease was touched: %s", r[0])
	}
}

func TestControllers_UnsupportedByTheProvider_AreSkippedWithAReason(t *testing.T) {
	t.Parallel()
	cloud := newCloud(t, []string{"skip-1"}, fake.Without("LoadBalancer", "Routes"))
	r := run(t, cloud, func(p *ccm.Params) { p.Config.ClusterCIDR = "" })
	want := map[string]struct {
		state  status.ControllerState
		reason string
	}{
		"cloud-node-controller":           {status.ControllerRunning, ""},
		"cloud-node-lifecycle-controller": {status.ControllerRunning, ""},
		"service-lb-controller":           {status.ControllerSkipped, "it has no load balancers"},
		"node-route-controller":           {status.ControllerSkipped, "it has no routes"},
	}
	for _, c := range r.Status().Controllers {
		if w := want[c.Name]; c.State != w.state || !strings.Contains(c.Reason, w.reason) {
			t.Errorf("%s is %s (%s), want %s (%s)", c.Name, c.State, c.Reason, w.state, w.reason)
		}
	}
}

func TestControllers_SelectionByNameAliasAndSwitch(t *testing.T) {
	t.Parallel()
	cloud := newCloud(t, nil)
	r := run(t, cloud, only("*", "-route", "-cloud-node-lifecycle-controller"))
	for _, c := range r.Status().Controllers {
		want := status.ControllerRunning
		if c.Name == "node-route-controller" || c.Name == "cloud-node-lifecycle-controller" {
			want = status.ControllerDisabled
		}
		if c.State != want {
			t.Errorf("%s is %s, want %s", c.Name, c.State, want)
		}
	}
	if err := r.stop(); err != nil {
		t.Fatal(err)
	}
	r = run(t, cloud, func(p *ccm.Params) { p.Config.ConfigureCloudRoutes = false })
	for _, c := range r.Status().Controllers {
		if c.Name == "node-route-controller" &&
			(c.State != status.ControllerSkipped ||
				!strings.Contains(c.Reason, "--configure-cloud-routes")) {
			t.Errorf("%s is %s (%s), want it skipped because of --configure-cloud-routes", c.Name,
				c.State, c.Reason)
		}
	}
}

func TestControllers_RoutesAreOffOrServedElsewhere_ConditionOfRoutesGoesOrStays(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		change func(*ccm.Params)
		opts   []fake.Option
		stays  bool
	}{
		"off":       {change: func(p *ccm.Params) { p.Config.ConfigureCloudRoutes = false }},
		"unserved":  {change: only("*"), opts: []fake.Option{fake.Without("Routes")}},
		"elsewhere": {change: only("*", "-node-route-controller"), stays: true},
		"both": {
			change: func(p *ccm.Params) {
				only("*", "-node-route-controller")(p)
				p.Config.ConfigureCloudRoutes = false
			},
			stays: true,
		},
	} {
		t.Run(name, func(t *testing.T) { // subtests share a cluster, so they are not parallel
			node := "routes-" + name
			cloud := newCloud(t, []string{node}, test.opts...)
			client := shared.Client(t)
			ccmtest.CreateNode(t, client, ccmtest.ReadyNode(node, func(n *corev1.Node) {
				n.Status.Conditions = append(n.Status.Conditions, corev1.NodeCondition{
					Type: corev1.NodeNetworkUnavailable, Status: corev1.ConditionTrue,
					Reason:             "NoRouteCreated",
					LastTransitionTime: metav1.NewTime(time.Now().Add(-time.Hour)),
				})
			}))
			run(t, cloud, test.change)
			// One patch writes the addresses and removes the condition.
			ccmtest.Eventually(t, "the node has an address",
				ccmtest.NodeAddress(client, node, corev1.NodeInternalIP))
			now, err := client.CoreV1().Nodes().Get(t.Context(), node, metav1.GetOptions{})
			if err != nil {
				t.Fatal(err)
			}
			has := slices.ContainsFunc(now.Status.Conditions, func(c corev1.NodeCondition) bool {
				return c.Type == corev1.NodeNetworkUnavailable
			})
			if has != test.stays {
				t.Errorf("has the node the condition: %t, want %t", has, test.stays)
			}
		})
	}
}

// Upstream ends the process here.
func TestControllers_RoutesWithoutClusterCIDR_OthersServe(t *testing.T) {
	t.Parallel()
	cloud := newCloud(t, []string{"rangeless-1"})
	var recorder *record.FakeRecorder
	r := run(t, cloud, func(p *ccm.Params) {
		p.Config.ClusterCIDR = ""
		recorder = recordEvents(p)
	})
	client := shared.Client(t)
	ccmtest.CreateNode(t, client,
		ccmtest.TaintedNode("rangeless-1", ccmtest.NodePodCIDRs("10.244.7.0/24")))
	ccmtest.Eventually(t, "the node is initialized", ccmtest.Initialized(client, "rangeless-1"))
	ccmtest.CreateService(t, client, ccmtest.LoadBalancerService("rangeless"))
	ccmtest.Eventually(t, "the Service has an address",
		ccmtest.ServiceAddress(client, "default", "rangeless"))
	mustDegradeOnly(t, r, recorder, "node-route-controller", "--cluster-cidr",
		"--configure-cloud-routes")
	if calls := cloud.Calls(callsOf("CreateRoute", "")); len(calls) > 0 {
		t.Errorf("a route was created: %v", calls[0])
	}
}

// A right of one controller is missing. When it is granted, the controller starts in the same term.
func TestControllers_RightOfOneIsMissing_OthersServe(t *testing.T) {
	t.Parallel()
	const user = "without-services"
	identity, err := shared.ControlPlane.UserConfig(user)
	if err != nil {
		t.Fatal(err)
	}
	for name, rule := range map[string]rbacv1.PolicyRule{
		"test-nodes": {
			APIGroups: []string{""}, Resources: []string{"nodes", "nodes/status"},
			Verbs: []string{"*"},
		},
		"test-events": {
			APIGroups: []string{"", "events.k8s.io"}, Resources: []string{"events"},
			Verbs: []string{"create", "patch"},
		},
	} {
		grant(t, name, rule, user)
	}
	cloud := newCloud(t, []string{"rightless-1"})
	var recorder *record.FakeRecorder
	r := start(t, params(t, cloud, func(p *ccm.Params) {
		p.RESTConfig = suite.Confine(t, identity)
		p.Config.CacheSyncTimeout = metav1.Duration{Duration: 5 * time.Second}
		recorder = recordEvents(p)
	}))
	client := shared.Client(t)
	ccmtest.CreateNode(t, client,
		ccmtest.TaintedNode("rightless-1", ccmtest.NodePodCIDRs("10.244.8.0/24")))
	ccmtest.Eventually(t, "the node is initialized", ccmtest.Initialized(client, "rightless-1"))
	ccmtest.Eventually(t, "the route exists", ccmtest.Routed(cloud, "rightless-1", "10.244.8.0/24"))
	ccmtest.CreateService(t, client, ccmtest.LoadBalancerService("rightless"))
	ccmtest.Eventually(t, "the Manager is ready", ccmtest.Ready(r.Manager))
	mustDegradeOnly(t, r, recorder, "service-lb-controller", "lacks RBAC rules",
		"informer of services has not synced", user)
	grant(t, "test-services", rbacv1.PolicyRule{
		APIGroups: []string{""}, Resources: []string{"services", "services/status"},
		Verbs: []string{"*"},
	}, user)
	ccmtest.Eventually(t, "the Service has an address",
		ccmtest.ServiceAddress(client, "default", "rightless"))
	ccmtest.Eventually(t, "no controller is degraded",
		ccmtest.Status(r.Manager, func(s status.Manager) bool {
			return s.Ready && s.Term == 1 && len(s.Warnings) == 0
		}))
}

// recordEvents gives the Manager a recorder that keeps its events.
func recordEvents(p *ccm.Params) *record.FakeRecorder {
	recorder := record.NewFakeRecorder(100)
	p.EventRecorders = func(string) record.EventRecorder { return recorder }
	return recorder
}

// mustDegradeOnly checks that Status, readiness and one event report the failure of one controller,
// and that the others run.
func mustDegradeOnly(
	t *testing.T, r *replica, recorder *record.FakeRecorder, name string, reasons ...string,
) {
	t.Helper()
	s := r.Status()
	if s.State != status.Leading || !s.Ready || s.Term != 1 || len(s.Warnings) != 1 ||
		!strings.Contains(s.Warnings[0], "controller "+name) {
		t.Errorf("status: %+v", s)
	}
	for _, c := range s.Controllers {
		if c.Name != name && c.State != status.ControllerRunning ||
			c.Name == name && (c.State != status.ControllerFailed || c.RetryAt.IsZero()) {
			t.Errorf("controller: %+v", c)
		}
		for _, reason := range reasons {
			if c.Name == name && !strings.Contains(c.Reason, reason) {
				t.Errorf("the reason is %q, want %q in it", c.Reason, reason)
			}
		}
	}
	ready := r.ReadinessChecks()[0]
	if err := ready.Check(nil); err != nil {
		t.Errorf("readiness: %v", err)
	}
	if detail := ready.Detail(); !strings.Contains(detail, name) {
		t.Errorf("readiness has the detail %q, want %s in it", detail, name)
	}
	var failures []string
	for range len(recorder.Events) {
		if event := <-recorder.Events; strings.Contains(event, "ControllerFailed") {
			failures = append(failures, event)
		}
	}
	if len(failures) != 1 || !strings.HasPrefix(failures[0], "Warning ControllerFailed ") ||
		!strings.Contains(failures[0], "controller "+name+": ") {
		t.Errorf("events: %q", failures)
	}
}

// Events that a controller of the host records reach the API server, also those at the very end of
// a term.
func TestTerm_RecorderSendsEventsOfTheDrainToo(t *testing.T) {
	t.Parallel()
	cloud := newCloud(t, nil)
	node := ccmtest.CreateNode(t, shared.Client(t), ccmtest.ReadyNode("recorded-1"))
	announcer := ccm.Controller{
		Name: "announcer",
		New: func(_ context.Context, term *ccm.Term) (ccm.Runnable, error) {
			recorder := term.Recorder("announcer")
			return ccm.RunnableFunc(func(ctx context.Context) error {
				<-ctx.Done()
				recorder.Event(node, corev1.EventTypeNormal, "TermEnding", "the term ends")
				return nil
			}), nil
		},
	}
	// A term waits for its last events for at most a second, which a busy API server can exceed.
	ccmtest.Eventually(t, "the event of a term exists",
		func(ctx context.Context) (*corev1.EventList, error) {
			r := run(t, cloud, only("announcer"),
				func(p *ccm.Params) { p.Controllers = []ccm.Controller{announcer} })
			if err := r.stop(); err != nil {
				t.Fatal(err)
			}
			events, err := shared.Client(t).CoreV1().Events("default").List(ctx,
				metav1.ListOptions{FieldSelector: "reason=TermEnding"})
			if err == nil && len(events.Items) == 0 {
				err = errors.New("no event")
			}
			return events, err
		})
}

// patient never retries the lease within a test: its period is about ten minutes.
func patient(p *ccm.Params) {
	p.Config.LeaderElection.LeaseDuration = metav1.Duration{Duration: 20 * time.Minute}
	p.Config.LeaderElection.RenewDeadline = metav1.Duration{Duration: 15 * time.Minute}
	p.Config.LeaderElection.RetryPeriod = metav1.Duration{Duration: 10 * time.Minute}
}

// A leader that was frozen, and stops when it wakes, must not release the lease that another has
// taken meanwhile.
func TestLeadership_StopDoesNotReleaseALeaseThatAnotherHolds(t *testing.T) {
	r := run(t, newCloud(t, nil), patient, named("sleeper"))
	steal(t, "successor")
	if err := r.stop(); err != nil {
		t.Fatal(err)
	}
	if h := holder(t); h != "successor" {
		t.Errorf("the lease is held by %q, want it left to the successor", h)
	}
	err := shared.Client(t).CoordinationV1().Leases("kube-system").Delete(t.Context(),
		"cloud-controller-manager", metav1.DeleteOptions{})
	if err != nil {
		t.Error(err) // the next test would wait for it to expire
	}
}

// A standby watches the lease. Its next retry would be minutes later.
func TestLeadership_ReleaseIsSeenAtOnce(t *testing.T) {
	cloud := newCloud(t, nil)
	first := run(t, cloud, patient, named("leaver"))
	mark := shared.Audit().Mark()
	second := start(t, params(t, cloud, patient, named("watcher")))
	ccmtest.Eventually(t, "the second knows who leads",
		ccmtest.Status(second.Manager,
			func(s status.Manager) bool { return s.Election.Leader == "leaver" }))
	waitRequests(t, mark, 1, controlplane.ByResource("coordination.k8s.io", "leases"),
		controlplane.ByVerb("watch"), controlplane.ByCode(200))
	if err := first.stop(); err != nil {
		t.Fatal(err)
	}
	ccmtest.Eventually(t, "the Manager is ready", ccmtest.Ready(second.Manager))
	if h := holder(t); h != "watcher" {
		t.Errorf("the lease is held by %q", h)
	}
}
