package ccmtest

import (
	"context"
	"errors"
	"testing"

	"github.com/go-logr/logr"
	"go.uber.org/fx"
	"go.uber.org/fx/fxtest"
	"go.uber.org/goleak"
	authenticationv1 "k8s.io/api/authentication/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/klog/v2/ktesting"

	"github.com/fxccm/fxccm/ccm"
	"github.com/fxccm/fxccm/ccm/election"
	"github.com/fxccm/fxccm/ccm/status"
	"github.com/fxccm/fxccm/provider/fake"
)

// A CCM is a cloud controller manager under test. [StartApp] or [StartManager] starts it, and the
// end of the test stops it. Its methods are for the test's goroutine.
type CCM struct {
	// Manager is the Manager under test.
	Manager *ccm.Manager

	// Cloud is the fake cloud of the test.
	Cloud *fake.Cloud

	// Elector decides when the CCM leads. It is nil if the test uses no [ManualElector].
	Elector *ManualElector

	// Client is for the test, not for the CCM: it has the rights of the cluster's administrator.
	Client kubernetes.Interface

	// Identity is the CCM's name in the election.
	Identity string

	t       testing.TB
	run     runner
	running bool
	config  *rest.Config // the CCM's own
	before  goleak.Option
}

// runner starts and stops a Manager repeatedly.
type runner interface {
	start() error
	stop() error
}

// StartApp starts a CCM as an fx app (fxtest) with [ccm.Module], the fake cloud, [Config], and a
// [ManualElector] that lets it lead at once; options change each of these. It does not wait until
// the CCM leads: see [CCM.WaitReady]. The end of the test stops the app; the test fails if the stop
// fails.
func StartApp(t testing.TB, cluster Cluster, cloud *fake.Cloud, opts ...Option) *CCM {
	t.Helper()
	p := prepare(t, cluster, cloud, opts)
	var manager *ccm.Manager
	app := fxtest.New(t, p.app(t), fx.Populate(&manager))
	return p.begin(t, manager, &appRunner{app})
}

// StartManager is StartApp without fx, for hosts that have none.
func StartManager(t testing.TB, cluster Cluster, cloud *fake.Cloud, opts ...Option) *CCM {
	t.Helper()
	p := prepare(t, cluster, cloud, opts)
	if len(p.host)+len(p.extra) > 0 {
		t.Fatal(
			"ccmtest.WithHost and ccmtest.WithFx are for StartApp: a Manager without fx has no use for them")
	}
	manager, err := ccm.New(ccm.Params{
		Config:      p.config(p.ccm.Identity),
		Providers:   []ccm.Provider{p.chosen},
		Controllers: p.controllers,
		RESTConfig:  p.ccm.config,
		Elector:     p.voter,
		Logger:      &p.log,
	})
	if err != nil {
		t.Fatal(err)
	}
	return p.begin(t, manager, &managerRunner{manager: manager})
}

// parts are the parts of an app or a Manager.
type parts struct {
	options
	ccm    *CCM
	chosen ccm.Provider
	voter  election.Elector
	log    logr.Logger
}

func prepare(t testing.TB, cluster Cluster, cloud *fake.Cloud, opts []Option) *parts {
	t.Helper()
	p := &parts{
		ccm: &CCM{t: t, Cloud: cloud, Identity: identityOf(t), before: goleak.IgnoreCurrent()},
		log: ktesting.NewLogger(t, ktesting.NewConfig(ktesting.Verbosity(2))),
	}
	for _, opt := range opts {
		opt(&p.options)
	}
	if cloud == nil && p.provider == nil {
		t.Fatal("ccmtest: a CCM needs a cloud: give a *fake.Cloud, or WithProvider")
	}
	p.chosen, p.voter = p.chooseProvider(cloud), p.chooseElector()
	p.ccm.Elector, _ = p.voter.(*ManualElector)
	p.ccm.config = p.identity
	var err error
	if p.ccm.config == nil {
		if p.ccm.config, err = administrator(cluster, p.ccm.Identity); err != nil {
			t.Fatal(err)
		}
	}
	if p.ccm.Client, err = kubernetes.NewForConfig(cluster.RESTConfig()); err != nil {
		t.Fatalf("client of the test: %v", err)
	}
	return p
}

// begin starts the CCM, and stops it when the test is over.
func (p *parts) begin(t testing.TB, manager *ccm.Manager, run runner) *CCM {
	t.Helper()
	c := p.ccm
	c.Manager, c.run = manager, run
	c.Identity = manager.Config().LeaderElection.Identity
	t.Cleanup(func() {
		c.Stop()
		closeIdleConnections(c.config)
	})
	if !p.unstarted {
		c.Start()
	}
	return c
}

// Start starts the CCM, also after a Stop. It returns at once. If it fails, the test fails.
func (c *CCM) Start() {
	c.t.Helper()
	if c.running {
		c.t.Fatal("ccmtest: Start was called while the CCM runs")
	}
	if err := c.run.start(); err != nil {
		c.t.Fatalf("start the CCM: %v", err)
	}
	c.running = true
}

// Stop stops the CCM and returns when its open term has drained. It does nothing if the CCM does
// not run. If the stop fails, the test fails but continues.
func (c *CCM) Stop() {
	c.t.Helper()
	if err := c.TryStop(); err != nil {
		c.t.Errorf("stop the CCM: %v", err)
	}
}

// TryStop is Stop for a test that expects an error. It returns the error, such as a
// [*ccm.DrainTimeoutError].
func (c *CCM) TryStop() error {
	if !c.running {
		return nil
	}
	c.running = false
	if err := c.run.stop(); err != nil {
		return err
	}
	// If a term did not drain before the stop, an app gives its error to the policy, not to the
	// stop.
	return c.Manager.Err()
}

// WaitReady waits until the CCM leads and all of its controllers run; see [Ready].
func (c *CCM) WaitReady() status.Manager {
	c.t.Helper()
	return Eventually(c.t, "the CCM leads and is ready", Ready(c.Manager))
}

// Caller is the name under which the cloud records the calls of one term of this CCM, see
// [fake.TermCaller].
func (c *CCM) Caller(term uint64) string { return fake.TermCaller(c.Identity, term) }

// User is the CCM's user name in the API server, which is also in the audit log.
func (c *CCM) User() string {
	c.t.Helper()
	user, err := userOf(c.config)
	if err == nil && user == "" {
		user, err = askForUser(c.config)
	}
	if err != nil {
		c.t.Fatalf("find out the user name of the CCM: %v", err)
	}
	return user
}

func askForUser(cfg *rest.Config) (string, error) {
	ctx, cancel := context.WithTimeout(context.Background(), WaitLimit)
	defer cancel()
	client, err := kubernetes.NewForConfig(cfg)
	if err != nil {
		return "", err
	}
	review, err := client.AuthenticationV1().SelfSubjectReviews().Create(ctx,
		&authenticationv1.SelfSubjectReview{}, metav1.CreateOptions{})
	if err != nil {
		return "", err
	}
	return review.Status.UserInfo.Username, nil
}

// VerifyNoLeaks stops the CCM and checks for leaked goroutines: see the function [VerifyNoLeaks].
// It ignores goroutines that ran before the CCM was created.
func (c *CCM) VerifyNoLeaks(opts ...goleak.Option) {
	c.t.Helper()
	c.Stop()
	verifyNoLeaks(c.t, c.config, append([]goleak.Option{c.before}, opts...))
}

// appRunner runs an fx app.
type appRunner struct{ app *fxtest.App }

func (r *appRunner) start() error {
	ctx, cancel := context.WithTimeout(context.Background(), r.app.StartTimeout())
	defer cancel()
	return r.app.Start(ctx)
}

func (r *appRunner) stop() error {
	ctx, cancel := context.WithTimeout(context.Background(), r.app.StopTimeout())
	defer cancel()
	return r.app.Stop(ctx)
}

// managerRunner runs a Manager.
type managerRunner struct {
	manager *ccm.Manager
	cancel  context.CancelFunc
	result  chan error
}

func (r *managerRunner) start() error {
	ctx, cancel := context.WithCancel(context.Background())
	r.cancel, r.result = cancel, make(chan error, 1)
	go func(result chan<- error) { result <- r.manager.Run(ctx) }(r.result)
	return nil
}

func (r *managerRunner) stop() error {
	r.cancel()
	// Run ends within the drain timeout.
	ctx, cancel := context.WithTimeout(context.Background(),
		r.manager.Config().DrainTimeout.Duration+WaitLimit)
	defer cancel()
	select {
	case err := <-r.result:
		return err
	case <-ctx.Done():
		return errors.New("the Manager runs on after its context has ended")
	}
}
