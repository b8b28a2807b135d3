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

	"github.com/fxccm/fxccm/ccm"
	"github.com/fxccm/fxccm/ccm/ccmtest"
	"github.com/fxccm/fxccm/ccm/ccmtest/controlplane"
	"github.com/fxccm/fxccm/provider/fake"
)

// The periods of the host's own election. The fence closes 3 s after the last renewal. The elector
// itself gives up 2 to 2.2 s after its first failed renewal.
const (
	leaseDuration, renewDeadline, retryPeriod = 4 * time.Second, 2 * time.Second,
		200 * time.Millisecond
	validFor = 3 * time.Second
)

// election is a host's own election with client-go's LeaderElector, which leads a Manager.
type election struct {
	t       *testing.T
	name    string
	elector *ccm.HostElector
	network *network

	stop context.CancelFunc
	done chan struct{}
	// lent has the results of Lead.
	lent chan error
}

// campaign starts the election. The host campaigns again after it has lost.
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

// network is the host's transport to the API server.
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
			<-frozen // the context does not end it
		}
		if broken != nil {
			return nil, broken
		}
		return next.RoundTrip(r)
	})
}

type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// fail makes all requests fail.
func (n *network) fail() {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.broken = errors.New("the cable is cut")
}

func (n *network) heal() {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.frozen != nil {
		close(n.frozen)
	}
	n.broken, n.frozen = nil, nil
}

// balancing is a controller that creates a load balancer again and again.
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
	ccmtest.Eventually(t, "the Manager is ready", ccmtest.Ready(m))
	ccmtest.Eventually(t, "the load balancer is made",
		ccmtest.Called(cloud,
			fake.CallFilter{Method: fake.EnsureLoadBalancer, Finished: true}.Matches))
	waitRequests(t, 1, controlplane.ByUserAgent("/cluster"), controlplane.ByVerb("patch"))
	return m, stop
}

// wantNothingSince checks that no change began between two times. The controller of the cluster
// makes one request after another. The request that the fence cancels may reach the server a little
// later, which then cancels it.
func wantNothingSince(t *testing.T, cloud *fake.Cloud, from, to time.Time) {
	t.Helper()
	within := func(at time.Time) bool { return at.After(from) && at.Before(to) }
	for _, call := range cloud.Calls(fake.CallFilter{Mutating: true}.Matches) {
		if within(call.Started) {
			t.Errorf("%s after leadership had ended: %+v", call.Started.Sub(from), call)
		}
	}
	canceled := 0
	for _, r := range requests(t, controlplane.ByUserAgent("/cluster"), controlplane.Mutating()) {
		if !within(r.Time) {
			continue
		}
		if r.Code == http.StatusGatewayTimeout {
			canceled++
		}
		if r.Code != http.StatusGatewayTimeout || canceled > 1 {
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
		t.Errorf("the state of the election is %+v", s)
	}
	e.network.fail()
	if err := <-e.lent; err != nil {
		t.Errorf("Lead returned %v", err)
	}
	lost := time.Now()
	s := ccmtest.Eventually(t, "the Manager is degraded", ccmtest.State(m, ccm.StateDegraded))
	if s.Term != 1 || !strings.Contains(s.Reason, "the cable is cut") {
		t.Errorf("without leadership: %+v", s)
	}
	e.network.heal()
	again := time.Now()
	ccmtest.Eventually(t, "the second term is ready",
		ccmtest.Status(m, func(s ccm.Status) bool { return s.Ready && s.Term == 2 }))
	wantNothingSince(t, cloud, lost, again)
}
