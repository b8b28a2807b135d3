package ccm

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/go-logr/logr"
	apicoordinationv1 "k8s.io/api/coordination/v1"
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
// drained, and sees at once when another has given it back, if it may watch the lease. Who leads, and who does not any more, is told
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
	recorder, closeRecorder := e.recorder()
	defer closeRecorder()
	c, err := e.win(ctx, recorder)
	if err != nil {
		return err
	}
	defer c.end()
	led, lost := context.WithCancelCause(context.WithoutCancel(ctx))
	defer lost(nil)
	stop := context.AfterFunc(c.leading, func() {
		lost(fmt.Errorf("%w: lease %s/%s was not renewed: %w", ErrLeadershipLost, e.cfg.ResourceNamespace, e.cfg.ResourceName, e.lastError()))
	})
	defer stop()
	err = lead(led, Grant{ValidUntil: e.lease.validity(e.cfg.LeaseDuration.Duration, e.cfg.RenewDeadline.Duration)})
	if undrained := (*UndrainedError)(nil); !errors.As(err, &undrained) && led.Err() == nil {
		c.drained.Store(true)
	}
	return err
}

// recorder returns a recorder for events of the lease, and what ends it.
func (e *leaseElector) recorder() (resourcelock.EventRecorder, func()) {
	const component = "cloud-controller-manager"
	if e.recorders != nil {
		return e.recorders(component), func() {}
	}
	recorded := events.New(e.recording)
	return recorded.Recorder(component), recorded.Close
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
		case c.leading = <-c.won:
			return c, nil
		case <-released:
			// If it has been won in this moment, the next campaign finds itself the holder.
			c.end()
		case <-ctx.Done():
			// If it has been won in this moment it may be given back: nothing has begun.
			c.drained.Store(true)
			c.end()
			return nil, context.Cause(ctx)
		}
	}
}

// campaign is a run of client-go's elector.
type campaign struct {
	// drained tells that the lease may be given back.
	drained atomic.Bool
	won     chan context.Context
	// leading ends when the lease is lost. It is the elector's, which hands it over in a callback.
	leading context.Context
	// end ends the elector, which gives the lease back if the lock lets it, and waits for it.
	end func()
}

// campaign begins one. It outlives ctx: it goes on renewing the lease while the term drains.
func (e *leaseElector) campaign(ctx context.Context, recorder resourcelock.EventRecorder) (*campaign, error) {
	c := &campaign{won: make(chan context.Context, 1)}
	lock := &watchedLock{record: e.lease, mayRelease: c.mayRelease, Interface: &resourcelock.LeaseLock{
		LeaseMeta:  metav1.ObjectMeta{Namespace: e.cfg.ResourceNamespace, Name: e.cfg.ResourceName},
		Client:     e.client,
		LockConfig: resourcelock.ResourceLockConfig{Identity: e.cfg.Identity, EventRecorder: recorder},
	}}
	elector, err := leaderelection.NewLeaderElector(leaderelection.LeaderElectionConfig{
		Lock:            lock,
		LeaseDuration:   e.cfg.LeaseDuration.Duration,
		RenewDeadline:   e.cfg.RenewDeadline.Duration,
		RetryPeriod:     e.cfg.RetryPeriod.Duration,
		ReleaseOnCancel: true, // the lock lets it through only when the term has drained
		Name:            e.cfg.ResourceName,
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
	}
	return c, nil
}

func (c *campaign) mayRelease() error {
	if !c.drained.Load() {
		return errNotDrained
	}
	return nil
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

func (e *leaseElector) lastError() error {
	if err := e.lease.snapshot().Err; err != nil {
		return err
	}
	return errors.New("another process took it")
}
