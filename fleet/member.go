package fleet

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"reflect"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/rest"

	"github.com/fxccm/fxccm/ccm"
	"github.com/fxccm/fxccm/ccm/election"
	"github.com/fxccm/fxccm/internal/metrics"
	"github.com/fxccm/fxccm/internal/rescue"
)

// A member is the Manager of one cluster in this replica. It begins when the Manager campaigns, and
// ends when it has drained, or after the pause that follows a failure. The fleet's lock guards it.
type member struct {
	cluster Cluster
	phase   phase
	// The Manager and its connections are zero until they are built.
	made
	// stop ends the Manager, or the pause, with a reason.
	stop context.CancelCauseFunc
	// note is the progress of a clean-up, and cleanedUp is true when it is complete.
	note      string
	cleanedUp atomic.Bool
	// replacing is true during a call of replaceCloud. The calls run in the background.
	replacing  bool
	background sync.WaitGroup
	// err is the result of the Manager's Run.
	err error
	// failure is why the member pauses until retryAt.
	failure error
	retryAt time.Time
	// generation is the generation of the replicas when the Manager was started.
	generation uint64
	// keepUntil is until when this replica keeps the cluster although another one is preferred,
	// which failed to lead. A change of the set of replicas ends it.
	keepUntil time.Time
}

// phase is where a member is. It goes forward only.
type phase int

const (
	// serving: the Manager is being built, or runs.
	serving phase = iota
	// pausing: the Manager has failed, and the member waits.
	pausing
	// leaving: the Manager, or the pause, was told to end.
	leaving
	// over: the Manager's Run has returned. Parts of it may still be ending.
	over
)

// made is a Manager with its connections.
type made struct {
	manager *ccm.Manager
	// access and meter are nil if Params.Manager has given the client configuration.
	access *access
	meter  *meter
	// leading reports whether the Manager has won its Lease. It is nil unless the fleet holds the
	// Lease.
	leading *atomic.Bool
	// cleaning is true if the Manager cleans up after a deleted cluster.
	cleaning bool
	// replaceCloud is nil unless the running provider takes another configuration.
	replaceCloud func(data []byte) (isKept bool, err error)
}

const (
	// rankDelay is how long a replica waits before it takes a free Lease, for each replica that the
	// cluster prefers to it.
	rankDelay = 3 * time.Second
	// maxRanks limits how many replicas that are forged, or cannot connect, delay the others.
	maxRanks = 10

	// keepAtLeast and keepAtMost limit how long a replica keeps a cluster whose preferred replica
	// failed to lead. The time doubles each time.
	keepAtLeast = 15 * time.Second
	keepAtMost  = 10 * time.Minute

	// pauseAtLeast and pauseAtMost limit the pause after a failure. The time doubles each time,
	// until a Manager has run for pauseForgotten.
	pauseAtLeast   = time.Second
	pauseAtMost    = 5 * time.Minute
	pauseForgotten = 10 * time.Minute
)

var (
	errNotPreferred = errors.New("another replica is preferred")
	errGone         = errors.New("the cluster has left the fleet")
	errChanged      = errors.New("the cluster's configuration has changed")
)

// work reconciles clusters until the queue is shut down.
func (f *Fleet) work() {
	for {
		name, shutdown := f.queue.Get()
		if shutdown {
			return
		}
		if name == replicasItem {
			f.lookAtReplicas()
		} else {
			f.reconcile(name)
		}
		f.queue.Done(name)
	}
}

// reconcile compares the replica's work for a cluster with the desired state. It does not wait: the
// end of a Manager queues the cluster again.
func (f *Fleet) reconcile(name string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	cluster, wanted := f.clusters[name]
	m := f.members[name]
	switch {
	case m != nil && m.phase == over:
		f.forget(name, m)
	case m != nil && m.phase == leaving:
		// Its end queues the cluster again.
	case m != nil:
		if why := f.mustStop(m, wanted, &cluster); why != nil {
			m.stopFor(why)
			return
		}
		f.refresh(m, &cluster)
	case wanted && f.stopping == nil && f.settled && (cluster.Err == nil || cluster.isDeleting()):
		if wait := f.campaignIn(name); wait > 0 {
			f.queue.AddAfter(name, wait)
		} else if wait == 0 {
			f.start(cluster)
		}
	}
}

func (m *member) stopFor(why error) {
	m.phase = leaving
	m.stop(why)
}

// forget removes a Manager that has returned. A Manager that did not drain stays until all of it
// has ended: two Managers of one cluster must not act at once, and both would have this replica's
// identity. The caller holds the lock.
func (f *Fleet) forget(name string, m *member) {
	if timedOut, ok := errors.AsType[*ccm.DrainTimeoutError](m.err); ok && timedOut.Ended() != nil {
		select {
		case <-timedOut.Ended():
		default:
			return // its end looks again
		}
	}
	if m.access != nil {
		m.access.reset()
	}
	delete(f.members, name)
	f.queue.Add(name)
}

// mustStop returns why a cluster's Manager must stop, or nil. The caller holds the lock.
func (f *Fleet) mustStop(m *member, wanted bool, cluster *Cluster) error {
	switch {
	case f.stopping != nil:
		return f.stopping
	case !wanted:
		return errGone
	case cluster.Err == nil && m.cluster.needsNewManager(cluster),
		cluster.Err == nil && !m.cluster.hasSameCloud(cluster) && !m.takesCloudConfig(cluster),
		m.cleaning && !cluster.isDeleting():
		return errChanged
	case m.phase == pausing && cluster.Err == nil &&
		!sameAccess(m.cluster.RESTConfig, cluster.RESTConfig):
		return errChanged
	case m.phase == pausing:
		return nil
	}
	position := f.position(cluster.Name)
	if position <= 0 {
		return nil
	}
	// A new replica campaigns after settleTime. Until then it could not take over.
	if wait := time.Until(f.rankedSince.Add(settleTime)); wait > 0 {
		f.queue.AddAfter(cluster.Name, wait)
		return nil
	}
	keep := time.Until(m.keepUntil)
	if m.generation != f.generation || keep <= 0 {
		return errNotPreferred
	}
	isLeading := m.leading != nil && m.leading.Load()
	if holder, _, _ := f.view.cluster(f.leaseOf(cluster.Name)); !isLeading && holder != "" &&
		holder != f.self.identity {
		return errNotPreferred
	}
	f.queue.AddAfter(cluster.Name, keep)
	return nil
}

// refresh gives a running Manager the cluster's new credentials. The caller holds the lock.
func (f *Fleet) refresh(m *member, cluster *Cluster) {
	if cluster.Err != nil || m.manager == nil {
		return
	}
	if m.access != nil && !sameAccess(m.cluster.RESTConfig, cluster.RESTConfig) {
		if err := m.access.replace(cluster.RESTConfig); err != nil {
			f.failed(cluster.Name, err)
			return
		}
		f.log.Info("The cluster's credentials were replaced", "cluster", cluster.Name)
	}
	isSame, last := m.cluster.hasSameCloud(cluster), m.cluster.CloudConfig
	m.cluster = *cluster
	if !isSame {
		m.cluster.CloudConfig = last
		f.replaceCloudConfig(m, cluster)
		return
	}
	delete(f.problems, clusterSubject(cluster.Name))
	f.queue.Forget(cluster.Name)
}

// takesCloudConfig reports whether the running Manager may continue with a changed CloudConfig. The
// caller holds the fleet's lock.
func (m *member) takesCloudConfig(changed *Cluster) bool {
	return m.manager != nil && m.replaceCloud != nil &&
		m.cluster.CloudConfig != nil && changed.CloudConfig != nil
}

// replaceCloudConfig starts to replace the configuration of a running Manager's provider. The
// replacement may wait for the cloud. The caller holds the lock.
func (f *Fleet) replaceCloudConfig(m *member, cluster *Cluster) {
	if m.replacing {
		return // its end looks again
	}
	m.replacing = true
	replace, name, data := m.replaceCloud, cluster.Name, cluster.CloudConfig
	m.background.Go(func() {
		isKept := false
		err := rescue.Panic(func() (err error) {
			isKept, err = replace(data)
			return err
		})
		f.mu.Lock()
		defer f.mu.Unlock()
		m.replacing = false
		switch {
		case m.phase == leaving:
			return
		case err != nil:
			f.failed(name, err)
			return
		case isKept:
			m.cluster.CloudConfig = data
			f.log.Info("The provider's configuration was replaced", "cluster", name)
		default:
			m.stopFor(errChanged)
		}
		f.queue.Add(name)
	})
}

// position returns how many live replicas a cluster prefers to this one, and -1 if this replica
// does not see itself as live. The caller holds the lock.
func (f *Fleet) position(cluster string) int {
	return slices.Index(rank(cluster, f.replicas), f.self.identity)
}

// campaignIn returns how long this replica waits before it campaigns for a cluster. A negative
// number means until something changes. The caller holds the lock.
func (f *Fleet) campaignIn(name string) time.Duration {
	position := f.position(name)
	holder, since, until := f.view.cluster(f.leaseOf(name))
	now, delay := time.Now(), time.Duration(min(position, maxRanks))*rankDelay
	switch {
	case position == 0 && holder != "" && !f.isLive(holder):
		// A campaign that begins when the Lease of a dead replica has expired wins with its first
		// request. An earlier campaign fails first, and then waits for its retry period.
		return max(0, until.Sub(now))
	case position == 0:
		return 0
	case position < 0:
		return -1 // the other replicas do not see this one; its announcement looks again
	case f.params.Lock == LockWorkload:
		return -1 // when the announcements of the preferred replicas end, this one is the first
	case holder != "":
		// The wait is also needed if this replica is the holder: it has released the Lease, but its
		// view is not updated yet. Without it, this replica would retake the Lease before the
		// preferred one sees that the Lease is free.
		return until.Sub(now) + delay
	}
	free := slices.MaxFunc([]time.Time{since, f.rankedSince, f.clusters[name].joined},
		time.Time.Compare)
	return max(0, free.Add(delay).Sub(now))
}

// isLive reports whether a replica is live. The caller holds the lock.
func (f *Fleet) isLive(identity string) bool {
	return slices.ContainsFunc(f.replicas, func(r replica) bool { return r.identity == identity })
}

// start builds and runs the Manager of a cluster. The caller holds the lock.
func (f *Fleet) start(cluster Cluster) {
	m := &member{cluster: cluster, phase: serving, generation: f.generation}
	if f.position(cluster.Name) > 0 {
		m.keepUntil = time.Now().Add(f.keep.When(cluster.Name))
	}
	f.queue.Forget(cluster.Name)
	delete(f.problems, clusterSubject(cluster.Name))
	ctx, stop := context.WithCancelCause(context.Background())
	m.stop = stop
	f.members[cluster.Name] = m
	go func() {
		defer f.queue.Add(cluster.Name)
		defer stop(nil)
		begun := time.Now()
		err, failure := f.serve(ctx, m, cluster)
		timedOut, isDrainTimeout := errors.AsType[*ccm.DrainTimeoutError](err)
		f.mu.Lock()
		isFailed := failure != nil && m.phase == serving && !isDrainTimeout
		if isFailed {
			m.phase, m.failure = pausing, failure
			// A reference to the ended Manager would keep its memory.
			m.manager, m.meter = nil, nil
		}
		if time.Since(begun) >= pauseForgotten {
			f.pauses.Forget(cluster.Name)
		}
		f.mu.Unlock()
		if isFailed {
			f.pause(ctx, m, &cluster)
		}
		if !isDrainTimeout && f.hasLeft(m) {
			f.deleteLease(cluster.Name) // before another Manager of this replica may take it
		}
		f.mu.Lock()
		if why := context.Cause(ctx); why == errChanged || why == errGone {
			f.pauses.Forget(cluster.Name)
		}
		m.phase, m.err = over, err
		f.mu.Unlock()
		f.membersEnded.Broadcast()
		if isDrainTimeout && timedOut.Ended() != nil {
			f.log.Error(err, "The cluster's Manager did not drain in time", "cluster", cluster.Name)
			f.queue.Add(cluster.Name)
			<-timedOut.Ended()
		}
	}()
}

// serve builds and runs a member's Manager. err is the result of the Manager's Run. failure is why
// the Manager was not built, or the limit that has stopped it.
func (f *Fleet) serve(ctx context.Context, m *member, cluster Cluster) (err, failure error) {
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	var exceeded atomic.Pointer[error]
	made, err := f.build(ctx, m, cluster, func(why error) {
		exceeded.CompareAndSwap(nil, &why)
		stop(why)
	})
	f.mu.Lock()
	m.made = made
	f.mu.Unlock()
	if err != nil {
		return nil, err
	}
	defer func() {
		f.mu.Lock()
		m.replaceCloud = nil
		f.mu.Unlock()
		stop(nil)
		m.background.Wait()
	}()
	f.queue.Add(cluster.Name) // its credentials may have been replaced meanwhile
	err = made.manager.Run(ctx)
	if why := exceeded.Load(); why != nil {
		return err, *why
	}
	return err, nil
}

// pause waits after a failure, until ctx ends or the cluster may be served again. If the API server
// was dead, it waits until the server answers a probe.
func (f *Fleet) pause(ctx context.Context, m *member, cluster *Cluster) {
	if m.access != nil {
		m.access.reset()
	}
	for {
		pause := wait.Jitter(f.pauses.When(cluster.Name), 0.2)
		f.mu.Lock()
		failure := m.failure
		m.retryAt = time.Now().Add(pause)
		f.mu.Unlock()
		f.log.Error(failure, "The cluster is not served", "cluster", cluster.Name, "retryIn",
			pause.Round(time.Second).String())
		select {
		case <-time.After(pause):
		case <-ctx.Done():
			return
		}
		dead, ok := errors.AsType[*outageError](failure)
		if !ok {
			return
		}
		err := m.access.probe(ctx)
		if err == nil || ctx.Err() != nil || f.mayBeGone(cluster.Name, err) {
			return
		}
		f.mu.Lock()
		m.failure = &outageError{dead.since, err}
		f.mu.Unlock()
	}
}

// failed records that the credentials of a running Manager cannot be replaced, and queues a retry.
// The caller holds the lock.
func (f *Fleet) failed(name string, err error) {
	f.problems[clusterSubject(name)] = err
	f.log.Error(err, "The cluster's credentials cannot be replaced", "cluster", name)
	f.queue.AddRateLimited(name)
}

func clusterSubject(name string) string { return "cluster " + name }

// build builds a member's Manager. exceeded is called if the cluster exceeds a limit.
func (f *Fleet) build(
	ctx context.Context, m *member, cluster Cluster, exceeded func(error),
) (made made, err error) {
	var params ccm.Params
	cluster.cloud = newCloudLimits(f.params.Limits, f.places)
	cluster.onCloudConfig = func(replace ReplaceCloudConfig) {
		made.replaceCloud = func(data []byte) (bool, error) { return replace(ctx, data) }
	}
	if err := rescue.Panic(func() (err error) {
		params, err = f.params.Manager(cluster)
		return err
	}); err != nil {
		return made, fmt.Errorf("parameters of the Manager: %w", err)
	}
	if params.Name == "" {
		params.Name = cluster.Name
	}
	if params.Config.LeaderElection.Identity == "" {
		params.Config.LeaderElection.Identity = f.self.identity
	}
	if params.Logger == nil {
		log := f.log.WithValues("cluster", cluster.Name)
		params.Logger = &log
	}
	log := withShortTexts(*params.Logger)
	params.Logger = &log
	params.Owner = cmp.Or(params.Owner, cluster.owner)
	params.RequireOwnerMark = params.RequireOwnerMark || f.params.RequireOwnerMark
	if cluster.isDeleting() {
		_, err := proveDeleted(ctx, &cluster)
		switch {
		case err == nil:
			made.cleaning = true
			params = f.cleanUpParams(m, &cluster, &params, exceeded)
		case errors.Is(err, errKept):
			f.tell(ctx, &cluster, corev1.EventTypeWarning, reasonKept, err.Error())
			return made, err
		case cluster.RESTConfig == nil:
			return made, err
		}
	}
	if !made.cleaning && params.RESTConfig == nil && params.Clients == nil &&
		cluster.RESTConfig != nil {
		made.access, params.RESTConfig, err = newAccess(cluster.RESTConfig)
		if err != nil {
			return made, err
		}
		if params.RESTConfig.UserAgent == "" { // the cluster's audit log names the replica
			params.RESTConfig.UserAgent = rest.DefaultKubernetesUserAgent() + "/" + f.self.identity
		}
		made.meter = newMeter(params.RESTConfig, f.params.Limits, f.places, made.access,
			exceeded)
	}
	switch {
	case params.Elector != nil:
	case f.params.Lock == LockWorkload:
		cfg := &params.Config.LeaderElection
		cfg.LeaderElect, cfg.Identity = true, f.self.identity
		cfg.LeaseDuration = f.params.Election.LeaseDuration
		cfg.RenewDeadline = f.params.Election.RenewDeadline
		cfg.RetryPeriod = f.params.Election.RetryPeriod
	default:
		cfg := f.params.Election
		cfg.ResourceName, cfg.ResourceNamespace = f.leaseOf(cluster.Name), f.params.Namespace
		cfg.Identity = f.self.identity
		view := f.view
		elector, err := election.NewLease(election.LeaseParams{
			RESTConfig: f.management, Config: cfg, Logger: *params.Logger,
			States: func(ctx context.Context) <-chan election.LeaseState {
				return view.follow(ctx, cfg.ResourceName)
			},
		})
		if err != nil {
			return made, err
		}
		made.leading = new(atomic.Bool)
		own := &memberElector{
			Elector: elector, leading: made.leading,
			changed: func() { f.queue.Add(cluster.Name) },
		}
		if config := params.RESTConfig; !made.cleaning && cluster.object != nil && config != nil {
			own.record = func(ctx context.Context) { f.record(ctx, m, &cluster, config) }
		}
		params.Elector = own
	}
	if params.Registerer == nil {
		params.Registerer = metrics.Unwanted{} // by default; see Params.Registerer
	}
	made.manager, err = ccm.New(params)
	return made, err
}

// memberElector sets leading while the Manager leads.
type memberElector struct {
	election.Elector
	leading *atomic.Bool
	changed func()
	// record runs beside the Manager while it leads. It may be nil.
	record func(context.Context)
}

// Elect implements election.Elector.
func (e *memberElector) Elect(
	ctx context.Context, lead func(context.Context, election.Grant) error,
) error {
	return e.Elector.Elect(ctx, func(ctx context.Context, g election.Grant) error {
		e.leading.Store(true)
		defer e.leading.Store(false)
		e.changed()
		if e.record != nil {
			recording, stop := context.WithCancel(ctx)
			var done sync.WaitGroup
			done.Go(func() { e.record(recording) })
			defer done.Wait()
			defer stop()
		}
		return lead(ctx, g)
	})
}

// ElectionStatus implements election.Reporter.
func (e *memberElector) ElectionStatus() election.Status {
	return e.Elector.(election.Reporter).ElectionStatus()
}

// sameAccess reports whether two configurations of one server have the same credentials and proxy,
// and trust the same authorities.
func sameAccess(a, b *rest.Config) bool {
	return a == b || proxyOf(a) == proxyOf(b) && reflect.DeepEqual(accessOf(a), accessOf(b))
}

// proxyOf returns the result of a configuration's proxy function for the API server, because
// functions cannot be compared.
func proxyOf(c *rest.Config) string {
	if c.Proxy == nil {
		return ""
	}
	address, _, err := rest.DefaultServerUrlFor(c)
	if err != nil {
		return err.Error()
	}
	return fmt.Sprint(c.Proxy(&http.Request{URL: address}))
}

// accessOf returns the fields that [access] replaces, without functions.
func accessOf(c *rest.Config) rest.Config {
	return rest.Config{
		Username: c.Username, Password: c.Password,
		BearerToken: c.BearerToken, BearerTokenFile: c.BearerTokenFile,
		Impersonate: c.Impersonate, TLSClientConfig: c.TLSClientConfig,
		AuthProvider: c.AuthProvider, ExecProvider: c.ExecProvider,
	}
}
