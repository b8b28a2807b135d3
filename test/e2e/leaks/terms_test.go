package leaks

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
	"weak"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
	"k8s.io/utils/clock"

	"github.com/fxccm/fxccm/ccm"
	"github.com/fxccm/fxccm/ccm/ccmtest"
	"github.com/fxccm/fxccm/ccm/election"
	"github.com/fxccm/fxccm/internal/netfault"
	"github.com/fxccm/fxccm/provider/fake"
)

// leader is a Manager that leads repeatedly, and the checks of it.
type leader struct {
	t       *testing.T
	cloud   *cloud
	api     *netfault.Proxy
	config  *rest.Config
	elector *ccmtest.ManualElector
	manager *ccm.Manager

	stop   context.CancelFunc
	result chan error

	// fail makes the test's controller end by itself.
	fail chan error

	// current is the term whose event handlers may be called; late counts calls to handlers of
	// other terms.
	current, seen, late atomic.Int64

	mu    sync.Mutex
	terms []weak.Pointer[ccm.Term]
}

func newLeader(t *testing.T, change ...func(*ccm.Params)) *leader {
	t.Helper()
	l := &leader{
		t: t, cloud: newCloud(t), elector: ccmtest.NewManualElector(),
		fail: make(chan error),
	}
	l.config, l.api = through(t, shared.Identity)
	p := params(l.config, oneTerm{l.elector},
		l.cloud.provider(fake.WithSetInformers(func(f informers.SharedInformerFactory) {
			l.watch(f, l.current.Load())
		})))
	p.Clock = impatient{}
	p.Controllers = []ccm.Controller{{Name: "witness", New: l.newWitness}}
	for _, f := range change {
		f(&p)
	}
	var err error
	if l.manager, err = ccm.New(p); err != nil {
		t.Fatal(err)
	}
	return l
}

// oneTerm is an elector that grants one term for each call of Lead. After a controller's error, the
// test would else have to look before the next term begins.
type oneTerm struct{ *ccmtest.ManualElector }

// Elect implements election.Elector.
func (e oneTerm) Elect(
	ctx context.Context, lead func(context.Context, election.Grant) error,
) error {
	return e.ManualElector.Elect(ctx, func(led context.Context, g election.Grant) error {
		defer e.Lose(nil) // the term is over, so this only takes back the grant
		return lead(led, g)
	})
}

// params are the Params of a Manager on the suite's API server with short periods.
func params(cfg *rest.Config, elector election.Elector, provider ccm.Provider) ccm.Params {
	config := ccm.DefaultConfig()
	config.ClusterCIDR = "10.244.0.0/16"
	config.LeaderElection.Identity = "leaks"
	config.DrainTimeout = metav1.Duration{Duration: 4 * time.Second}
	config.NodeLifecycle.MonitorPeriod = metav1.Duration{Duration: 200 * time.Millisecond}
	config.Route.ReconciliationPeriod = metav1.Duration{Duration: 200 * time.Millisecond}
	log := logr.Discard()
	return ccm.Params{
		Config: config, Providers: []ccm.Provider{provider}, RESTConfig: cfg,
		Elector: elector, Logger: &log,
	}
}

// impatient is the real clock with shorter pauses after errors.
type impatient struct{ clock.RealClock }

func (c impatient) After(d time.Duration) <-chan time.Time { return c.RealClock.After(d / 20) }

// newWitness is a controller with a weak reference to its term. It ends when the test sends an
// error.
func (l *leader) newWitness(_ context.Context, term *ccm.Term) (ccm.Runnable, error) {
	l.mu.Lock()
	l.terms = append(l.terms, weak.Make(term))
	l.mu.Unlock()
	l.watch(term.Informers(), l.current.Load())
	return ccm.RunnableFunc(func(ctx context.Context) error {
		select {
		case err := <-l.fail:
			if errors.Is(err, errPanic) {
				panic(err)
			}
			return err
		case <-ctx.Done():
			return nil
		}
	}), nil
}

var errPanic = errors.New("panic")

// watch registers an event handler for a stretch of leadership.
func (l *leader) watch(f informers.SharedInformerFactory, stretch int64) {
	event := func() {
		l.seen.Add(1)
		if stretch != l.current.Load() {
			l.late.Add(1)
		}
	}
	_, err := f.Core().V1().Nodes().Informer().AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc: func(any) {
			event()
		}, UpdateFunc: func(any, any) { event() }, DeleteFunc: func(any) { event() },
	})
	if err != nil {
		l.t.Errorf("register an event handler: %v", err)
	}
}

// run begins a Run.
func (l *leader) run() {
	ctx, cancel := context.WithCancel(context.Background())
	l.stop, l.result = cancel, make(chan error, 1)
	go func() { l.result <- l.manager.Run(ctx) }()
}

// stopped ends the Run in progress.
func (l *leader) stopped() {
	l.t.Helper()
	l.stop()
	select {
	case err := <-l.result:
		if err != nil {
			l.t.Fatalf("Run returned %v", err)
		}
	case <-time.After(ccmtest.WaitLimit):
		l.t.Fatalf("Run has not returned: %+v", l.manager.Status())
	}
}

// end is a way to end a term.
type end struct {
	name string
	// by ends the term.
	by func(*leader)
	// wraps is the error that the elector receives.
	wraps error
}

// cycle are the ways to end a term. The last of them also ends the Run, and with it the growing
// pause after a controller's errors.
func cycle(round int) []end {
	failure := errors.New("the controller had enough")
	if round%2 == 1 {
		failure = errPanic
	}
	return []end{
		{"by a controller's error", func(l *leader) { l.fail <- failure }, nil},
		{"by loss", func(l *leader) { l.elector.Lose(errors.New("another has the lease")) }, election.ErrLost},
		{"by the clock", func(l *leader) { l.elector.ExpireClock() }, election.ErrLost},
		{"by a stop", func(l *leader) { l.stopped() }, ccm.ErrStopped},
	}
}

// lead leads for one round: four terms with work in each. It returns when the Run has ended. It
// calls whileReady in the last term.
func (l *leader) lead(round int, whileReady func()) {
	l.t.Helper()
	l.run()
	for i, end := range cycle(round) {
		l.elector.Lead()
		ccmtest.Eventually(l.t, "the Manager is ready", ccmtest.Ready(l.manager))
		name := fmt.Sprintf("round-%d-%d", round, i)
		l.work(name)
		if end.wraps == ccm.ErrStopped {
			whileReady()
		}
		begun := l.begin(name + "-begun")
		end.by(l)
		release := l.elector.WaitReleased(l.t)
		if !release.Drained || end.wraps != nil && !errors.Is(release.Err, end.wraps) {
			l.t.Fatalf("the term that ended %s was released as %+v", end.name, release)
		}
		// From now on no event handler of the term may be called.
		l.current.Add(1)
		begun()
		l.removeNode(name)
	}
}

// work makes each controller act, and waits for the effect.
func (l *leader) work(name string) {
	l.t.Helper()
	services := shared.Admin.CoreV1().Services("default")
	if _, err := services.Create(l.t.Context(), ccmtest.LoadBalancerService(name),
		metav1.CreateOptions{}); err != nil {
		l.t.Fatal(err)
	}
	ccmtest.Eventually(l.t, "the Service has an address",
		ccmtest.ServiceAddress(shared.Admin, "default", name))
	if err := services.Delete(l.t.Context(), name, metav1.DeleteOptions{}); err != nil {
		l.t.Fatal(err)
	}
	ccmtest.Eventually(l.t, "the Service is gone",
		ccmtest.Gone(shared.Admin.CoreV1().Services("default").Get, name))
	const cidr = "10.244.7.0/24"
	l.addNode(ccmtest.TaintedNode(name, ccmtest.NodePodCIDRs(cidr)))
	ccmtest.Eventually(l.t, "the node is initialized", ccmtest.Initialized(shared.Admin, name))
	ccmtest.Eventually(l.t, "the route exists", ccmtest.Routed(l.cloud.Cloud, name, cidr))
}

// begin starts work that is in flight when it returns. The returned function cleans up.
func (l *leader) begin(name string) (cleanUp func()) {
	l.t.Helper()
	takeBack := l.cloud.On("InstanceMetadata").For(name).Delay(300 * time.Millisecond)
	l.addNode(ccmtest.TaintedNode(name))
	ccmtest.Eventually(l.t, "the new node is requested",
		ccmtest.Called(l.cloud.Cloud,
			fake.CallFilter{Method: "InstanceMetadata", Object: name}.Matches))
	return func() {
		takeBack()
		l.removeNode(name)
	}
}

func (l *leader) addNode(node *corev1.Node) {
	l.t.Helper()
	if err := l.cloud.AddInstances(fake.Instance{Name: node.Name}); err != nil {
		l.t.Fatal(err)
	}
	if _, err := shared.Admin.CoreV1().Nodes().Create(l.t.Context(), node,
		metav1.CreateOptions{}); err != nil {
		l.t.Fatal(err)
	}
}

// removeNode removes a node from the cluster and the cloud. It may already be deleted.
func (l *leader) removeNode(name string) {
	l.t.Helper()
	if err := shared.Admin.CoreV1().Nodes().Delete(context.Background(), name,
		metav1.DeleteOptions{}); err != nil && !apierrors.IsNotFound(err) {
		l.t.Error(err)
	}
	if err := l.cloud.RemoveInstance(name); err != nil {
		l.t.Error(err)
	}
}

// fillCluster creates large Nodes until the test ends, so that the memory of a term dominates.
func (l *leader) fillCluster() {
	l.t.Helper()
	const nodes, size = 50, 40 << 10
	for i := range nodes {
		name := fmt.Sprintf("heavy-%d", i)
		l.addNode(ccmtest.ReadyNode(name, ccmtest.NodeProviderID("fake://region-1/"+name),
			ccmtest.NodeAnnotation("example.com/ballast",
				strings.Repeat(string(rune('a'+i%26)), size))))
	}
	l.t.Cleanup(func() {
		for i := range nodes {
			l.removeNode(fmt.Sprintf("heavy-%d", i))
		}
	})
}

// remembered counts the terms that the garbage collector could not collect.
func (l *leader) remembered() (kept int) {
	heapInUse() // collects
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, term := range l.terms {
		if term.Value() != nil {
			kept++
		}
	}
	return kept
}

func (l *leader) led() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.terms)
}

// rounds of four terms follow the first round, which warms up.
const rounds = 5

func TestTerms_TwentyThatLeadAndEnd_LeaveNothingBehind(t *testing.T) {
	l := newLeader(t)
	l.fillCluster()
	b := newBalance(t, l.cloud, []*rest.Config{l.config}, l.api)
	var held uint64
	nothing := heapInUse()
	l.lead(0, func() { held = heapInUse() })
	b.check("after the first round", 1)
	l.cloud.ResetCalls()
	b.weigh()
	term := held - min(nothing, held)
	for round := range rounds {
		l.lead(round+1, func() {})
		b.check(fmt.Sprintf("after %d terms", l.led()), 1)
		l.cloud.ResetCalls()
		b.weigh()
	}
	b.checkHeap(term)
	if got := l.led(); got != 4*(rounds+1) {
		t.Errorf("%d terms have led, want %d", got, 4*(rounds+1))
	}
	if l.seen.Load() == 0 || l.late.Load() > 0 {
		t.Errorf("of %d events %d reached event handlers of ended terms",
			l.seen.Load(), l.late.Load())
	}
	// A host may keep a stopped Manager for long, and start it again.
	if kept := l.remembered(); kept > 0 {
		t.Errorf("%d terms are still held, by the Manager or by something else", kept)
	}
}

// A host with its own way to the API server sets a Dial. client-go then gives each client its own
// connections, which a term must close.
func TestTerms_WithADialOfTheHosts_LeaveNoConnectionsBehind(t *testing.T) {
	l := newLeader(t, func(p *ccm.Params) { p.RESTConfig.Dial = (&net.Dialer{}).DialContext })
	l.connectionsStay()
}

// With --use-service-account-credentials, the clients of a term have no client certificate, so they
// share no connection with the Manager.
func TestTerms_WithServiceAccountCredentials_LeaveNoConnectionsBehind(t *testing.T) {
	for _, account := range []string{"node-controller", "service-controller", "route-controller"} {
		bindClusterAdmin(t, account)
	}
	l := newLeader(t, func(p *ccm.Params) {
		admin := shared.RESTConfig() // making accounts and tokens is not in the shipped rules
		admin.Host = p.RESTConfig.Host
		p.RESTConfig = admin
		p.Config.UseServiceAccountCredentials = true
	})
	l.connectionsStay()
}

// connectionsStay leads for some rounds and fails the test if the number of connections to the API
// server grows.
func (l *leader) connectionsStay() {
	l.t.Helper()
	l.lead(0, func() {})
	heapInUse() // client-go keeps a connection as long as its client is referenced
	first := l.api.Connections()
	l.lead(1, func() {})
	// client-go keeps a connection for 90 seconds for later clients, so the number may differ by
	// one. If each term leaked a connection, there would be four more.
	settle(l.t,
		fmt.Sprintf("after %d terms hardly more connections are open than after 4", l.led()),
		func() error {
			// A canceled call of the last term may still reference its client at the first garbage
			// collection.
			heapInUse()
			return atMost(first+1, l.api.Connections())
		})
}

func bindClusterAdmin(t *testing.T, account string) {
	t.Helper()
	binding := &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: "leaks-" + account},
		RoleRef: rbacv1.RoleRef{
			APIGroup: rbacv1.GroupName, Kind: "ClusterRole",
			Name: "cluster-admin",
		},
		Subjects: []rbacv1.Subject{{
			Kind: "ServiceAccount", Namespace: "kube-system",
			Name: account,
		}},
	}
	bindings := shared.Admin.RbacV1().ClusterRoleBindings()
	if _, err := bindings.Create(t.Context(), binding, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := bindings.Delete(context.Background(), binding.Name,
			metav1.DeleteOptions{}); err != nil {
			t.Error(err)
		}
	})
}
