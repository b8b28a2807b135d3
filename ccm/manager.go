package ccm

import (
	"errors"
	"fmt"
	"log/slog"
	"os"
	"slices"
	"sync"
	"time"

	"github.com/go-logr/logr"
	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/apimachinery/pkg/util/uuid"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/client-go/kubernetes"
	typedcorev1 "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/rest"
	controllersmetrics "k8s.io/component-base/metrics/prometheus/controllers"
	"k8s.io/klog/v2"
	"k8s.io/utils/clock"

	"github.com/fxccm/fxccm/ccm/election"
	"github.com/fxccm/fxccm/ccm/status"
	"github.com/fxccm/fxccm/internal/events"
	"github.com/fxccm/fxccm/internal/fence"
	"github.com/fxccm/fxccm/internal/inflight"
	"github.com/fxccm/fxccm/internal/informerview"
	"github.com/fxccm/fxccm/internal/metrics"
	"github.com/fxccm/fxccm/internal/nodes"
	"github.com/fxccm/fxccm/internal/printable"
	"github.com/fxccm/fxccm/internal/tracing"
)

// A Manager is one cloud controller manager for one cluster. Its methods are safe for concurrent
// use.
type Manager struct {
	name     string
	owner    string
	config   Config
	all      []Controller
	selected controllerSelection
	provider Provider
	clients  *clientConfigs
	rest     *rest.Config
	// recording creates events under the Manager's identity.
	recording typedcorev1.EventsGetter
	elector   election.Elector
	identity  string
	// connections are those of the Manager's own clients.
	connections *connections
	log         logr.Logger
	recorders   EventRecorderSource
	clock       clock.Clock
	registerer  prometheus.Registerer
	tracer      Tracer
	// requireOwnerMark is Params.RequireOwnerMark.
	requireOwnerMark bool
	// onDrainTimeout may be nil.
	onDrainTimeout func(*DrainTimeoutError)
	metrics        *controllersmetrics.ControllerManagerMetrics
	// metricSet are the Manager's own metrics.
	metricSet *metrics.Set
	// setupWarnings are those of the setup, which hold for the life of the Manager.
	setupWarnings []string
	// history has the last terms of all runs.
	history termHistory
	// shared are the host's informers, if it has given any.
	shared *informerview.Shared

	mu      sync.Mutex
	running bool
	// done belongs to the current run. Between runs it is the last run's, and before the first run
	// that run's.
	done  chan struct{}
	err   error
	terms uint64
	// series are the metrics of the run.
	series *metrics.Series
	// timedOutTerms are the terms that exceeded their drain timeout.
	timedOutTerms []*termRun
	// leader is the term that needs the lease, replica the term of the controllers that do not.
	leader, replica termSlot
}

// termSlot is the state of the terms of one kind. The Manager's lock guards it.
type termSlot struct {
	// term is open, draining, or has exceeded its drain timeout.
	term *termRun
	// failure is why there is no term. It is nil in normal operation.
	failure *failure
}

// failure is why there is no term, and when the next one follows.
type failure struct {
	err   error
	retry time.Time
}

// New checks everything that needs no network, and returns a stopped Manager. It starts nothing. An
// error is a *[ConfigError] that names all invalid fields.
func New(p Params) (*Manager, error) {
	provider, all, selected, err := p.validate()
	if err != nil {
		return nil, err
	}
	clients, err := newClientConfigs(p.Clients, p.RESTConfig, p.Config.ClientConnection)
	if err != nil {
		return nil, err
	}
	registerer := p.Registerer
	if _, unwanted := registerer.(metrics.Unwanted); unwanted {
		registerer = nil
	}
	m := &Manager{
		name:     p.Name,
		owner:    p.Owner,
		config:   p.Config,
		all:      all,
		selected: selected,
		provider: provider,
		clients:  clients,

		connections:      &connections{},
		requireOwnerMark: p.RequireOwnerMark,

		elector:    p.Elector,
		identity:   identity(p.Config.LeaderElection),
		log:        klog.Background(),
		recorders:  p.EventRecorders,
		clock:      p.Clock,
		registerer: registerer,
		tracer:     p.Tracer,

		onDrainTimeout: p.OnDrainTimeout,

		done: make(chan struct{}),
	}
	if p.Logger != nil {
		m.log = *p.Logger
	}
	m.log = m.log.WithName("ccm")
	if m.name != "" {
		m.log = m.log.WithValues("manager", m.name)
	}
	if m.clock == nil {
		m.clock = clock.RealClock{}
	}
	if err := m.makeRecordingClient(); err != nil {
		return nil, err
	}
	if m.metricSet, err = metrics.New(registerer, m.name); err != nil {
		return nil, fmt.Errorf("ccm: %w", err)
	}
	if p.Informers.Factory != nil {
		if p.Informers.Stop == nil {
			return nil, configError(field.Required(field.NewPath("informers", "stop"),
				"Params.Informers.Stop is needed to end the informers that the Manager starts"))
		}
		m.shared = informerview.NewShared(p.Informers.Factory, p.Informers.Stop)
	}
	// The name is a label of upstream's gauge of running controllers, which the whole process
	// shares.
	manager := "cloud-controller-manager"
	if m.name != "" {
		manager += "/" + m.name
	}
	m.metrics = controllersmetrics.NewControllerManagerMetrics(manager)
	m.setupWarnings = setupWarnings(p, m.rest)
	if err := m.chooseElector(); err != nil {
		return nil, err
	}
	return m, nil
}

// setupWarnings names what is not wired, or is likely a mistake, although it is valid.
func setupWarnings(p Params, client *rest.Config) []string {
	var all []string
	if p.Registerer == nil {
		all = append(all, "metrics are not registered: Params has no Registerer")
	}
	if p.Elector == nil && !p.Config.LeaderElection.LeaderElect {
		all = append(all,
			"leader election is off: a second replica would act on the same cluster at the same time")
	}
	if client.Insecure {
		all = append(all, "the certificate of the API server is not verified: "+
			"the client configuration is insecure, and whoever answers receives the credentials")
	}
	slices.Sort(all)
	return all
}

func (m *Manager) makeRecordingClient() (err error) {
	path := field.NewPath("clientConnection")
	if m.rest, err = m.clients.named(ownClient); err != nil {
		return configError(field.Invalid(path, ownClient, err.Error()))
	}
	config, err := m.connections.client(m.rest, m.clients.identity(ownClient))
	if err == nil {
		m.recording, err = typedcorev1.NewForConfig(config)
	}
	if err != nil {
		return configError(field.Invalid(path, m.rest.Host, err.Error()))
	}
	return nil
}

// identity is unique and readable: the host name and a random suffix, as upstream's.
func identity(cfg election.Config) string {
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
		m.elector = &election.Alone{}
		return nil
	}
	cfg.Identity = m.identity
	config, err := m.clients.named(leaseClient)
	if err != nil {
		return configError(field.Invalid(field.NewPath("clientConnection"), leaseClient,
			err.Error()))
	}
	config, err = m.connections.client(config, m.clients.identity(leaseClient))
	if err == nil {
		m.elector, err = election.NewLease(election.LeaseParams{
			RESTConfig: config, Config: cfg, Logger: m.log, EventRecorder: m.recorders,
			OnTimeout: m.connections.reset, Clock: m.clock,
		})
	}
	if err != nil {
		return configError(field.Invalid(field.NewPath("leaderElection"), cfg.ResourceName,
			err.Error()))
	}
	return nil
}

// Name returns Params.Name.
func (m *Manager) Name() string { return m.name }

// Config returns the configuration that New was given.
func (m *Manager) Config() Config { return m.config }

// Registerer returns Params.Registerer, or nil, for code that serves the metrics.
func (m *Manager) Registerer() prometheus.Registerer { return m.registerer }

// RESTConfig returns a copy of the client configuration of the Manager's own identity, for code
// that serves or tests a Manager. Its requests bypass the fence.
func (m *Manager) RESTConfig() *rest.Config { return rest.CopyConfig(m.rest) }

// enabled returns the enabled controllers that need leader election, or those that do not.
func (m *Manager) enabled(needElection bool) []Controller {
	var on []Controller
	for _, c := range m.all {
		if m.selected.enabled(c) && c.needsElection() == needElection {
			on = append(on, c)
		}
	}
	return on
}

// newLeaderTerm returns the term of a grant of leadership.
func (m *Manager) newLeaderTerm(g election.Grant) *termRun {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.terms++
	t := m.newTerm(g, m.terms, m.log.WithValues("term", m.terms))
	t.provider, t.enabled = &m.provider, m.enabled(true)
	t.log.Info("Term begins", "identity", m.identity)
	m.leader = termSlot{term: t}
	return t
}

// newReplicaTerm returns the term of the controllers that need no leadership. It has no provider.
func (m *Manager) newReplicaTerm() *termRun {
	m.mu.Lock()
	defer m.mu.Unlock()
	t := m.newTerm(election.Grant{}, 0, m.log.WithValues("leaderElection", false))
	t.enabled = m.enabled(false)
	m.replica = termSlot{term: t}
	return t
}

func (m *Manager) newTerm(g election.Grant, number uint64, log logr.Logger) *termRun {
	gate := fence.New(g.ValidUntil, m.clock)
	t := &termRun{
		number:      number,
		config:      m.config,
		log:         log,
		fence:       gate,
		metrics:     m.metrics,
		series:      m.series,
		history:     &m.history,
		shared:      m.shared,
		leaseExpiry: g.LeaseExpiry,
		validUntil:  g.ValidUntil,
		identity:    m.identity,
		clock:       m.clock,
		manager:     m.name,
		owner:       m.owner,
		registerer:  m.registerer,
		tracer:      m.tracer,
		tasks:       &inflight.Set{},
		status:      newTermStatus(),
		built:       &builtControllers{},
		events:      events.New(m.recording, log),
		recorders:   m.recorders,
		panics:      &panicLog{},
		ended:       make(chan struct{}),
		cleanedUp:   m.resetConnectionsAfterRun,

		requireOwnerMark: m.requireOwnerMark,
	}
	if m.name != "" {
		t.spanAttributes = []slog.Attr{slog.String(tracing.Manager, m.name)}
	}
	t.troubles = newTroubles(m.clock, t.series.Trouble)
	t.nodes = nodes.NewRecord(t.reportTrouble)
	t.events.ReportTo(t.reportTrouble)
	door := gate.Door(func() { t.series.Refused(metrics.DoorKube) })
	t.clients = &termClients{
		configs: m.clients, fence: door, clients: map[string]kubernetes.Interface{},
		isTraced: m.tracer != nil,
	}
	if m.config.UseServiceAccountCredentials {
		t.clients.accounts = &serviceAccounts{
			client: func() (kubernetes.Interface, error) { return t.clients.Client(ownClient) },
			term:   gate.WhileOpen(),
			tasks:  t.tasks,
		}
	}
	return t
}

// resetConnectionsAfterRun closes the Manager's own connections if Run has returned. A term that
// ends later has sent its last events by then.
func (m *Manager) resetConnectionsAfterRun() {
	m.mu.Lock()
	defer m.mu.Unlock()
	if !m.running {
		m.connections.reset()
	}
}

// warnings are problems that do not degrade the state. The lock is held.
func (m *Manager) warnings() []string {
	all := slices.Clone(m.setupWarnings)
	if failed := m.replica.failure; failed != nil {
		all = append(all, "controllers without leader election: "+m.explain(failed.err))
	}
	for _, c := range []termSlot{m.replica, m.leader} {
		if c.term != nil {
			all = append(all, c.term.warnings()...)
		}
	}
	for _, term := range m.leftBehind() {
		all = append(all,
			fmt.Sprintf("term %d did not end within its drain timeout; still running: %s",
				term.number, describe(term.activities(), m.clock.Now())))
	}
	slices.Sort(all)
	return slices.Compact(all)
}

// explain describes a failure for operators. The ages of running activities are current.
func (m *Manager) explain(err error) string {
	if timedOut, ok := errors.AsType[*DrainTimeoutError](err); ok && timedOut.term != nil {
		running := timedOut.term.activities()
		if len(running) == 0 {
			return fmt.Sprintf("term %d ended after its drain timeout; campaigning again soon",
				timedOut.Term)
		}
		next := "campaigning again at retryAt, because it can no longer act"
		if timedOut.term.mayAct() {
			next = "campaigning again when it can no longer act"
		}
		return fmt.Sprintf("term %d did not end within its drain timeout; %s; still running: %s",
			timedOut.Term, next, describe(running, m.clock.Now()))
	}
	return explain(err)
}

// Done is closed when Run returns. Between runs it is the closed channel of the last run, and
// before the first run that run's channel.
func (m *Manager) Done() <-chan struct{} {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.done
}

// Err returns the result of the last Run. It is nil while Run runs.
func (m *Manager) Err() error {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.err
}

// Status returns a snapshot of the Manager.
func (m *Manager) Status() status.Manager {
	current, objects := m.snapshot()
	objects.fill(&current)
	return current
}

// snapshot returns the status without the state of the provider's objects, and the source of that
// state. Health checks use it, so that a provider that hangs does not fail them.
func (m *Manager) snapshot() (status.Manager, *objects) {
	m.mu.Lock()
	defer m.mu.Unlock()
	current := status.Manager{
		State: status.Stopped, Term: m.terms, Provider: m.provider.Name, Terms: m.history.list(),
	}
	var reporting *objects
	for _, c := range m.all {
		state := status.ControllerDisabled
		if m.selected.enabled(c) {
			state = status.ControllerWaiting
		}
		current.Controllers = append(current.Controllers,
			status.Controller{Name: c.Name, State: state})
	}
	if reporter, ok := m.elector.(election.Reporter); ok {
		current.Election = reporter.ElectionStatus()
	}
	for _, c := range []termSlot{m.replica, m.leader} {
		if c.term != nil {
			c.term.status.fillControllers(&current)
			current.Running = append(current.Running, c.term.activities()...)
		}
	}
	for _, term := range m.leftBehind() {
		current.Running = append(current.Running, term.activities()...)
	}
	if m.leader.term != nil {
		m.leader.term.status.fill(&current)
		current.Troubles = m.leader.term.troubles.list()
		known := m.leader.term.nodes
		current.Nodes = troubledNodes(known.Waiting(), known.Failing())
		reporting = m.leader.term.status.reporter()
	}
	current.Warnings = m.warnings()
	switch {
	case !m.running:
		current.State, current.Ready, current.Step = status.Stopped, false, ""
		if m.err != nil {
			current.Reason = printable.Text(m.err.Error(), maxReason)
		}
	case m.leader.term != nil:
	case m.leader.failure != nil:
		failed := m.leader.failure
		current.State, current.RetryAt = status.Degraded, failed.retry
		current.Reason = m.explain(failed.err)
	case current.Election.Err != nil:
		current.State = status.Degraded
		current.Reason = explain(fmt.Errorf("leader election: %w", current.Election.Err))
	default:
		current.State, current.Reason = status.Standby, current.Election.WaitReason()
	}
	return current, reporting
}
