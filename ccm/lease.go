package ccm

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
	"k8s.io/apimachinery/pkg/watch"
	coordinationv1 "k8s.io/client-go/kubernetes/typed/coordination/v1"
	corev1 "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/leaderelection"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
	"k8s.io/klog/v2"
	"k8s.io/utils/clock"

	"github.com/fxccm/fxccm/internal/events"
)

// minLeaseTimeout is the least time that a request to the lease gets.
const minLeaseTimeout = time.Second

// NewLeaseElector returns the default [Elector], on a coordination.k8s.io/v1 Lease. It is also an
// [ElectionReporter]. cfg.Identity must be set. No request is made before Elect is called.
//
// It rests on client-go's LeaderElector, and differs from it where a term needs more:
//
//   - It releases the lease only when the term has drained.
//   - If it may watch the lease, the leader notices within a moment that the lease was taken, deleted or edited. The term ends
//     if another process has taken it; otherwise the leader writes the lease again. A standby notices a release as quickly.
//   - A standby that has seen a live holder does not take a lease that was deleted or edited before the holder's lease duration is over.
//
// Events of the lease say who leads, and who does not any more.
func NewLeaseElector(config *rest.Config, cfg LeaderElectionConfig, log logr.Logger) (Elector, error) {
	return newLeaseElector(config, cfg, log, clock.RealClock{}, nil, nil)
}

// newLeaseElector makes an elector that calls hung when a request was not answered in time.
func newLeaseElector(
	config *rest.Config, cfg LeaderElectionConfig, log logr.Logger, time clock.PassiveClock, recorders EventRecorderSource, hung func(),
) (Elector, error) {
	config = rest.CopyConfig(config)
	// A request that hangs must leave time for another try before the renew deadline, as in
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
	record := &leaseRecord{clock: time, status: ElectionStatus{Identity: cfg.Identity}}
	return &leaseElector{
		cfg: cfg, client: client, watching: watching, recording: recording, recorders: recorders,
		log: log.WithName("leader-election"), lease: record, hung: hung,
	}, nil
}

type leaseElector struct {
	cfg       LeaderElectionConfig
	client    coordinationv1.LeasesGetter
	watching  coordinationv1.LeasesGetter
	recording corev1.EventsGetter
	recorders EventRecorderSource
	log       logr.Logger
	hung      func()

	// lease outlives the campaigns: Status reports the last one, and a lease that is deleted between
	// two campaigns may still have a holder.
	lease *leaseRecord
}

// Elect implements [Elector].
func (e *leaseElector) Elect(ctx context.Context, lead func(context.Context, Grant) error) error {
	const component = "cloud-controller-manager"
	if e.recorders != nil {
		return e.elect(ctx, e.recorders(component), lead)
	}
	recorder := events.NewSporadic(e.recording, component)
	err := e.elect(ctx, recorder, lead)
	// A drain timeout is urgent: something may act while another process leads.
	if _, timedOut := errors.AsType[*DrainTimeoutError](err); !timedOut {
		recorder.Wait()
	}
	return err
}

func (e *leaseElector) elect(ctx context.Context, recorder resourcelock.EventRecorder, lead func(context.Context, Grant) error) error {
	e.lease.forgetError()
	w := &leaseWatch{elector: e, released: make(chan struct{}, 1)}
	stopWatching := w.start(context.WithoutCancel(ctx))
	defer stopWatching()
	c, err := e.win(ctx, recorder, w)
	if err != nil {
		return err
	}
	err = lead(c.led, e.lease.grant(e.cfg.LeaseDuration.Duration, e.cfg.RenewDeadline.Duration))
	_, timedOut := errors.AsType[*DrainTimeoutError](err)
	lost := c.led.Err() != nil
	stopWatching() // or it would write the lease again that is released
	c.end()
	if !timedOut && !lost {
		e.release(ctx, c.lock)
	}
	return err
}

// release gives the lease back if this process holds it. client-go's elector can do that too, but it does so whatever still runs, before it
// says that it leads no more, and by who it believed to be the holder before: it would take the lease from another process
// that has got it in the meantime.
func (e *leaseElector) release(ctx context.Context, lock *watchedLock) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), e.cfg.RenewDeadline.Duration)
	defer cancel()
	for {
		err := lock.giveBack(ctx)
		switch {
		case err == nil:
			return
		case !apierrors.IsConflict(err):
			e.log.Error(err, "The lease could not be given back, and is left to expire")
			return
		}
		// A renewal that was on its way came first.
	}
}

// win campaigns until the lease is won or ctx ends. client-go's elector looks at the lease only every one to 2.2 retry
// periods. When the watch sees a release another campaign is begun, which looks at once.
func (e *leaseElector) win(ctx context.Context, recorder resourcelock.EventRecorder, w *leaseWatch) (*campaign, error) {
	for {
		c, err := e.campaign(ctx, recorder)
		if err != nil {
			return nil, err
		}
		w.lock.Store(c.lock)
		select {
		case leading := <-c.won:
			context.AfterFunc(leading, func() { c.lose(e.lost("it was not renewed", e.lastError())) })
			return c, nil
		case <-w.released:
			// If it has been won in this moment, the next campaign finds itself the holder.
			c.end()
		case <-ctx.Done():
			// If it has been won in this moment it may be given back: nothing has begun.
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
	// won receives the elector's context, which ends when it has given up renewing.
	won chan context.Context
	// led ends when leadership is lost, with the reason.
	led  context.Context
	lose context.CancelCauseFunc
	// end ends the elector and waits for it. It leaves the lease as it is.
	end func()
}

// campaign begins one. It outlives ctx: it goes on renewing the lease while the term drains.
func (e *leaseElector) campaign(ctx context.Context, recorder resourcelock.EventRecorder) (*campaign, error) {
	c := &campaign{won: make(chan context.Context, 1)}
	c.led, c.lose = context.WithCancelCause(context.WithoutCancel(ctx))
	taken := func(holder string) { c.lose(e.lost(fmt.Sprintf("%q has taken it", holder), nil)) }
	c.lock = &watchedLock{record: e.lease, duration: e.cfg.LeaseDuration.Duration, taken: taken, hung: e.hung, Interface: &resourcelock.LeaseLock{
		LeaseMeta:  metav1.ObjectMeta{Namespace: e.cfg.ResourceNamespace, Name: e.cfg.ResourceName},
		Client:     e.client,
		LockConfig: resourcelock.ResourceLockConfig{Identity: e.cfg.Identity, EventRecorder: recorder},
	}}
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

// lost is the cause of a term's end. The second reason may be nil.
func (e *leaseElector) lost(what string, why error) error {
	err := fmt.Errorf("%w: lease %s/%s: %s", ErrLeadershipLost, e.cfg.ResourceNamespace, e.cfg.ResourceName, what)
	if why != nil {
		err = fmt.Errorf("%w: %w", err, why)
	}
	return err
}

// leaseWatch watches the lease while this process campaigns and leads. Without the right to watch, it
// only tries again: client-go's elector looks by itself, less often.
type leaseWatch struct {
	elector *leaseElector
	// lock is that of the current campaign.
	lock atomic.Pointer[watchedLock]
	// released receives when a standby has seen the holder release the lease.
	released chan struct{}
	held     bool
}

// start watches until stop is called, which may be called more than once.
func (w *leaseWatch) start(ctx context.Context) (stop func()) {
	ctx, cancel := context.WithCancel(ctx)
	done := make(chan struct{})
	go func() {
		defer close(done)
		w.run(ctx)
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
		events, err := e.watching.Leases(e.cfg.ResourceNamespace).Watch(ctx, metav1.ListOptions{FieldSelector: selector})
		if err != nil {
			e.log.V(2).Info("Cannot watch the lease; a hand-over takes up to 2.2 retry periods", "reason", err.Error())
			events = watch.NewEmptyWatch()
		}
		for event := range events.ResultChan() {
			if lease, ok := event.Object.(*apicoordinationv1.Lease); ok { // else an error of the watch, which ends it
				w.saw(ctx, event.Type, resourcelock.LeaseSpecToLeaderElectionRecord(&lease.Spec))
			}
		}
		events.Stop()
		select {
		case <-time.After(e.cfg.RetryPeriod.Duration):
		case <-ctx.Done():
		}
	}
}

// saw reacts to a change of the lease.
func (w *leaseWatch) saw(ctx context.Context, change watch.EventType, record *resourcelock.LeaderElectionRecord) {
	e := w.elector
	deleted := change == watch.Deleted
	if !deleted {
		e.lease.sawRecord(record, e.cfg.LeaseDuration.Duration)
	}
	if lock := w.lock.Load(); lock != nil && lock.isHeld() {
		// The event may be older than what this process has written since, so repair looks itself.
		if deleted || record.HolderIdentity != e.cfg.Identity || record.LeaseDurationSeconds != int(e.cfg.LeaseDuration.Duration/time.Second) {
			if err := lock.repair(ctx); err != nil && ctx.Err() == nil {
				e.log.Error(err, "The lease was deleted or edited, and could not be written again; the next renewal tries it")
			}
		}
		w.held = true
		return
	}
	if w.held && !deleted && isRelease(record) {
		select {
		case w.released <- struct{}{}:
		default: // a campaign is about to begin already
		}
	}
	w.held = !deleted && record.HolderIdentity != ""
}

// ElectionStatus implements [ElectionReporter].
func (e *leaseElector) ElectionStatus() ElectionStatus { return e.lease.snapshot() }

// lastError is why the lease could not be renewed, as far as is known.
func (e *leaseElector) lastError() error { return e.lease.snapshot().Err }
