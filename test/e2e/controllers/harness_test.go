package controllers_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"github.com/go-logr/logr/testr"
	"github.com/prometheus/client_golang/prometheus"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	cloudprovider "k8s.io/cloud-provider"

	"github.com/fxccm/fxccm/ccm"
	"github.com/fxccm/fxccm/ccm/ccmtest"
	"github.com/fxccm/fxccm/ccm/ccmtest/controlplane"
	"github.com/fxccm/fxccm/ccm/election"
	"github.com/fxccm/fxccm/internal/waittest"
	"github.com/fxccm/fxccm/provider/fake"
	"github.com/fxccm/fxccm/test/internal/suite"
)

// newCloud makes a fake cloud with an instance for each name.
func newCloud(t *testing.T, instances []string, opts ...fake.Option) *fake.Cloud {
	t.Helper()
	cloud := fake.New(opts...)
	for _, name := range instances {
		if err := cloud.AddInstances(fake.Instance{Name: name}); err != nil {
			t.Fatal(err)
		}
	}
	// A call that hangs at the end of a test would block the drain.
	t.Cleanup(cloud.ClearFaults)
	return cloud
}

// provider opens the cloud again in each term, and passes the caller's name to the cloud.
func provider(cloud *fake.Cloud) ccm.Provider {
	return ccm.Provider{
		Name: "fake",
		New: func(_ context.Context, env ccm.ProviderEnv) (cloudprovider.Interface, error) {
			return cloud.Provider(fake.WithCaller(fmt.Sprintf("%s/%d", env.Identity, env.Term))),
				nil
		},
	}
}

// params are the Params of a Manager for the test's virtual cluster, with the shipped identity and
// short periods.
func params(t *testing.T, cloud *fake.Cloud, change ...func(*ccm.Params)) ccm.Params {
	t.Helper()
	cfg := ccm.DefaultConfig()
	cfg.ClusterCIDR = "10.244.0.0/16"
	cfg.NodeLifecycle.MonitorPeriod = metav1.Duration{Duration: 200 * time.Millisecond}
	cfg.Route.ReconciliationPeriod = metav1.Duration{Duration: 200 * time.Millisecond}
	// The shipped rules allow a single lease, so a test of other subjects leads without it.
	cfg.LeaderElection.LeaderElect = false
	// The duration is short, so that a test can wait for a lease to expire.
	cfg.LeaderElection.LeaseDuration = metav1.Duration{Duration: 4 * time.Second}
	cfg.LeaderElection.RenewDeadline = metav1.Duration{Duration: 2 * time.Second}
	cfg.LeaderElection.RetryPeriod = metav1.Duration{Duration: 500 * time.Millisecond}
	log := logr.Discard()
	if testing.Verbose() {
		log = testr.New(t)
	}
	p := ccm.Params{
		Config: cfg, Providers: []ccm.Provider{provider(cloud)},
		RESTConfig: suite.Confine(t, shared.Identity), Logger: &log,
		Registerer: prometheus.NewRegistry(),
	}
	for _, f := range change {
		f(&p)
	}
	if p.Elector == nil && !p.Config.LeaderElection.LeaderElect {
		p.Elector = &election.Alone{} // without the warning that leader election is off
	}
	return p
}

// only enables the named controllers, and no others.
func only(controllers ...string) func(*ccm.Params) {
	return func(p *ccm.Params) { p.Config.Controllers = controllers }
}

// replica is a running Manager.
type replica struct {
	*ccm.Manager
	t       *testing.T
	cancel  context.CancelFunc
	result  chan error
	stopped bool
}

// start runs a Manager until the test ends or it is stopped.
func start(t *testing.T, p ccm.Params) *replica {
	t.Helper()
	m, err := ccm.New(p)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	r := &replica{Manager: m, t: t, cancel: cancel, result: make(chan error, 1)}
	go func() { r.result <- m.Run(ctx) }()
	t.Cleanup(func() {
		if !r.stopped {
			if err := r.stop(); err != nil {
				t.Errorf("Manager did not stop cleanly at the end of the test: %v", err)
			}
		}
	})
	return r
}

// stop stops the Manager, and returns the result of Run.
func (r *replica) stop() error {
	r.t.Helper()
	r.stopped = true
	r.cancel()
	select {
	case err := <-r.result:
		return err
	case <-time.After(ccmtest.WaitLimit):
		r.t.Fatalf("Run has not returned; status: %+v", r.Status())
		return nil
	}
}

// run starts a Manager and waits until it leads and is ready.
func run(t *testing.T, cloud *fake.Cloud, change ...func(*ccm.Params)) *replica {
	t.Helper()
	r := start(t, params(t, cloud, change...))
	ccmtest.Eventually(t, "the Manager is ready", ccmtest.Ready(r.Manager))
	return r
}

// requests returns the CCM's requests to the API server since the mark.
func requests(
	t *testing.T, since controlplane.Mark, filters ...controlplane.Filter,
) []controlplane.AuditRecord {
	t.Helper()
	records, err := shared.Audit().Since(since,
		append(filters, controlplane.ByUser(shared.User))...)
	if err != nil {
		t.Fatal(err)
	}
	return records
}

// waitRequests waits until the CCM has made at least n such requests since the mark.
func waitRequests(
	t *testing.T, since controlplane.Mark, n int, filters ...controlplane.Filter,
) []controlplane.AuditRecord {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), ccmtest.WaitLimit)
	defer cancel()
	records, err := shared.Audit().Wait(ctx, since, n,
		append(filters, controlplane.ByUser(shared.User))...)
	if err != nil {
		t.Fatal(err)
	}
	return records
}

func callsOf(method fake.Method, object string) func(fake.Call) bool {
	return fake.CallFilter{Method: method, Object: object}.Matches
}

// waitCalls waits for n calls of the cloud, and returns them.
func waitCalls(
	t *testing.T, cloud *fake.Cloud, what string, n int, where func(fake.Call) bool,
) []fake.Call {
	t.Helper()
	var calls []fake.Call
	waittest.Until(t, what, func() error {
		if calls = cloud.Calls(where); len(calls) < n {
			return fmt.Errorf("there were %d of %d calls", len(calls), n)
		}
		return nil
	})
	return calls
}
