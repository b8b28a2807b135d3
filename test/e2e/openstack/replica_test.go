package openstack_test

import (
	"context"
	"encoding/json"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	cloudprovider "k8s.io/cloud-provider"
	"k8s.io/utils/clock"

	"github.com/fxccm/fxccm/ccm"
	"github.com/fxccm/fxccm/ccm/ccmtest"
	"github.com/fxccm/fxccm/ccm/status"
	"github.com/fxccm/fxccm/internal/waittest"
	"github.com/fxccm/fxccm/provider/openstack"
	"github.com/fxccm/fxccm/provider/openstack/cloudconf"
	"github.com/fxccm/fxccm/test/internal/suite"
)

// replica is a running Manager with the OpenStack provider.
type replica struct {
	*ccm.Manager
	site    *site
	elector *ccmtest.ManualElector
	clock   clock.Clock
	metrics *prometheus.Registry
	log     *journal

	cancel  context.CancelFunc
	result  chan error
	stopped bool
}

// launch has the settings of a replica.
type launch struct {
	ccm.Params
	// cloud is the provider's configuration, unless Params.Config names a file.
	cloud   cloudconf.Config
	options []openstack.Option
	// haste is the speed of the provider's clock in relation to the real one.
	haste int
}

func named(name string) func(*launch) { return func(l *launch) { l.Name = name } }

func haste(times int) func(*launch) { return func(l *launch) { l.haste = times } }

// configured changes the provider's configuration.
func configured(change func(*cloudconf.Config)) func(*launch) {
	return func(l *launch) { change(&l.cloud) }
}

// refreshed makes the provider look up addresses of nodes several times a second.
func refreshed(l *launch) {
	l.Config.Node.StatusUpdateFrequency = metav1.Duration{Duration: 200 * time.Millisecond}
}

// start runs a Manager until the test ends or it is stopped. It leads at once.
func start(t *testing.T, s *site, change ...func(*launch)) *replica {
	t.Helper()
	r := &replica{
		site: s, elector: ccmtest.NewManualElector(), metrics: prometheus.NewRegistry(),
		log: &journal{},
	}
	r.elector.Lead()
	log := r.log.logger()
	l := launch{cloud: s.config(), haste: 10, Params: ccm.Params{
		Config: managerConfig(), RESTConfig: s.secrets.watch(suite.Confine(t, shared.Identity)),
		Elector: r.elector, Logger: &log, Registerer: r.metrics,
	}}
	for _, f := range change {
		f(&l)
	}
	r.clock = waittest.Hasty(l.haste)
	l.Providers = []ccm.Provider{r.byClock(l.provider())}
	var err error
	if r.Manager, err = ccm.New(l.Params); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		r.stop()
		r.noSecrets()
		if t.Failed() {
			t.Logf("the end of the log of Manager %q:\n%s", l.Name, end(r.log.String()))
		}
	})
	r.run()
	return r
}

// managerConfig has no lease, because the test controls leadership.
func managerConfig() ccm.Config {
	cfg := ccmtest.Config()
	cfg.NodeLifecycle.MonitorPeriod = metav1.Duration{Duration: 100 * time.Millisecond}
	cfg.Route.ReconciliationPeriod = metav1.Duration{Duration: 100 * time.Millisecond}
	return cfg
}

func (l *launch) provider() ccm.Provider {
	if l.Config.CloudProvider.ConfigFile != "" {
		return openstack.Provider(l.options...)
	}
	return openstack.Provider(append(l.options, openstack.WithConfig(l.cloud))...)
}

// byClock gives only the provider the replica's clock.
func (r *replica) byClock(p ccm.Provider) ccm.Provider {
	open := p.New
	p.New = func(ctx context.Context, env ccm.ProviderEnv) (cloudprovider.Interface, error) {
		env.Clock = r.clock
		return open(ctx, env)
	}
	return p
}

func (r *replica) run() {
	ctx, cancel := context.WithCancel(context.Background())
	r.cancel, r.result, r.stopped = cancel, make(chan error, 1), false
	go func() { r.result <- r.Run(ctx) }()
}

// stop stops the Manager, which must stop cleanly.
func (r *replica) stop() {
	r.site.t.Helper()
	if r.stopped {
		return
	}
	r.stopped = true
	r.cancel()
	select {
	case err := <-r.result:
		if err != nil {
			r.site.t.Errorf("the Manager did not stop cleanly: %v", err)
		}
	case <-time.After(ccmtest.WaitLimit):
		r.site.t.Fatalf("Run has not returned; status: %+v", r.Status())
	}
}

// noSecrets scans the replica's log and status.
func (r *replica) noSecrets() {
	current, err := json.Marshal(r.Status())
	r.site.must(err)
	r.site.secrets.scan("the status", string(current))
	r.site.secrets.scan("the log", r.log.String())
}

// ready starts a Manager and waits until it leads and is ready.
func ready(t *testing.T, s *site, change ...func(*launch)) *replica {
	t.Helper()
	r := start(t, s, change...)
	ccmtest.Eventually(t, "the Manager is ready", ccmtest.Ready(r.Manager))
	return r
}

// unbroken fails the test if there was a second term, or a controller was restarted.
func (r *replica) unbroken() {
	r.site.t.Helper()
	s := r.Status()
	if s.Term != 1 || !s.Ready {
		r.site.t.Errorf(
			"the Manager is %s in term %d, ready: %t (%s); want that its first term goes on",
			s.State, s.Term, s.Ready, s.Reason)
	}
	for _, c := range s.Controllers {
		if c.Restarts > 0 || c.State == status.ControllerFailed {
			r.site.t.Errorf("controller %s is %s, and was made again %d times: %s", c.Name, c.State,
				c.Restarts, c.Reason)
		}
	}
}
