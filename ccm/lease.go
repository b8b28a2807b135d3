package ccm

import (
	"context"
	"errors"
	"fmt"
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
	"k8s.io/utils/ptr"

	"github.com/fxccm/fxccm/internal/events"
)

// minLeaseTimeout is the least time that a request to the lease gets.
const minLeaseTimeout = time.Second

// NewLeaseElector returns the default [Elector], on a coordination.k8s.io/v1 Lease. It is also an
// [ElectionReporter]. cfg.Identity must be set. No request is made before Elect is called.
//
// Unlike client-go's LeaderElector, on which it rests, it gives the lease back only when the term has
// drained, ends the term as soon as it sees that another has taken the lease, and sees at once when another has given it back, if it may watch the lease. Who leads, and who does not any more, is told
// by events of the Lease.
func NewLeaseElector(config *rest.Config, cfg LeaderElectionConfig, log logr.Logger) (Elector, error) {
	return newLeaseElector(config, cfg, log, clock.RealClock{}, nil)
}

func newLeaseElector(config *rest.Config, cfg LeaderElectionConfig, log logr.Logger, time clock.PassiveClock, recorders EventRecorderSource) (Elector, error) {
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
		log: log.WithName("leader-election"), lease: record,
	}, nil
}

type leaseElector struct {
	cfg       LeaderElectionConfig
	client    coordinationv1.LeasesGetter
	watching  coordinationv1.LeasesGetter
	recording corev1.EventsGetter
	recorders EventRecorderSource
	log       logr.Logger

	// lease outlives the campaigns, so that Status can tell of the last one.
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
	// What follows on an undrained term is urgent: something may act while another process leads.
	if timedOut := (*DrainTimeoutError)(nil); !errors.As(err, &timedOut) {
		recorder.Wait()
	}
	return err
}

func (e *leaseElector) elect(ctx context.Context, recorder resourcelock.EventRecorder, lead func(context.Context, Grant) error) error {
	c, err := e.win(ctx, recorder)
	if err != nil {
		return err
	}
	err = lead(c.led, e.lease.grant(e.cfg.LeaseDuration.Duration, e.cfg.RenewDeadline.Duration))
	timedOut, lost := (*DrainTimeoutError)(nil), c.led.Err() != nil
	c.end()
	if !errors.As(err, &timedOut) && !lost {
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
// periods. A watch tells at once when a leader has given the lease back; then another campaign is begun, which looks at once.
func (e *leaseElector) win(ctx context.Context, recorder resourcelock.EventRecorder) (*campaign, error) {
	watching, stopWatching := context.WithCancel(ctx)
	released := make(chan struct{})
	watched := make(chan struct{})
	go func() {
		defer close(watched)
		e.watchReleases(watching, released)
	}()
	defer func() {
		stopWatching()
		<-watched
	}()
	for {
		c, err := e.campaign(ctx, recorder)
		if err != nil {
			return nil, err
		}
		select {
		case leading := <-c.won:
			context.AfterFunc(leading, func() { c.lose(e.lost("it was not renewed", e.lastError())) })
			return c, nil
		case <-released:
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
	c.lock = &watchedLock{record: e.lease, taken: taken, Interface: &resourcelock.LeaseLock{
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

// watchReleases sends on released each time it has seen the lease held and then free, until ctx ends. Without the right to
// watch the lease it only tries again and again: the campaign looks by itself, less often.
func (e *leaseElector) watchReleases(ctx context.Context, released chan<- struct{}) {
	selector := fields.OneTermEqualSelector("metadata.name", e.cfg.ResourceName).String()
	held := false
	for ctx.Err() == nil {
		events, err := e.watching.Leases(e.cfg.ResourceNamespace).Watch(ctx, metav1.ListOptions{FieldSelector: selector})
		if err != nil {
			e.log.V(2).Info("Cannot watch the lease; a hand-over takes up to 2.2 retry periods", "reason", err.Error())
			events = watch.NewEmptyWatch()
		}
		for event := range events.ResultChan() {
			lease, ok := event.Object.(*apicoordinationv1.Lease)
			if !ok {
				continue // an error of the watch, which ends it
			}
			free := event.Type == watch.Deleted || ptr.Deref(lease.Spec.HolderIdentity, "") == ""
			if held && free {
				select {
				case released <- struct{}{}:
				case <-ctx.Done():
				}
			}
			held = !free
		}
		events.Stop()
		select {
		case <-time.After(e.cfg.RetryPeriod.Duration):
		case <-ctx.Done():
		}
	}
}

// ElectionStatus implements [ElectionReporter].
func (e *leaseElector) ElectionStatus() ElectionStatus { return e.lease.snapshot() }

// lastError is why the lease could not be renewed, as far as is known.
func (e *leaseElector) lastError() error { return e.lease.snapshot().Err }
