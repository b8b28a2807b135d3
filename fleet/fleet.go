package fleet

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/go-logr/logr"
	"github.com/prometheus/client_golang/prometheus"
	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	utilnet "k8s.io/apimachinery/pkg/util/net"
	"k8s.io/apimachinery/pkg/util/uuid"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/util/workqueue"
	"k8s.io/klog/v2"
	"k8s.io/utils/clock"

	"github.com/fxccm/fxccm/ccm"
	"github.com/fxccm/fxccm/ccm/election"
	"github.com/fxccm/fxccm/internal/informerview"
	"github.com/fxccm/fxccm/internal/metrics"
	"github.com/fxccm/fxccm/internal/rescue"
)

// Params is the input of [New]. Source, Manager and Management are required.
type Params struct {
	// Name distinguishes fleets that keep their Leases in one namespace. It is a DNS label. Default
	// "fxccm".
	Name string

	// Source yields the clusters.
	Source Source

	// Manager returns the Params of a cluster's Manager: configuration, provider, controllers. The
	// fleet sets the name, client configuration, elector and logger if they are unset. The fleet
	// calls it for each new Manager, in a goroutine of the cluster. An error or a panic affects
	// only that cluster, and the call is retried. It must be safe for concurrent use, and must
	// return.
	Manager func(Cluster) (ccm.Params, error)

	// Management is the client configuration of the management cluster, which has the Leases. The
	// fleet creates, reads, watches, updates and deletes Leases in Namespace, and creates events
	// there.
	Management *rest.Config

	// Namespace is the namespace of the Leases. It must exist. Default "fxccm-system".
	Namespace string

	// Identity names this replica in the Leases. It must be unique. Default: host name and a random
	// suffix.
	Identity string

	// Weight is this replica's share of the clusters in relation to the other replicas'. A replica
	// of weight 0 or less takes clusters only if no other replica does. At most 100. Default 1 in
	// [DefaultParams].
	Weight int

	// Lock is the place of the clusters' Leases. Default [LockManagement].
	Lock Lock

	// Election has the durations of the clusters' Leases; its other fields are unused. A zero
	// duration means that of [DefaultParams]. A shorter retry period costs more writes to the
	// management cluster: one for each retry period and cluster.
	Election election.Config

	// Labels are the keys of the labels that Manager reads. The fleet passes no other label, and
	// ignores changes of others. Nil: all labels.
	Labels []string

	// Limits protect the replica from each of its clusters. A zero limit means that of
	// [DefaultParams].
	Limits Limits

	// Access limits the client configurations of clusters whose source is not [Trusted].
	Access AccessRules

	// RequireOwnerMark sets ccm.Params.RequireOwnerMark of all Managers. Each cluster then needs an
	// Owner, which [ClusterAPI] sets. A fleet whose clusters have objects without marks first runs
	// without it, so that they get the marks.
	RequireOwnerMark bool

	// Registerer registers the fleet's metrics while Run runs. Nil: no metrics. The Managers
	// register their own metrics, with the cluster as the label "manager", only if [Params].Manager
	// sets a Registerer, because each cluster has many.
	Registerer prometheus.Registerer

	// Logger is the logger of the fleet and its Managers. Nil: klog's.
	Logger *logr.Logger
}

// Lock is the place of the Lease that decides which replica acts for a cluster.
type Lock string

const (
	// LockManagement is a Lease for each cluster in the management cluster.
	LockManagement Lock = "management"

	// LockWorkload is the Lease of a single cloud controller manager in the cluster itself. Its
	// name and namespace are those of the Manager's Config.LeaderElection, by default
	// cloud-controller-manager in kube-system. So a fleet and the cluster's own cloud controller
	// manager never act at the same time.
	//
	// The other replicas do not see this Lease. They see only the announcements of replicas, so
	// they never replace a replica that announces itself but cannot reach the cluster.
	LockWorkload Lock = "workload"
)

// DefaultParams returns Params with all defaults. The election's durations suit a management
// cluster of a thousand clusters: 15 s, 10 s, and a renewal every 5 s.
func DefaultParams() Params {
	return Params{
		Name:      "fxccm",
		Namespace: "fxccm-system",
		Weight:    1,
		Lock:      LockManagement,
		Election: election.Config{
			LeaseDuration: metav1.Duration{Duration: 15 * time.Second},
			RenewDeadline: metav1.Duration{Duration: 10 * time.Second},
			RetryPeriod:   metav1.Duration{Duration: 5 * time.Second},
		},
		Limits: Limits{
			ObjectBytes: 64 << 20, BytesPerSecond: 1 << 20, ReplicaListBytes: 128 << 20,
			Outage: 2 * time.Minute,
		},
	}
}

// DefaultConfig returns the configuration of a Manager in a fleet: ccm.DefaultConfig, with the
// election of [DefaultParams] and with fewer workers. An idle worker for new nodes or Services is
// still a goroutine, and the clusters share the processors.
func DefaultConfig() ccm.Config {
	cfg := ccm.DefaultConfig()
	election := DefaultParams().Election
	cfg.LeaderElection.LeaseDuration = election.LeaseDuration
	cfg.LeaderElection.RenewDeadline = election.RenewDeadline
	cfg.LeaderElection.RetryPeriod = election.RetryPeriod
	cfg.Node.ConcurrentSyncs = 2
	cfg.Node.ConcurrentStatusUpdates = 4
	cfg.NodeLifecycle.ConcurrentSyncs = 4
	cfg.Service.ConcurrentSyncs = 1
	return cfg
}

// A Fleet runs Managers for the clusters of a [Source]. Its methods are safe for concurrent use.
type Fleet struct {
	params Params
	log    logr.Logger
	self   replica
	// connection is the access to the management cluster, and management its configuration.
	connection *access
	management *rest.Config
	client     kubernetes.Interface
	view       *leaseView
	queue      workqueue.TypedRateLimitingInterface[string]
	places     *places

	mu      sync.Mutex
	running bool
	// stopping is the reason why the fleet stops, or nil.
	stopping error
	// settled is true when the replica may campaign.
	settled bool
	// undrained are the Managers that had not ended when Run returned.
	undrained []*ccm.DrainTimeoutError
	problems  map[string]error
	clusters  map[string]Cluster
	members   map[string]*member
	// membersEnded is signaled when a Manager has returned.
	membersEnded sync.Cond
	// replicas are the live replicas. generation counts the changes of the set, and rankedSince is
	// the time of the last one.
	replicas    []replica
	generation  uint64
	rankedSince time.Time
	// keep has the keepUntil times of clusters whose preferred replica failed to lead.
	keep workqueue.TypedRateLimiter[string]
	// pauses has the pauses of clusters whose Manager failed.
	pauses workqueue.TypedRateLimiter[string]
}

// New checks everything that needs no network. It starts no goroutine and sends no request.
func New(p Params) (*Fleet, error) {
	defaults := DefaultParams()
	if p.Name == "" {
		p.Name = defaults.Name
	}
	if p.Namespace == "" {
		p.Namespace = defaults.Namespace
	}
	setDefault(&p.Election.LeaseDuration, defaults.Election.LeaseDuration)
	setDefault(&p.Election.RenewDeadline, defaults.Election.RenewDeadline)
	setDefault(&p.Election.RetryPeriod, defaults.Election.RetryPeriod)
	if p.Lock == "" {
		p.Lock = defaults.Lock
	}
	p.Limits.setDefaults(defaults.Limits)
	if p.Identity == "" {
		host, err := os.Hostname()
		if err != nil {
			host = "unknown"
		}
		p.Identity = host + "_" + string(uuid.NewUUID())
	}
	if err := p.validate(); err != nil {
		return nil, err
	}
	f := &Fleet{
		params: p,
		log:    klog.Background(),
		self:   replica{identity: p.Identity, weight: p.Weight},
		places: newPlaces(p.Limits),
	}
	if p.Logger != nil {
		f.log = *p.Logger
	}
	f.log = f.log.WithName("fleet")
	f.membersEnded.L = &f.mu
	management := rest.CopyConfig(p.Management)
	management.QPS, management.RateLimiter = -1, nil // Leases must be renewed however many they are
	var err error
	if f.connection, f.management, err = newAccess(management); err == nil {
		f.client, err = kubernetes.NewForConfig(f.management)
	}
	if err != nil {
		return nil, fmt.Errorf("fleet: client of the management cluster: %w", err)
	}
	return f, nil
}

// newKeep returns a rate limiter for keepUntil. The time of a cluster doubles each time.
func newKeep() workqueue.TypedRateLimiter[string] {
	return workqueue.NewTypedItemExponentialFailureRateLimiter[string](keepAtLeast, keepAtMost)
}

func setDefault(d *metav1.Duration, to metav1.Duration) {
	if d.Duration == 0 {
		*d = to
	}
}

func (p *Params) validate() error {
	var all field.ErrorList
	for _, msg := range validation.IsDNS1123Label(p.Name) {
		all = append(all, field.Invalid(field.NewPath("name"), p.Name, msg))
	}
	for _, msg := range validation.IsDNS1123Label(p.Namespace) {
		all = append(all, field.Invalid(field.NewPath("namespace"), p.Namespace, msg))
	}
	if p.Weight > maxWeight {
		all = append(all, field.Invalid(field.NewPath("weight"), p.Weight,
			fmt.Sprintf("must be at most %d", maxWeight)))
	}
	if p.Source == nil {
		all = append(all, field.Required(field.NewPath("source"), "it yields the clusters"))
	}
	if p.Manager == nil {
		all = append(all, field.Required(field.NewPath("manager"), "it configures the Managers"))
	}
	if p.Management == nil {
		all = append(all,
			field.Required(field.NewPath("management"), "the fleet's Leases are there"))
	}
	if locks := []Lock{LockManagement, LockWorkload}; !slices.Contains(locks, p.Lock) {
		all = append(all, field.NotSupported(field.NewPath("lock"), p.Lock, locks))
	}
	// The durations are checked by the rules of a Manager's own election.
	cfg := ccm.DefaultConfig()
	cfg.LeaderElection.LeaseDuration = p.Election.LeaseDuration
	cfg.LeaderElection.RenewDeadline = p.Election.RenewDeadline
	cfg.LeaderElection.RetryPeriod = p.Election.RetryPeriod
	all = append(all, p.Limits.validate(field.NewPath("limits"))...)
	if err, ok := errors.AsType[*ccm.ConfigError](cfg.Validate()); ok {
		all = append(all, err.Fields...)
	}
	if len(all) == 0 {
		return nil
	}
	return &ccm.ConfigError{Fields: all}
}

// Run serves the fleet's clusters until ctx ends, and returns when all Managers have drained. It
// can be called again after it has returned, but not while it runs.
//
// The error is nil if ctx ended and all Managers drained in time; otherwise it joins the errors of
// those that did not. [Fleet.Status] shows temporary failures; Run does not return them.
func (f *Fleet) Run(ctx context.Context) error {
	if err := f.begin(); err != nil {
		return err
	}
	defer f.finish()
	if f.params.Registerer != nil {
		states := make([]string, 0, len(States()))
		for _, s := range States() {
			states = append(states, string(s))
		}
		collector := metrics.Fleet(f.params.Name, states, f.measure)
		if err := f.params.Registerer.Register(collector); err != nil {
			return fmt.Errorf("fleet: register metrics: %w", err)
		}
		defer f.params.Registerer.Unregister(collector)
	}
	serving, stopServing := context.WithCancel(context.WithoutCancel(ctx))
	defer stopServing()
	var background sync.WaitGroup
	defer background.Wait()
	defer f.queue.ShutDown()

	synced := f.watchLeases(serving, &background)
	known := make(chan struct{})
	background.Go(func() { f.follow(ctx, known) })
	if !waitFor(ctx, synced) || !waitFor(ctx, known) {
		stopServing()
		return nil
	}
	announcing, stopAnnouncing := context.WithCancel(serving)
	var announced sync.WaitGroup
	announced.Go(func() { f.announcer().run(announcing) })
	f.settle(ctx)
	for range workers {
		background.Go(f.work)
	}
	<-ctx.Done()
	stopAnnouncing()
	announced.Wait() // the others take over what is released now
	err := f.stopAll(context.Cause(ctx))
	stopServing()
	return err
}

// workers is how many clusters are reconciled at once. reconcile does not wait for a network.
const workers = 4

func waitFor(ctx context.Context, done <-chan struct{}) bool {
	select {
	case <-done:
		return true
	case <-ctx.Done():
		return false
	}
}

func (f *Fleet) begin() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.running {
		return errors.New("fleet: Run is already running")
	}
	for _, err := range f.undrained {
		select {
		case <-err.Ended():
		default:
			return fmt.Errorf("fleet: a Manager of an earlier run has not ended: %w", err)
		}
	}
	f.running, f.stopping, f.settled, f.undrained = true, nil, false, nil
	f.clusters, f.members = map[string]Cluster{}, map[string]*member{}
	f.problems, f.replicas = map[string]error{}, nil
	f.view = newLeaseView(time.Now)
	f.view.longest = max(f.view.longest, 2*f.params.Election.LeaseDuration.Duration)
	f.keep = newKeep()
	f.pauses = workqueue.NewTypedItemExponentialFailureRateLimiter[string](pauseAtLeast,
		pauseAtMost)
	f.queue = workqueue.NewTypedRateLimitingQueue(
		workqueue.NewTypedItemExponentialFailureRateLimiter[string](time.Second, 5*time.Minute))
	return nil
}

func (f *Fleet) finish() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.running = false
	f.clusters, f.members, f.problems, f.replicas = nil, nil, nil, nil
	f.connection.reset()
}

// settleTime is how long a starting replica waits for the announcements of other starting replicas.
// Otherwise, the first one would take all clusters and give most of them back.
const settleTime = 2 * time.Second

func (f *Fleet) settle(ctx context.Context) {
	select {
	case <-time.After(settleTime):
	case <-ctx.Done():
	}
	f.mu.Lock()
	f.settled, f.rankedSince = true, time.Now()
	f.mu.Unlock()
	f.lookAtReplicas()
	f.enqueueAll()
}

// watchLeases updates the view of the fleet's Leases. The returned channel is closed when the view
// is complete.
func (f *Fleet) watchLeases(ctx context.Context, background *sync.WaitGroup) <-chan struct{} {
	factory := informers.NewSharedInformerFactoryWithOptions(f.client, 0,
		informers.WithNamespace(f.params.Namespace),
		informers.WithTransform(informerview.StripManagedFields))
	informer := factory.Coordination().V1().Leases().Informer()
	handle := func(obj any, deleted bool) {
		if last, ok := obj.(cache.DeletedFinalStateUnknown); ok {
			obj = last.Obj
		}
		if lease, ok := obj.(*coordinationv1.Lease); ok {
			f.observe(lease, deleted)
		}
	}
	registration, err := informer.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc:    func(obj any) { handle(obj, false) },
		UpdateFunc: func(_, obj any) { handle(obj, false) },
		DeleteFunc: func(obj any) { handle(obj, true) },
	})
	synced := make(chan struct{})
	if err != nil {
		f.problem("leases", err)
		return synced
	}
	factory.Start(ctx.Done())
	background.Go(factory.Shutdown)
	background.Go(func() {
		if cache.WaitForCacheSync(ctx.Done(), registration.HasSynced) {
			close(synced)
		}
	})
	return synced
}

func (f *Fleet) observe(lease *coordinationv1.Lease, deleted bool) {
	cluster, isCluster := f.clusterOf(lease.Name)
	isReplica := !isCluster && lease.Labels[replicaLabel] != "" &&
		lease.Labels[fleetLabel] == f.params.Name
	if !isCluster && !isReplica {
		return
	}
	changed := f.view.observe(lease, isReplica, deleted)
	switch {
	case isReplica:
		f.lookAtReplicas()
	case changed:
		f.queue.Add(cluster)
	}
}

// leaseOf returns the name of a cluster's Lease.
func (f *Fleet) leaseOf(cluster string) string { return f.params.Name + "." + cluster }

func (f *Fleet) clusterOf(lease string) (string, bool) {
	cluster, ok := strings.CutPrefix(lease, f.params.Name+".")
	return cluster, ok && cluster != ""
}

// lookAtReplicas compares the set of live replicas with the last one, and queues all clusters if it
// has changed.
func (f *Fleet) lookAtReplicas() {
	live, until := f.view.live()
	f.mu.Lock()
	changed := !slices.Equal(live, f.replicas)
	if changed {
		f.replicas, f.rankedSince = live, time.Now()
		f.generation++
		f.keep = newKeep()
	}
	f.mu.Unlock()
	if changed {
		f.log.Info("Replicas of the fleet", "live", len(live))
		f.enqueueAll()
	}
	if !until.IsZero() {
		f.queue.AddAfter(replicasItem, time.Until(until))
	}
}

// replicasItem is the queue's item for the set of replicas; no cluster has this name.
const replicasItem = ""

func (f *Fleet) enqueueAll() {
	f.mu.Lock()
	defer f.mu.Unlock()
	for name := range f.clusters {
		f.queue.Add(name)
	}
	for name := range f.members {
		f.queue.Add(name)
	}
}

func (f *Fleet) announcer() *announcer {
	sum := sha256.Sum256([]byte(f.self.identity))
	return &announcer{
		leases: f.client.CoordinationV1().Leases(f.params.Namespace),
		name:   fmt.Sprintf("%s-replica-%x", f.params.Name, sum[:8]),
		fleet:  f.params.Name, self: f.self, timeout: announcePeriod, dead: f.view.dead,
		problem: func(err error) {
			f.problem("announcement", err)
			// After a timeout, the connection may be dead, which the informer and the elections
			// share.
			if utilnet.IsTimeout(err) || errors.Is(err, context.DeadlineExceeded) {
				f.connection.reset()
			}
		},
	}
}

// follow reads the clusters from the source. known is closed after the first update.
func (f *Fleet) follow(ctx context.Context, known chan<- struct{}) {
	var once sync.Once
	delay := wait.Backoff{
		Duration: time.Second, Factor: 2, Jitter: 0.5, Steps: 8,
		Cap: time.Minute,
	}.DelayWithReset(clock.RealClock{}, 2*time.Minute)
	for ctx.Err() == nil {
		err := rescue.Panic(func() error {
			return f.params.Source.Run(ctx, func(clusters []Cluster) {
				f.problem("source", nil)
				f.update(clusters)
				once.Do(func() { close(known) })
			})
		})
		if ctx.Err() != nil {
			return
		}
		if err == nil {
			err = errors.New("it returned without an error")
		}
		f.problem("source", err)
		select {
		case <-time.After(delay()):
		case <-ctx.Done():
		}
	}
}

// update replaces the set of clusters, and queues those that have changed.
func (f *Fleet) update(clusters []Cluster) {
	next := make(map[string]Cluster, len(clusters))
	for _, c := range clusters {
		if err := validateName(c.Name); err != nil {
			c = Cluster{Name: c.Name, Err: fmt.Errorf("the name cannot be used: %w", err)}
		}
		if f.params.Lock == LockWorkload {
			c.object = nil // its Lease goes with the API server
		}
		c.applyRules(&f.params.Access)
		if f.params.Labels != nil {
			all := c.Labels
			c.Labels = map[string]string{}
			for _, label := range f.params.Labels {
				if value, ok := all[label]; ok {
					c.Labels[label] = value
				}
			}
		}
		if _, twice := next[c.Name]; twice {
			c.Err = errors.New("the source yields two clusters of this name")
		}
		next[c.Name] = c
	}
	now := time.Now()
	f.mu.Lock()
	defer f.mu.Unlock()
	for name := range f.clusters {
		if _, stays := next[name]; !stays {
			f.queue.Add(name)
		}
	}
	for name, c := range next {
		last, known := f.clusters[name]
		changed := !known || !last.isLike(&c)
		if changed && c.Err != nil {
			f.log.Error(c.Err, "The cluster cannot be read", "cluster", name)
		}
		switch {
		case !known:
			c.joined = now
		case c.Err != nil:
			// The Manager continues with the last readable configuration.
			last.Err, last.object = c.Err, c.object
			c = last
		default:
			c.joined = last.joined
		}
		next[name] = c
		if changed {
			f.queue.Add(name)
		}
	}
	f.clusters = next
}

// maxName leaves room for the fleet's name in the name of the Lease.
const maxName = 180

func validateName(name string) error {
	if msgs := validation.IsDNS1123Subdomain(name); len(msgs) > 0 {
		return fmt.Errorf("%q: %s", name, msgs[0])
	}
	if len(name) > maxName {
		return fmt.Errorf("%q has more than %d characters", name, maxName)
	}
	return nil
}

// problem records a problem of the fleet itself. A nil error clears it.
func (f *Fleet) problem(subject string, err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if err == nil {
		delete(f.problems, subject)
		return
	}
	f.problems[subject] = err
	f.log.Error(err, "The fleet has a problem and retries", "subject", subject)
}

// stopAll stops all Managers, and returns when all have returned.
func (f *Fleet) stopAll(why error) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.stopping = why
	for _, m := range f.members {
		if m.phase < leaving {
			m.stopFor(why)
		}
	}
	var errs []error
	for {
		left := 0
		for name, m := range f.members {
			if m.phase != over {
				left++
				continue
			}
			if m.err != nil {
				errs = append(errs, fmt.Errorf("cluster %s: %w", name, m.err))
			}
			if err, ok := errors.AsType[*ccm.DrainTimeoutError](m.err); ok {
				f.undrained = append(f.undrained, err)
			}
			if m.access != nil {
				m.access.reset()
			}
			delete(f.members, name)
		}
		if left == 0 {
			return errors.Join(errs...)
		}
		f.membersEnded.Wait()
	}
}
