package leaks

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/rest"
	cloudprovider "k8s.io/cloud-provider"

	"github.com/fxccm/fxccm/ccm"
	"github.com/fxccm/fxccm/ccm/ccmtest"
	"github.com/fxccm/fxccm/ccm/status"
	"github.com/fxccm/fxccm/internal/netfault"
	"github.com/fxccm/fxccm/internal/waittest"
	"github.com/fxccm/fxccm/provider/fake"
)

// starts is the number of failed starts of each kind after the first one, which warms up.
const starts = 20

// failure is a kind of start that fails.
type failure struct {
	name string
	// breaks makes the start fail or block.
	breaks func(*attempts, *ccm.Params)
	// until reports whether the start has failed or blocks.
	until func(status.Manager) bool
	// loses ends the start by a loss of leadership before the Manager is stopped.
	loses bool
	// timesOut means that the start cannot be ended in time, so a drain timeout is expected.
	timesOut bool
}

// attempts repeats one kind of failed start.
type attempts struct {
	failure
	cloud   *cloud
	elector *ccmtest.ManualElector
	manager *ccm.Manager

	mu sync.Mutex
	// let is closed when blocked code may continue.
	let chan struct{}
}

// standStill waits for the end of the attempt, for code without a context.
func (a *attempts) standStill() {
	a.mu.Lock()
	let := a.let
	a.mu.Unlock()
	<-let
}

// make lets one start fail, and ends the Run.
func (a *attempts) make(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, ccmtest.WaitLimit)
	defer cancel()
	let := make(chan struct{})
	a.mu.Lock()
	a.let = let
	a.mu.Unlock()
	running, stop := context.WithCancel(ctx)
	defer stop()
	result := make(chan error, 1)
	a.elector.Lead()
	go func() { result <- a.manager.Run(running) }()
	err := a.await(ctx, "it has come to that", a.until)
	if a.loses {
		a.elector.Lose(errTest)
	} else {
		stop()
	}
	// Blocked code must not continue before the end is visible, which would be another failure.
	err = errors.Join(err,
		a.await(ctx, "the end is noticed", func(s status.Manager) bool { return !a.until(s) }))
	if !a.timesOut {
		close(let)
	}
	if a.loses {
		err = errors.Join(err,
			a.await(ctx, "it stands by",
				func(s status.Manager) bool { return s.State == status.Standby }))
	}
	stop()
	err = errors.Join(err, a.outcome(<-result))
	if a.timesOut {
		close(let)
		err = errors.Join(err,
			a.await(ctx, "all has ended",
				func(s status.Manager) bool { return len(s.Running) == 0 }))
	}
	return err
}

// outcome judges what Run has returned.
func (a *attempts) outcome(err error) error {
	timedOut := (*ccm.DrainTimeoutError)(nil)
	switch {
	case a.timesOut && errors.As(err, &timedOut):
		return nil
	case a.timesOut:
		return fmt.Errorf("Run returned %v, want a DrainTimeoutError", err)
	case err != nil:
		return fmt.Errorf("Run: %w", err)
	}
	return nil
}

func (a *attempts) await(ctx context.Context, what string, cond func(status.Manager) bool) error {
	return waittest.Poll(ctx, func() error {
		if s := a.manager.Status(); !cond(s) {
			return fmt.Errorf("waited without success until %s; status: %+v", what, s)
		}
		return nil
	})
}

// told is the status of a start that has failed with the reason and will be retried.
func told(reason string) func(status.Manager) bool {
	return func(s status.Manager) bool {
		return s.State == status.Degraded && !s.RetryAt.IsZero() &&
			strings.Contains(s.Reason, reason)
	}
}

// campaigning is the status of a Manager without leadership, with or without a failed request for
// the lease.
func campaigning(s status.Manager) bool {
	return s.State == status.Standby || strings.Contains(s.Reason, "leader election: read lease")
}

func inStep(step string) func(status.Manager) bool {
	return func(s status.Manager) bool { return s.Step == step }
}

// starting is the pause between the starts of two controllers.
func starting(s status.Manager) bool {
	running := 0
	for _, c := range s.Controllers {
		if c.State == status.ControllerRunning {
			running++
		}
	}
	return running == 1 && !s.Ready
}

// provides changes how the provider is built.
func provides(
	build func(ctx context.Context, a *attempts, env ccm.ProviderEnv) (cloudprovider.Interface,
		error),
) func(*attempts, *ccm.Params) {
	return func(a *attempts, p *ccm.Params) {
		p.Providers = []ccm.Provider{{
			Name: "fake",
			New: func(ctx context.Context, env ccm.ProviderEnv) (cloudprovider.Interface, error) {
				return build(ctx, a, env)
			},
		}}
	}
}

// dials builds the provider with hooks.
func dials(hooks func(a *attempts) []fake.ProviderOption) func(*attempts, *ccm.Params) {
	return provides(func(ctx context.Context, a *attempts,
		env ccm.ProviderEnv,
	) (cloudprovider.Interface, error) {
		return a.cloud.dial(ctx, env, hooks(a)...)
	})
}

func initializes(
	f func(a *attempts, builder cloudprovider.ControllerClientBuilder, stop <-chan struct{}),
) func(*attempts, *ccm.Params) {
	return dials(func(a *attempts) []fake.ProviderOption {
		return []fake.ProviderOption{fake.WithInitialize(
			func(b cloudprovider.ControllerClientBuilder, stop <-chan struct{}) { f(a, b, stop) })}
	})
}

func setsInformers(f func(a *attempts)) func(*attempts, *ccm.Params) {
	return dials(func(a *attempts) []fake.ProviderOption {
		return []fake.ProviderOption{fake.WithSetInformers(
			func(factory informers.SharedInformerFactory) {
				factory.Core().V1().Nodes().Informer()
				f(a)
			})}
	})
}

// controls adds a controller whose name sorts last, so that the others are built before it.
func controls(
	build func(ctx context.Context, term *ccm.Term) (ccm.Runnable, error),
) func(*attempts, *ccm.Params) {
	return func(_ *attempts, p *ccm.Params) {
		p.Controllers = append(p.Controllers, ccm.Controller{Name: "zz-last", New: build})
	}
}

func configures(change func(*ccm.Config)) func(*attempts, *ccm.Params) {
	return func(_ *attempts, p *ccm.Params) { change(&p.Config) }
}

// reaches changes the API server or the user of the CCM.
func reaches(cfg *rest.Config) func(*attempts, *ccm.Params) {
	return func(_ *attempts, p *ccm.Params) { p.RESTConfig = cfg }
}

func both(fs ...func(*attempts, *ccm.Params)) func(*attempts, *ccm.Params) {
	return func(a *attempts, p *ccm.Params) {
		for _, f := range fs {
			f(a, p)
		}
	}
}

// campaigns elects by the lease.
func campaigns(_ *attempts, p *ccm.Params) { p.Elector = nil }

var (
	errTest = errors.New("as the test wants it")
	// brief ends the wait for informers soon; endless does not end it.
	brief = configures(func(c *ccm.Config) {
		c.CacheSyncTimeout = metav1.Duration{Duration: 200 * time.Millisecond}
	})
	endless = configures(func(c *ccm.Config) {
		c.CacheSyncTimeout = metav1.Duration{Duration: time.Hour}
	})
	// unserved requests an informer of a resource that the API server does not serve by default.
	unserved = controls(func(_ context.Context, term *ccm.Term) (ccm.Runnable, error) {
		term.Informers().Storage().V1beta1().VolumeAttributesClasses().Informer()
		return ccm.RunnableFunc(func(ctx context.Context) error { <-ctx.Done(); return nil }), nil
	})
)

// failures are all kinds. powerless has no rights, down has no server, and frozen has an API server
// that accepts requests and never answers.
func failures(powerless, down, frozen *rest.Config) []failure {
	kinds := []failure{
		{
			name: "provider returns an error", until: told(errTest.Error()),
			breaks: provides(
				func(context.Context, *attempts, ccm.ProviderEnv) (cloudprovider.Interface, error) {
					return nil, errTest
				}),
		},
		{
			name: "provider panics", until: told("panic in build provider"),
			breaks: provides(
				func(context.Context, *attempts, ccm.ProviderEnv) (cloudprovider.Interface, error) {
					panic(errTest)
				}),
		},
		{
			name: "provider is nil", until: told("neither a cloud nor an error"),
			breaks: provides(
				func(context.Context, *attempts, ccm.ProviderEnv) (cloudprovider.Interface, error) {
					return nil, nil
				}),
		},
		{
			name: "provider has no cluster ID", until: told("has no cluster ID"),
			breaks: provides(func(ctx context.Context, a *attempts,
				env ccm.ProviderEnv,
			) (cloudprovider.Interface, error) {
				provider, err := a.cloud.dial(ctx, env)
				return untagged{provider}, err
			}),
		},
		{
			name: "Initialize panics", until: told("panicked in Initialize"),
			breaks: initializes(func(*attempts, cloudprovider.ControllerClientBuilder,
				<-chan struct{},
			) {
				panic(errTest)
			}),
		},
		{
			name:  "Initialize asks for a client that cannot be",
			until: told("a client needs a name"),
			breaks: initializes(
				func(_ *attempts, b cloudprovider.ControllerClientBuilder, _ <-chan struct{}) {
					b.ClientOrDie("")
				}),
		},
		{name: "SetInformers panics", until: told("panicked in SetInformers"), breaks: setsInformers(func(*attempts) { panic(errTest) })},
		{
			name: "controller returns an error", until: told(errTest.Error()),
			breaks: controls(func(context.Context, *ccm.Term) (ccm.Runnable, error) {
				return nil, errTest
			}),
		},
		{name: "controller panics", until: told("panic in"), breaks: controls(func(context.Context, *ccm.Term) (ccm.Runnable, error) { panic(errTest) })},
		{
			name: "controller is nil", until: told("neither a Runnable nor an error"),
			breaks: controls(func(context.Context, *ccm.Term) (ccm.Runnable, error) {
				return nil, nil
			}),
		},
		{
			name: "controller ends at once", until: told(errTest.Error()),
			breaks: controls(func(context.Context, *ccm.Term) (ccm.Runnable, error) {
				return ccm.RunnableFunc(func(context.Context) error { return errTest }), nil
			}),
		},
		{name: "RBAC is missing", until: told("lacks RBAC rules"), breaks: both(reaches(powerless), brief)},
		{name: "informer never syncs", until: told("informer of volumeattributesclasses has not synced"), breaks: both(unserved, brief)},
		{name: "API server is down", until: told("the API server is down"), breaks: both(reaches(down), brief)},
		{name: "API server is frozen", until: told("has not synced"), breaks: both(reaches(frozen), brief)},
		{name: "campaign without an API server", until: func(s status.Manager) bool {
			return s.State == status.Degraded
		}, breaks: both(reaches(down), campaigns)},
		{name: "campaign without RBAC", until: func(s status.Manager) bool { return s.State == status.Degraded }, breaks: both(reaches(powerless), campaigns)},
		{name: "campaign at a frozen API server", until: campaigning, breaks: both(reaches(frozen), campaigns)},
		{
			name: "provider ignores the end", until: inStep("build provider"), timesOut: true,
			breaks: both(configures(func(c *ccm.Config) {
				c.DrainTimeout = metav1.Duration{Duration: 200 * time.Millisecond}
			}),
				provides(func(_ context.Context, a *attempts,
					_ ccm.ProviderEnv,
				) (cloudprovider.Interface, error) {
					a.standStill()
					return nil, errTest
				})),
		},
	}
	for _, step := range standingStill() {
		stopped, lost := step, step
		stopped.name += " when stopped"
		lost.name, lost.loses = lost.name+" when leadership is lost", true
		kinds = append(kinds, stopped, lost)
	}
	return kinds
}

// standingStill are starts that end while a step blocks.
func standingStill() []failure {
	return []failure{
		{
			name: "provider is being built", until: inStep("build provider"),
			breaks: provides(func(_ context.Context, a *attempts,
				_ ccm.ProviderEnv,
			) (cloudprovider.Interface, error) {
				a.standStill()
				return nil, errTest
			}),
		},
		{
			name: "provider is built too late", until: inStep("build provider"),
			breaks: provides(func(ctx context.Context, a *attempts,
				env ccm.ProviderEnv,
			) (cloudprovider.Interface, error) {
				provider, err := a.cloud.dial(ctx, env)
				a.standStill()
				return provider, err
			}),
		},
		{
			name: "Initialize", until: inStep("start provider"),
			breaks: initializes(func(a *attempts, _ cloudprovider.ControllerClientBuilder,
				_ <-chan struct{},
			) {
				a.standStill()
			}),
		},
		{name: "SetInformers", until: inStep("start provider"), breaks: setsInformers((*attempts).standStill)},
		{
			name: "controllers are being built", until: inStep("build controllers"),
			breaks: func(a *attempts, p *ccm.Params) {
				controls(func(context.Context, *ccm.Term) (ccm.Runnable, error) {
					a.standStill()
					return nil, errTest
				})(a, p)
			},
		},
		{name: "informers sync", until: inStep("sync informers"), breaks: both(unserved, endless)},
		{name: "controllers start", until: starting, breaks: configures(func(c *ccm.Config) {
			c.ControllerStartInterval = metav1.Duration{Duration: time.Hour}
		})},
	}
}

type untagged struct{ *dialled }

func (untagged) HasClusterID() bool { return false }

func TestFailedStarts_TwentyOfEachKind_LeaveNothingBehind(t *testing.T) {
	c := newCloud(t)
	account, api := through(t, shared.Identity)
	powerless, err := shared.ControlPlane.UserConfig("powerless")
	if err != nil {
		t.Fatal(err)
	}
	powerless, apiForPowerless := through(t, powerless)
	down := rest.CopyConfig(shared.Identity)
	down.Host = "https://127.0.0.1:1"
	frozen, ice := freezer(t)

	var all []*attempts
	for _, kind := range failures(powerless, down, frozen) {
		all = append(all, newAttempts(t, kind, c, account))
	}
	term := measureTerm(t)
	b := newBalance(t, c, []*rest.Config{account, powerless, frozen}, api, apiForPowerless,
		ice)
	for range starts + 1 {
		makeAll(t, all)
		// The connections to the frozen server belong to canceled requests.
		b.check("after a failed start of each kind", 3)
		c.ResetCalls()
		b.weigh()
	}
	b.heap = b.heap[1:]
	b.checkHeap(term)
}

func newAttempts(t *testing.T, kind failure, c *cloud, account *rest.Config) *attempts {
	t.Helper()
	a := &attempts{failure: kind, cloud: c, elector: ccmtest.NewManualElector()}
	p := params(account, a.elector, c.provider())
	p.Config.LeaderElection.Identity = strings.ToLower(strings.ReplaceAll(kind.name, " ", "-"))
	p.Config.LeaderElection.ResourceName = p.Config.LeaderElection.Identity
	p.Config.DrainTimeout = metav1.Duration{Duration: 20 * time.Second}
	kind.breaks(a, &p)
	var err error
	if a.manager, err = ccm.New(p); err != nil {
		t.Fatalf("%s: %v", kind.name, err)
	}
	return a
}

// makeAll makes one attempt of each kind in parallel, because they mostly wait.
func makeAll(t *testing.T, all []*attempts) {
	t.Helper()
	var group sync.WaitGroup
	for _, a := range all {
		group.Go(func() {
			if err := a.make(t.Context()); err != nil {
				t.Errorf("%s: %v", a.name, err)
			}
		})
	}
	group.Wait()
	if t.Failed() {
		t.FailNow()
	}
}

// freezer is an API server that accepts every request and answers none.
func freezer(t *testing.T) (*rest.Config, *netfault.Proxy) {
	t.Helper()
	server := httptest.NewUnstartedServer(
		http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }))
	server.EnableHTTP2 = true
	server.StartTLS()
	t.Cleanup(server.Close)
	return through(t,
		&rest.Config{Host: server.URL, TLSClientConfig: rest.TLSClientConfig{Insecure: true}})
}

// measureTerm is the memory of a leading term.
func measureTerm(t *testing.T) uint64 {
	t.Helper()
	l := newLeader(t)
	l.fillCluster()
	before := heapInUse()
	l.run()
	l.elector.Lead()
	ccmtest.Eventually(t, "the Manager is ready", ccmtest.Ready(l.manager))
	during := heapInUse()
	l.stopped()
	return during - min(before, during)
}
