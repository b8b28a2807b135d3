package election

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/go-logr/logr"
	apicoordinationv1 "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/apimachinery/pkg/watch"
	coordinationv1 "k8s.io/client-go/kubernetes/typed/coordination/v1"
	corev1 "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/leaderelection"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
	"k8s.io/client-go/tools/record"
	"k8s.io/klog/v2"
	"k8s.io/utils/clock"

	"github.com/fxccm/fxccm/internal/apiconn"
	"github.com/fxccm/fxccm/internal/events"
)

// minLeaseTimeout is the shortest timeout of a request to the lease.
const minLeaseTimeout = time.Second

// LeaseParams is the input of [NewLease].
type LeaseParams struct {
	// RESTConfig is the client configuration of the API server. Required.
	RESTConfig *rest.Config

	// Config is validated by NewLease. Its Identity must be set.
	Config Config

	// Logger is the logger of the election. Default: none.
	Logger logr.Logger

	// EventRecorder returns the recorder for the events of the lease, which report who leads and
	// who stopped leading. Nil: they go to the API server.
	EventRecorder func(component string) record.EventRecorder

	// States returns the states of the Lease, in place of a watch of the elector's own. It is for a
	// host with many elections, which observes all Leases with one informer. If the Lease has
	// expired before a campaign begins, the campaign can win with its first request.
	//
	// The channel delivers the present state at once, if the host has seen one, and then newer
	// states. It may skip a state if a newer one follows. It is closed after ctx has ended.
	States func(ctx context.Context) <-chan LeaseState

	// OnTimeout is called when a request to the lease has timed out. It must not block. Nil: no
	// call.
	OnTimeout func()

	// Clock decides whether leadership is still valid. Nil: the real clock. The campaign always
	// uses the real clock.
	Clock clock.PassiveClock
}

// LeaseState is a state of a Lease that the host has seen.
type LeaseState struct {
	// Lease is nil if the Lease was deleted. It is not changed.
	Lease *apicoordinationv1.Lease
	// Seen is when this process saw the state first, by its own clock. The lease duration begins
	// then, so it must not be earlier.
	Seen time.Time
}

// NewLease returns the default [Elector] of a Manager, on a coordination.k8s.io/v1 Lease. It is
// also a [Reporter]. No request is made before Elect is called.
//
// It uses client-go's LeaderElector, and adds what a term needs:
//
//   - It releases the lease only when the term has drained.
//   - With the right to watch the lease, the leader notices at once that the lease was taken,
//     deleted or edited. If another process has taken it, the term ends; otherwise the leader
//     restores the lease. A standby notices a release as quickly.
//   - A standby that has seen a live holder does not take a deleted or edited lease before the
//     holder's lease duration is over.
//   - A standby that has seen no renewal for the lease duration takes the lease with its next
//     request.
func NewLease(p LeaseParams) (Elector, error) {
	cfg, path := p.Config, field.NewPath("leaderElection")
	cfg.LeaderElect = true
	errs := cfg.Validate(path)
	if cfg.Identity == "" {
		errs = append(errs, field.Required(path.Child("identity"),
			"it must be unique among the replicas"))
	}
	if p.RESTConfig == nil {
		errs = append(errs, field.Required(field.NewPath("LeaseParams", "RESTConfig"), ""))
	}
	if err := errs.ToAggregate(); err != nil {
		return nil, fmt.Errorf("election: %w", err)
	}
	if p.Clock == nil {
		p.Clock = clock.RealClock{}
	}
	config := apiconn.WithoutRedirects(p.RESTConfig)
	// A request that hangs must leave time for another attempt before the renew deadline, as in
	// resourcelock.NewFromKubeconfig.
	config.Timeout = max(minLeaseTimeout, cfg.RenewDeadline.Duration/2)
	// The lease must be renewed however busy the rest is.
	config.QPS, config.RateLimiter = -1, nil
	client, err := coordinationv1.NewForConfig(config)
	if err != nil {
		return nil, fmt.Errorf("client for the lease: %w", err)
	}
	config.Timeout = 0 // it would end each watch
	watching, err := coordinationv1.NewForConfig(config)
	if err != nil {
		return nil, fmt.Errorf("client for the lease: %w", err)
	}
	recording, err := corev1.NewForConfig(config)
	if err != nil {
		return nil, fmt.Errorf("client for events of the lease: %w", err)
	}
	lease := &leaseRecord{clock: p.Clock, status: Status{Identity: cfg.Identity}}
	return &leaseElector{
		cfg: cfg, client: client, watching: watching, recording: recording,
		recorder: p.EventRecorder, log: p.Logger.WithName("leader-election"), lease: lease,
		onTimeout: p.OnTimeout, follow: p.States,
	}, nil
}

type leaseElector struct {
	cfg       Config
	client    coordinationv1.LeasesGetter
	watching  coordinationv1.LeasesGetter
	recording corev1.EventsGetter
	recorder  func(component string) record.EventRecorder
	log       logr.Logger
	onTimeout func()
	// follow returns the states of the lease that the host has seen. Nil: the elector watches.
	follow func(context.Context) <-chan LeaseState

	// lease outlives the campaigns: Status reports the last one, and a lease that is deleted
	// between two campaigns may still have a holder.
	lease *leaseRecord
	// proof outlives the campaigns, because the next one may find this process as the holder.
	proof releaseProof
}

// Elect implements [Elector].
func (e *leaseElector) Elect(ctx context.Context, lead func(context.Context, Grant) error) error {
	const component = "cloud-controller-manager"
	if e.recorder != nil {
		return e.elect(ctx, e.recorder(component), lead)
	}
	broadcaster := events.New(e.recording, e.log)
	err := e.elect(ctx, broadcaster.Recorder(component), lead)
	// A drain timeout is urgent: calls may act while another process leads.
	if _, timedOut := errors.AsType[drainTimeout](err); timedOut {
		go broadcaster.Close()
	} else {
		broadcaster.Close()
	}
	return err
}

func (e *leaseElector) elect(
	ctx context.Context, recorder resourcelock.EventRecorder,
	lead func(context.Context, Grant) error,
) error {
	e.lease.clearError()
	w := &leaseWatch{elector: e, released: make(chan struct{}, 1)}
	stopWatching := w.start(context.WithoutCancel(ctx))
	defer stopWatching()
	c, err := e.win(ctx, recorder, w)
	if err != nil {
		return err
	}
	err = lead(c.led, e.lease.grant(e.cfg.LeaseDuration.Duration, e.cfg.RenewDeadline.Duration))
	_, timedOut := errors.AsType[drainTimeout](err)
	lost := c.led.Err() != nil
	stopWatching() // the watch would restore the released lease
	c.end()
	if !timedOut && !lost {
		e.release(ctx, c.lock)
	}
	return err
}

// release releases the lease if this process holds it. client-go's elector can release, too, but it
// does so while activities still run, before it reports the loss, and by the holder that it
// remembers. So it would take the lease from another process that has won it in the meantime.
func (e *leaseElector) release(ctx context.Context, lock *watchedLock) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), e.cfg.RenewDeadline.Duration)
	defer cancel()
	for {
		err := lock.release(ctx)
		switch {
		case err == nil:
			return
		case !apierrors.IsConflict(err):
			e.log.Error(err,
				"Cannot release the lease; another replica can take it when it expires")
			return
		}
		// A renewal that was in flight came first: try again.
	}
}

// win campaigns until the lease is won or ctx ends. client-go's elector reads the lease only every
// 1 to 2.2 retry periods. When the watch sees a release, win starts another campaign, which reads
// at once.
func (e *leaseElector) win(
	ctx context.Context, recorder resourcelock.EventRecorder, w *leaseWatch,
) (*campaign, error) {
	for {
		c, err := e.campaign(ctx, recorder)
		if err != nil {
			return nil, err
		}
		w.lock.Store(c.lock)
		select {
		case leading := <-c.won:
			context.AfterFunc(leading, func() {
				c.lose(e.lost("it was not renewed", e.lastError()))
			})
			return c, nil
		case <-w.released:
			// If the elector has won at this moment, the next campaign finds itself the holder.
			c.end()
		case <-ctx.Done():
			// If the elector has won at this moment, the lease can be released: no term has begun.
			c.end()
			if c.lock.isHeld() {
				e.release(ctx, c.lock)
			}
			return nil, context.Cause(ctx)
		}
	}
}

// campaign is a run of client-go's elector.
type campaign struct {
	lock *watchedLock
	// won receives the elector's context, which ends when the elector gives up renewing.
	won chan context.Context
	// led ends when leadership is lost, with the reason.
	led  context.Context
	lose context.CancelCauseFunc
	// end ends the elector and waits for it. It does not change the lease.
	end func()
}

// campaign starts a campaign. It outlives ctx, because the lease is renewed while the term drains.
func (e *leaseElector) campaign(
	ctx context.Context, recorder resourcelock.EventRecorder,
) (*campaign, error) {
	c := &campaign{won: make(chan context.Context, 1)}
	c.led, c.lose = context.WithCancelCause(context.WithoutCancel(ctx))
	taken := func(holder string) { c.lose(e.lost(fmt.Sprintf("%q has taken it", holder), nil)) }
	leases := &provingLeases{LeasesGetter: e.client, proof: &e.proof}
	c.lock = &watchedLock{
		leases: leases, record: e.lease, duration: e.cfg.LeaseDuration.Duration,
		onLost: taken, onTimeout: e.onTimeout,
		Interface: &resourcelock.LeaseLock{
			LeaseMeta: metav1.ObjectMeta{
				Namespace: e.cfg.ResourceNamespace, Name: e.cfg.ResourceName,
			},
			Client: leases,
			LockConfig: resourcelock.ResourceLockConfig{
				Identity: e.cfg.Identity, EventRecorder: recorder,
			},
		},
	}
	elector, err := leaderelection.NewLeaderElector(leaderelection.LeaderElectionConfig{
		Lock:          c.lock,
		LeaseDuration: e.cfg.LeaseDuration.Duration,
		RenewDeadline: e.cfg.RenewDeadline.Duration,
		RetryPeriod:   e.cfg.RetryPeriod.Duration,
		Name:          e.cfg.ResourceName,
		Callbacks: leaderelection.LeaderCallbacks{
			OnStartedLeading: func(leading context.Context) { c.won <- leading },
			OnStoppedLeading: func() {},
		},
	})
	if err != nil {
		return nil, fmt.Errorf("leader election: %w", err)
	}
	electing, stopElecting := context.WithCancel(klog.NewContext(context.WithoutCancel(ctx), e.log))
	over := make(chan struct{})
	go func() {
		defer close(over)
		elector.Run(electing)
	}()
	c.end = func() {
		stopElecting()
		<-over
		c.lose(nil)
	}
	return c, nil
}

// lost returns the cause of a term's end. why may be nil.
func (e *leaseElector) lost(what string, why error) error {
	err := fmt.Errorf("%w: lease %s/%s: %s", ErrLost, e.cfg.ResourceNamespace,
		e.cfg.ResourceName, what)
	if why != nil {
		err = fmt.Errorf("%w: %w", err, why)
	}
	return err
}

// leaseWatch watches the lease while this process campaigns and leads. Without the right to watch,
// it only retries, because client-go's elector polls the lease in any case.
type leaseWatch struct {
	elector *leaseElector
	// lock is the lock of the current campaign.
	lock atomic.Pointer[watchedLock]
	// released receives a value when a standby has seen that the holder released the lease.
	released chan struct{}
}

// start watches until stop is called. stop may be called more than once.
func (w *leaseWatch) start(ctx context.Context) (stop func()) {
	ctx, cancel := context.WithCancel(ctx)
	done := make(chan struct{})
	run := w.run
	if w.elector.follow != nil {
		states := w.elector.follow(ctx)
		select {
		case state := <-states: // before the first request
			w.handleState(ctx, state)
		default:
		}
		run = func(ctx context.Context) {
			for state := range states {
				w.handleState(ctx, state)
			}
		}
	}
	go func() {
		defer close(done)
		run(ctx)
	}()
	return func() {
		cancel()
		<-done
	}
}

func (w *leaseWatch) run(ctx context.Context) {
	e := w.elector
	selector := fields.OneTermEqualSelector("metadata.name", e.cfg.ResourceName).String()
	for ctx.Err() == nil {
		events, err := e.watching.Leases(e.cfg.ResourceNamespace).Watch(ctx,
			metav1.ListOptions{FieldSelector: selector})
		if err != nil {
			e.log.V(2).Info("Cannot watch the lease; a hand-over takes up to 2.2 retry periods",
				"reason", err.Error())
			events = watch.NewEmptyWatch()
		}
		for event := range events.ResultChan() {
			// any other object is an error, after which the watch ends
			if lease, ok := event.Object.(*apicoordinationv1.Lease); ok {
				w.handle(ctx, event.Type == watch.Deleted, lease, e.lease.clock.Now())
			}
		}
		events.Stop()
		select {
		case <-time.After(e.cfg.RetryPeriod.Duration):
		case <-ctx.Done():
		}
	}
}

func (w *leaseWatch) handleState(ctx context.Context, state LeaseState) {
	if ctx.Err() == nil { // otherwise the lease has been or will be released
		w.handle(ctx, state.Lease == nil, state.Lease, state.Seen)
	}
}

// handle reacts to a change of the lease. seen is when this process saw it.
func (w *leaseWatch) handle(
	ctx context.Context, deleted bool, lease *apicoordinationv1.Lease, seen time.Time,
) {
	e := w.elector
	var record resourcelock.LeaderElectionRecord
	isReleased := false
	if !deleted {
		state := stateOf(lease)
		record = state.record
		isReleased = e.lease.observeState(state, e.cfg.LeaseDuration.Duration, seen)
	}
	if lock := w.lock.Load(); lock != nil && lock.isHeld() {
		// The event may be older than this process's last write, so restore reads the lease again.
		if deleted || record.HolderIdentity != e.cfg.Identity ||
			record.LeaseDurationSeconds != int(e.cfg.LeaseDuration.Duration/time.Second) {
			if err := lock.restore(ctx); err != nil && ctx.Err() == nil {
				e.log.Error(err,
					"Cannot restore the deleted or edited lease; the next renewal retries")
			}
		}
		return
	}
	if isReleased {
		select {
		case w.released <- struct{}{}:
		default: // the next campaign is due already
		}
	}
}

// Status implements [Reporter].
func (e *leaseElector) ElectionStatus() Status { return e.lease.snapshot() }

// lastError is the known reason of a failed renewal.
func (e *leaseElector) lastError() error { return e.lease.snapshot().Err }
