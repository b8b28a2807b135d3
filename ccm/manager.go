package ccm

import (
	"context"
	"errors"
	"fmt"
	"os"
	"sync"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/apimachinery/pkg/util/uuid"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	controllersmetrics "k8s.io/component-base/metrics/prometheus/controllers"
	"k8s.io/klog/v2"
	"k8s.io/utils/clock"

	"github.com/fxccm/fxccm/controllers"
	"github.com/fxccm/fxccm/internal/events"
	"github.com/fxccm/fxccm/internal/fence"
)

// Params is what a [Manager] is made of: a Config, and code.
type Params struct {
	// Config is validated by New. Start from [DefaultConfig].
	Config Config

	// Providers holds the cloud provider. If there are several, Config.CloudProvider.Name chooses.
	Providers []Provider

	// Controllers are the host's own, beside the four of upstream.
	Controllers []Controller

	// RESTConfig is the client configuration of the API server. Nil: from
	// Config.ClientConnection, or of the pod's service account.
	RESTConfig *rest.Config

	// Elector decides when to act. Nil: a Lease, or [AlwaysLead] if Config says not to elect.
	Elector Elector

	// Logger is used by the Manager and handed to controllers. Nil: klog's.
	Logger *logr.Logger
}

// A Manager is one cloud controller manager for one cluster. Its methods are safe for concurrent
// use.
type Manager struct {
	config   Config
	all      []Controller
	selected controllerSelection
	provider Provider
	rest     *rest.Config
	own      kubernetes.Interface
	elector  Elector
	identity string
	log      logr.Logger
	metrics  *controllersmetrics.ControllerManagerMetrics

	mu      sync.Mutex
	running bool
	// done belongs to the run in progress, or to the last one, or to the first one to come.
	done    chan struct{}
	err     error
	term    *Term
	terms   uint64
	failure *failure
}

// failure is why there is no term, and when one is tried again.
type failure struct {
	err   error
	retry time.Time
}

// New checks everything that can be checked without a network, and returns a Manager that is
// stopped. It starts nothing. An error is a *[ConfigError] that names the field at fault.
func New(p Params) (*Manager, error) {
	if err := p.Config.Validate(); err != nil {
		return nil, err
	}
	provider, err := selectProvider(p.Config.CloudProvider.Name, p.Providers)
	if err != nil {
		return nil, err
	}
	all, err := joinControllers(builtin(p.Config), p.Controllers)
	if err != nil {
		return nil, err
	}
	selected, err := selectControllers(p.Config.Controllers, all)
	if err != nil {
		return nil, err
	}
	if err := checkRoutes(p.Config, selected); err != nil {
		return nil, err
	}
	base, err := baseConfig(p.RESTConfig, p.Config.ClientConnection)
	if err != nil {
		return nil, err
	}
	own, err := kubernetes.NewForConfig(named(base, "cloud-controller-manager"))
	if err != nil {
		return nil, &ConfigError{Fields: field.ErrorList{field.Invalid(field.NewPath("clientConnection"), base.Host, err.Error())}}
	}
	m := &Manager{
		config:   p.Config,
		all:      all,
		selected: selected,
		provider: provider,
		rest:     base,
		own:      own,
		elector:  p.Elector,
		identity: identity(p.Config.LeaderElection),
		log:      klog.Background(),
		done:     make(chan struct{}),
	}
	if p.Logger != nil {
		m.log = *p.Logger
	}
	m.log = m.log.WithName("ccm")
	// The manager's name is a label of upstream's gauge of running controllers: without the identity, one that stops would
	// hide another that runs.
	m.metrics = controllersmetrics.NewControllerManagerMetrics("cloud-controller-manager/" + m.identity)
	if err := m.chooseElector(); err != nil {
		return nil, err
	}
	return m, nil
}

// checkRoutes rejects a route controller that was asked for by name and cannot work. One that is on only
// by "*" is looked at when the provider has said whether it serves routes.
func checkRoutes(cfg Config, selected controllerSelection) error {
	if !cfg.ConfigureCloudRoutes || cfg.ClusterCIDR != "" || !selected.named[controllers.NodeRouteName] {
		return nil
	}
	return &ConfigError{Fields: field.ErrorList{field.Required(field.NewPath("clusterCIDR"),
		"needed by "+controllers.NodeRouteName+", which controllers (--controllers) names; see --cluster-cidr")}}
}

// identity is unique to a process and readable: the host name and a random part, as upstream's.
func identity(cfg LeaderElectionConfig) string {
	if cfg.Identity != "" {
		return cfg.Identity
	}
	host, err := os.Hostname()
	if err != nil {
		host = "unknown"
	}
	return host + "_" + string(uuid.NewUUID())
}

func (m *Manager) chooseElector() error {
	if m.elector != nil {
		return nil
	}
	cfg := m.config.LeaderElection
	if !cfg.LeaderElect {
		m.elector = AlwaysLead()
		return nil
	}
	cfg.Identity = m.identity
	elector, err := NewLeaseElector(named(m.rest, "leader-election"), cfg, m.log)
	if err != nil {
		return &ConfigError{Fields: field.ErrorList{field.Invalid(field.NewPath("leaderElection"), cfg.ResourceName, err.Error())}}
	}
	m.elector = elector
	return nil
}

// Config returns the configuration that New was given.
func (m *Manager) Config() Config { return m.config }

// RESTConfig returns a copy of the client configuration of the Manager's own identity, for what
// serves or tests a Manager. Its requests do not pass a fence.
func (m *Manager) RESTConfig() *rest.Config { return rest.CopyConfig(m.rest) }

// Run campaigns and leads, term after term, until ctx ends; it returns when the last term has
// drained. It can be called again after it has returned, but not while it runs.
//
// The error is nil when ctx ended and all has ended in time. Otherwise it is an *[UndrainedError], or says that
// Run is running already. Trouble that may pass (API server, cloud, RBAC) is not an error: Run
// goes on trying, and [Manager.Status] tells.
func (m *Manager) Run(ctx context.Context) error {
	if err := m.begin(); err != nil {
		return err
	}
	err := m.campaign(ctx)
	m.finish(err)
	return err
}

func (m *Manager) begin() error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.running {
		return errors.New("ccm: Run is already running")
	}
	if m.term != nil {
		if left := m.term.running(); len(left) > 0 {
			return &UndrainedError{Term: m.term.number, Running: left}
		}
	}
	select {
	case <-m.done:
		m.done = make(chan struct{})
	default:
	}
	m.running, m.err, m.failure, m.term = true, nil, nil, nil
	return nil
}

func (m *Manager) finish(err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.running, m.err = false, err
	close(m.done)
}

// retryBackoff paces terms that fail: 1 s, doubling to 30 s, with jitter so that replicas do not
// move together. A term that has lasted two minutes starts it over.
func retryBackoff() wait.DelayFunc {
	return wait.Backoff{Duration: time.Second, Factor: 2, Jitter: 0.5, Steps: 10, Cap: 30 * time.Second}.
		DelayWithReset(clock.RealClock{}, 2*time.Minute)
}

func (m *Manager) campaign(ctx context.Context) error {
	delay := retryBackoff()
	for ctx.Err() == nil {
		err := m.elector.Elect(ctx, func(led context.Context, g Grant) error {
			t := m.newTerm(g)
			return t.run(ctx, led)
		})
		var undrained *UndrainedError
		switch {
		case errors.As(err, &undrained):
			m.log.Error(err, "Term could not be drained; the lease is left to expire")
			return undrained
		case ctx.Err() != nil:
			return nil
		case errors.Is(err, ErrLeadershipLost):
			m.log.Info("Leadership lost, back to standby", "reason", err.Error())
			m.failed(nil, time.Time{})
			continue
		case err == nil:
			err = errors.New("the elector gave up without a reason")
		}
		pause := delay()
		m.log.Error(err, "Term failed", "retryIn", pause)
		m.failed(err, time.Now().Add(pause))
		select {
		case <-time.After(pause):
		case <-ctx.Done():
		}
	}
	return nil
}

func (m *Manager) failed(err error, retry time.Time) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.term, m.failure = nil, nil
	if err != nil {
		m.failure = &failure{err: err, retry: retry}
	}
}

func (m *Manager) newTerm(g Grant) *Term {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.terms++
	log := m.log.WithValues("term", m.terms)
	gate := fence.New(g.ValidUntil, time.Now)
	t := &Term{
		number:   m.terms,
		config:   m.config,
		log:      log,
		fence:    gate,
		clients:  &termClients{base: m.rest, fence: gate.Transport, clients: map[string]kubernetes.Interface{}},
		metrics:  m.metrics,
		provider: m.provider,
		identity: m.identity,
		status:   newTermStatus(),
		events:   events.New(m.own.CoreV1()),
	}
	if m.config.UseServiceAccountCredentials {
		t.clients.asUser = serviceAccounts(m.own)
	}
	for _, c := range m.all {
		if m.selected.enabled(c) {
			t.enabled = append(t.enabled, c)
		}
	}
	log.Info("Term begins", "identity", m.identity)
	m.term = t
	return t
}

// Done is closed when Run returns: the one in progress, or the last one, or the first to come.
func (m *Manager) Done() <-chan struct{} {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.done
}

// Err is what the last Run returned; nil while it runs.
func (m *Manager) Err() error {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.err
}

// Status tells what the Manager is doing.
func (m *Manager) Status() Status {
	m.mu.Lock()
	defer m.mu.Unlock()
	status := Status{State: StateStopped, Term: m.terms, Provider: m.provider.Name}
	for _, c := range m.all {
		state := ControllerDisabled
		if m.selected.enabled(c) {
			state = ControllerWaiting
		}
		status.Controllers = append(status.Controllers, ControllerStatus{Name: c.Name, State: state})
	}
	if reporter, ok := m.elector.(ElectionReporter); ok {
		status.Election = reporter.ElectionStatus()
	}
	if m.term != nil {
		m.term.status.fill(&status)
		status.Running = m.term.running()
	}
	switch {
	case !m.running:
		status.State, status.Ready, status.Step = StateStopped, false, ""
		if m.err != nil {
			status.Reason = m.err.Error()
		}
	case m.term != nil:
	case m.failure != nil:
		status.State, status.Reason, status.RetryAt = StateDegraded, explain(m.failure.err), m.failure.retry
	case status.Election.Err != nil:
		status.State, status.Reason = StateDegraded, explain(fmt.Errorf("leader election: %w", status.Election.Err))
	default:
		status.State = StateStandby
	}
	return status
}
