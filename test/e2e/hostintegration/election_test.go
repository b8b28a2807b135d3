package hostintegration_test

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/leaderelection"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
	"k8s.io/utils/ptr"

	"github.com/fxccm/fxccm/ccm"
	"github.com/fxccm/fxccm/ccm/ccmtest"
	"github.com/fxccm/fxccm/ccm/ccmtest/controlplane"
	"github.com/fxccm/fxccm/provider/fake"
)

func TestElection_ByDefaultIsTheLease(t *testing.T) {
	cloud := newCloud(t, "lease-1")
	app := startApp(t, cloud, ccmtest.WithLease())
	status := app.WaitReady()
	if status.Election.Identity != app.Identity || status.Election.Leader != app.Identity ||
		status.Election.LastRenewal.IsZero() {
		t.Errorf("the election stands like this: %+v", status.Election)
	}
	if got := holder(t, "cloud-controller-manager"); got != app.Identity {
		t.Errorf("the lease is held by %q", got)
	}
	ccmtest.CreateNode(t, app.Client, ccmtest.TaintedNode("lease-1"))
	ccmtest.WaitNodeInitialized(t, app.Client, "lease-1")
	app.Stop()
	if got := holder(t, "cloud-controller-manager"); got != "" {
		t.Errorf("after the stop the lease is held by %q", got)
	}
}

func TestElection_AlwaysLeadAsksForNoLease(t *testing.T) {
	cloud := newCloud(t, "always-1")
	app := startApp(t, cloud, ccmtest.WithElector(ccm.AlwaysLead()))
	app.WaitReady()
	ccmtest.CreateNode(t, app.Client, ccmtest.TaintedNode("always-1"))
	ccmtest.WaitNodeInitialized(t, app.Client, "always-1")
	app.Stop()
	if asked := requests(t,
		controlplane.ByResource("coordination.k8s.io", "leases")); len(asked) > 0 {
		t.Errorf("requests to leases: %v", asked)
	}
}

func TestElection_ByHand_LostAndWonAgain(t *testing.T) {
	cloud := newCloud(t, "manual-1", "manual-2")
	app := startApp(t, cloud, ccmtest.WithElector(leading()))
	app.WaitReady()
	ccmtest.CreateNode(t, app.Client, ccmtest.TaintedNode("manual-1"))
	ccmtest.WaitNodeAddress(t, app.Client, "manual-1", corev1.NodeInternalIP)
	app.Elector.Lose(errors.New("the test wants it"))
	release := app.Elector.WaitReleased(t)
	if !release.Drained || !errors.Is(release.Err, ccm.ErrLeadershipLost) {
		t.Errorf("leadership was given back like this: %+v", release)
	}
	lost := time.Now()
	ccmtest.CreateNode(t, app.Client, ccmtest.TaintedNode("manual-2"))
	app.WaitState(ccm.StateStandby)
	app.Elector.Lead()
	if s := app.WaitReady(); s.Term != 2 {
		t.Errorf("it leads again in term %d", s.Term)
	}
	ccmtest.WaitNodeInitialized(t, app.Client, "manual-2")
	for _, call := range cloud.Calls(func(c fake.Call) bool { return c.Caller == app.Caller(1) }) {
		if call.Started.After(lost) {
			t.Errorf("a call of the first term after its end: %+v", call)
		}
	}
}

// The periods of the host's own election. The fence closes 3 s after the last renewal, when the
// elector itself gives up 2 to 2.2 s after it has tried in vain for the first time.
const (
	leaseDuration, renewDeadline, retryPeriod = 4 * time.Second, 2 * time.Second,
		200 * time.Millisecond
	validFor = 3 * time.Second
)

// election is a host's own, with client-go's LeaderElector, that leads a Manager.
type election struct {
	t       *testing.T
	name    string
	elector *ccm.HostElector
	network *network

	stop context.CancelFunc
	done chan struct{}
	// lent is what each Lead has returned.
	lent chan error
}

// campaign begins the election, as a host does that wants to be elected again when it has lost.
func campaign(t *testing.T) *election {
	t.Helper()
	e := &election{
		t: t, name: objectName(t), elector: ccm.NewHostElector(), network: &network{},
		done: make(chan struct{}), lent: make(chan error, 10),
	}
	config, err := shared.ControlPlane.UserConfig(hostUser)
	if err != nil {
		t.Fatal(err)
	}
	config.UserAgent = agent(t) + "/election"
	config.Wrap(e.network.wrap)
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	lock := e.elector.Watch(&resourcelock.LeaseLock{
		LeaseMeta:  metav1.ObjectMeta{Namespace: metav1.NamespaceSystem, Name: e.name},
		Client:     client.CoordinationV1(),
		LockConfig: resourcelock.ResourceLockConfig{Identity: "host-1"},
	}, leaseDuration, renewDeadline)
	ctx, stop := context.WithCancel(context.Background())
	e.stop = stop
	go e.run(ctx, lock)
	t.Cleanup(func() {
		e.network.heal()
		stop()
		<-e.done
	})
	return e
}

func (e *election) run(ctx context.Context, lock resourcelock.Interface) {
	defer close(e.done)
	for ctx.Err() == nil {
		began := make(chan struct{})
		ended := make(chan struct{})
		elector, err := leaderelection.NewLeaderElector(leaderelection.LeaderElectionConfig{
			Lock: lock, Name: e.name, ReleaseOnCancel: true,
			LeaseDuration: leaseDuration, RenewDeadline: renewDeadline, RetryPeriod: retryPeriod,
			Callbacks: leaderelection.LeaderCallbacks{
				OnStartedLeading: func(leading context.Context) {
					close(began)
					defer close(ended)
					e.lent <- e.elector.Lead(leading, ccm.Grant{})
				},
				OnStoppedLeading: func() {},
			},
		})
		if err != nil {
			e.t.Error(err)
			return
		}
		elector.Run(ctx)
		select {
		case <-began:
			<-ended
		case <-ctx.Done():
			return
		}
	}
}

// network is the host's way to the API server.
type network struct {
	mu     sync.Mutex
	broken error
	frozen chan struct{}
}

func (n *network) wrap(next http.RoundTripper) http.RoundTripper {
	return roundTripper(func(r *http.Request) (*http.Response, error) {
		n.mu.Lock()
		broken, frozen := n.broken, n.frozen
		n.mu.Unlock()
		if frozen != nil {
			<-frozen // whatever its context says: nothing moves
		}
		if broken != nil {
			return nil, broken
		}
		return next.RoundTrip(r)
	})
}

type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// fail lets all requests fail.
func (n *network) fail() {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.broken = errors.New("the cable is cut")
}

// freeze lets all requests hang, and fail when they do not hang any more.
func (n *network) freeze() {
	n.fail()
	n.mu.Lock()
	defer n.mu.Unlock()
	n.frozen = make(chan struct{})
}

func (n *network) heal() {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.frozen != nil {
		close(n.frozen)
	}
	n.broken, n.frozen = nil, nil
}

// holder is who holds a lease.
func holder(t *testing.T, lease string) string {
	t.Helper()
	l, err := shared.Admin.CoordinationV1().Leases(metav1.NamespaceSystem).Get(t.Context(), lease,
		metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return ptr.Deref(l.Spec.HolderIdentity, "")
}

// balancing is a controller that makes a load balancer again and again.
func balancing(name string) ccm.Controller {
	service := ccmtest.LoadBalancerService(name,
		func(s *corev1.Service) { s.UID = types.UID(name) })
	return controller(name, func(term *ccm.Term) (ccm.RunnableFunc, error) {
		balancers, _ := term.Cloud().LoadBalancer()
		return func(ctx context.Context) error {
			for ctx.Err() == nil {
				if _, err := balancers.EnsureLoadBalancer(ctx, term.ClusterName(), service,
					nil); err != nil && ctx.Err() == nil {
					return err
				}
				select {
				case <-time.After(20 * time.Millisecond):
				case <-ctx.Done():
				}
			}
			return nil
		}, nil
	})
}

// elected runs a Manager with two controllers that change the cloud and the cluster all the time,
// led by the election.
func elected(t *testing.T, e *election, cloud *fake.Cloud) (m *ccm.Manager, stop func() error) {
	t.Helper()
	name := objectName(t)
	createConfigMap(t, name)
	p := params(t, cloud, e.elector)
	p.Config.Controllers = []string{"cloud", "cluster"}
	p.Controllers = []ccm.Controller{
		balancing("cloud"),
		patchingConfigMap("cluster", "cluster", name),
	}
	m, stop = run(t, p)
	ccmtest.WaitReady(t, m)
	ccmtest.WaitCall(t, cloud, "the load balancer is made",
		fake.CallFilter{Method: fake.EnsureLoadBalancer, Finished: true}.Matches)
	waitRequests(t, 1, controlplane.ByUserAgent("/cluster"), controlplane.ByVerb("patch"))
	return m, stop
}

// wantNothingSince checks that nothing was begun to change between two times. The controller of the
// cluster makes one request after the other: that which the fence has cancelled on its way may
// reach the server a little later, which gives it up then.
func wantNothingSince(t *testing.T, cloud *fake.Cloud, from, to time.Time) {
	t.Helper()
	within := func(at time.Time) bool { return at.After(from) && at.Before(to) }
	for _, call := range cloud.Calls(fake.CallFilter{Mutating: true}.Matches) {
		if within(call.Started) {
			t.Errorf("%s after leadership had ended: %+v", call.Started.Sub(from), call)
		}
	}
	cancelled := 0
	for _, r := range requests(t, controlplane.ByUserAgent("/cluster"), controlplane.Mutating()) {
		if !within(r.Time) {
			continue
		}
		if r.Code == http.StatusGatewayTimeout {
			cancelled++
		}
		if r.Code != http.StatusGatewayTimeout || cancelled > 1 {
			t.Errorf("%s after leadership had ended: %s", r.Time.Sub(from), r)
		}
	}
}

func TestHostElection_LostWhenRenewalsFail_AndWonAgain(t *testing.T) {
	t.Parallel()
	cloud, e := newCloud(t), campaign(t)
	m, _ := elected(t, e, cloud)
	if s := m.Status().Election; s.Identity != "host-1" || s.Leader != "host-1" ||
		s.LastRenewal.IsZero() {
		t.Errorf("the election stands like this: %+v", s)
	}
	e.network.fail()
	if err := <-e.lent; err != nil {
		t.Errorf("Lead returned %v", err)
	}
	lost := time.Now()
	if s := ccmtest.WaitState(t, m, ccm.StateDegraded); s.Term != 1 ||
		!strings.Contains(s.Reason, "the cable is cut") {
		t.Errorf("without leadership: %+v", s)
	}
	e.network.heal()
	again := time.Now()
	ccmtest.WaitStatus(t, m, "the second term is ready",
		func(s ccm.Status) bool { return s.Ready && s.Term == 2 })
	wantNothingSince(t, cloud, lost, again)
}

// The host's election is frozen, as a process is that is stopped or swapped out; the Manager, which
// is not, ends by the clock before anybody else may lead.
func TestHostElection_WhenItIsFrozen_TheFenceClosesByTheClock(t *testing.T) {
	t.Parallel()
	cloud, e := newCloud(t), campaign(t)
	m, _ := elected(t, e, cloud)
	cloud.On(fake.EnsureLoadBalancer).Hang()
	cut := ccmtest.WaitCall(t, cloud, "a call hangs", func(c fake.Call) bool {
		return c.Method == fake.EnsureLoadBalancer && !c.Finished
	})
	e.network.freeze()
	cut = ccmtest.WaitCall(t, cloud, "the call in flight is cancelled",
		func(c fake.Call) bool { return c.Seq == cut.Seq && c.Finished })
	valid := e.elector.ElectionStatus().LastRenewal.Add(validFor)
	if late := cut.Ended.Sub(valid); late < 0 || late > time.Second {
		t.Errorf("the call in flight ended %s after leadership was valid", late)
	}
	cloud.ClearFaults()
	select {
	case err := <-e.lent:
		t.Fatalf("the host's election has noticed by itself: %v", err)
	default:
	}
	// Another host would lead from the end of the lease on.
	ccmtest.Eventually(t, "the lease has expired", func(context.Context) (any, error) {
		if left := time.Until(valid.Add(leaseDuration - validFor)); left > 0 {
			return nil, errors.New(left.String())
		}
		return nil, nil
	})
	if s := m.Status(); s.Ready || s.Term != 1 {
		t.Errorf(
			"a second after the fence was closed, while the host cannot know of it, the Manager is in term %d, want 1; ready: %t", s.Term, s.Ready)
	}
	thawed := time.Now()
	e.network.heal()
	if err := <-e.lent; err != nil {
		t.Errorf("Lead returned %v", err)
	}
	wantNothingSince(t, cloud, valid, thawed)
	ccmtest.WaitReady(t, m)
}

func TestHostElection_LockIsKeptWhileACallIsInFlight(t *testing.T) {
	t.Parallel()
	cloud, e := newCloud(t), campaign(t)
	m, stop := elected(t, e, cloud)
	release := cloud.On(fake.EnsureLoadBalancer).IgnoringContext().Hang()
	call := ccmtest.WaitCall(t, cloud, "a call hangs", func(c fake.Call) bool {
		return c.Method == fake.EnsureLoadBalancer && !c.Finished
	})

	// The wrong order: the host gives up its leadership without stopping the Manager.
	// client-go's elector reads the lease to release it, and not to renew it.
	gaveUp := time.Now()
	e.stop()
	waitRequests(t, 1, controlplane.ByUserAgent("/election"), controlplane.ByVerb("get"),
		controlplane.ReceivedAfter(gaveUp))
	ccmtest.WaitState(t, m, ccm.StateDraining)
	select {
	case err := <-e.lent:
		t.Fatalf("Lead returned %v while a call is in flight", err)
	case <-time.After(2 * retryPeriod):
	}
	if got := holder(t, e.name); got != "host-1" {
		t.Errorf("while call %+v is in flight the lease is held by %q", call, got)
	}
	release()
	if err := <-e.lent; err != nil {
		t.Errorf("Lead returned %v", err)
	}
	<-e.done
	if err := stop(); err != nil {
		t.Error(err)
	}
}

func TestHostElection_ReleasesWhenTheManagerHasStoppedFirst(t *testing.T) {
	t.Parallel()
	cloud, e := newCloud(t), campaign(t)
	_, stop := elected(t, e, cloud)
	if err := stop(); err != nil {
		t.Fatal(err)
	}
	stopped := time.Now()
	if got := holder(t, e.name); got != "host-1" {
		t.Errorf("before the host ends its election the lease is held by %q", got)
	}
	e.stop()
	<-e.done
	if err := <-e.lent; err != nil {
		t.Errorf("Lead returned %v", err)
	}
	if got := holder(t, e.name); got != "" {
		t.Errorf("after the host's election the lease is held by %q", got)
	}
	wantNothingSince(t, cloud, stopped, time.Now())
}
