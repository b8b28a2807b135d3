package ccm

import (
	"context"
	"errors"
	"fmt"
	"sync"
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
	"k8s.io/utils/ptr"

	"github.com/fxccm/fxccm/internal/events"
)

// NewLeaseElector returns the default [Elector], on a coordination.k8s.io/v1 Lease. It is also an
// [ElectionReporter]. cfg.Identity must be set. No request is made before Elect is called.
//
// Unlike client-go's LeaderElector, on which it rests, it gives the lease back only when the term has
// drained, and sees at once when another has given it back, if it may watch the lease. Who leads, and who does not any more, is told
// by events of the Lease.
func NewLeaseElector(config *rest.Config, cfg LeaderElectionConfig, log logr.Logger) (Elector, error) {
	config = rest.CopyConfig(config)
	// A request that hangs must leave time for another try before the renew deadline, as in
	// resourcelock.NewFromKubeconfig.
	config.Timeout = max(time.Second, cfg.RenewDeadline.Duration/2)
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
	return &leaseElector{cfg: cfg, client: client, watching: watching, recording: recording, log: log.WithName("leader-election")}, nil
}

type leaseElector struct {
	cfg       LeaderElectionConfig
	client    coordinationv1.LeasesGetter
	watching  coordinationv1.LeasesGetter
	recording corev1.EventsGetter
	log       logr.Logger

	mu     sync.Mutex
	status ElectionStatus
}

// Elect implements [Elector].
func (e *leaseElector) Elect(ctx context.Context, lead func(context.Context, Grant) error) error {
	recorded := events.New(e.recording)
	defer recorded.Close()
	c, err := e.win(ctx, recorded.Recorder("cloud-controller-manager"))
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
	err = lead(led, Grant{ValidUntil: e.validUntil})
	if undrained := (*UndrainedError)(nil); !errors.As(err, &undrained) && led.Err() == nil {
		c.lock.drained()
	}
	return err
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
			c.lock.drained()
			c.end()
			return nil, context.Cause(ctx)
		}
	}
}

// campaign is a run of client-go's elector.
type campaign struct {
	lock *drainLock
	won  chan context.Context
	// leading ends when the lease is lost. It is the elector's, which hands it over in a callback.
	leading context.Context
	// end ends the elector, which gives the lease back if the lock lets it, and waits for it.
	end func()
}

// campaign begins one. It outlives ctx: it goes on renewing the lease while the term drains.
func (e *leaseElector) campaign(ctx context.Context, recorder resourcelock.EventRecorder) (*campaign, error) {
	c := &campaign{won: make(chan context.Context, 1)}
	c.lock = &drainLock{elector: e, Interface: &resourcelock.LeaseLock{
		LeaseMeta:  metav1.ObjectMeta{Namespace: e.cfg.ResourceNamespace, Name: e.cfg.ResourceName},
		Client:     e.client,
		LockConfig: resourcelock.ResourceLockConfig{Identity: e.cfg.Identity, EventRecorder: recorder},
	}}
	elector, err := leaderelection.NewLeaderElector(leaderelection.LeaderElectionConfig{
		Lock:            c.lock,
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

// validUntil is when the fence closes by the clock. Others may take the lease LeaseDuration after
// they have seen the last renewal, which is after its request began here. The elector gives up
// RenewDeadline after it. Half-way between the two is late enough never to come before the
// elector's own loss, and leaves the other half for cancelled requests to die out and for clocks that run at
// different rates.
func (e *leaseElector) validUntil() time.Time {
	e.mu.Lock()
	defer e.mu.Unlock()
	lease, renew := e.cfg.LeaseDuration.Duration, e.cfg.RenewDeadline.Duration
	return e.status.LastRenewal.Add(renew + (lease-renew)/2)
}

// ElectionStatus implements [ElectionReporter].
func (e *leaseElector) ElectionStatus() ElectionStatus {
	e.mu.Lock()
	defer e.mu.Unlock()
	status := e.status
	status.Identity = e.cfg.Identity
	return status
}

func (e *leaseElector) lastError() error {
	if err := e.ElectionStatus().Err; err != nil {
		return err
	}
	return errors.New("another process took it")
}

func (e *leaseElector) observe(leader string, err error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	// The elector's own end is not trouble.
	if err == nil || !errors.Is(err, context.Canceled) {
		e.status.Err = err
	}
	if err == nil {
		e.status.Leader = leader
	}
}

func (e *leaseElector) renewed(at time.Time) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.status.LastRenewal = at
}

// drainLock sees each request to the lease: it remembers failures and renewals, and keeps the
// release back until the term has drained. client-go releases as soon as its context ends or a
// renewal fails, whatever still runs.
type drainLock struct {
	resourcelock.Interface
	elector *leaseElector

	mu      sync.Mutex
	release bool
	// holder is who held the lease when it was last read.
	holder string
}

var (
	errNotDrained = errors.New("the lease is kept: the term has not drained")
	errNotHolder  = errors.New("the lease is not ours to release: another process holds it")
)

func (l *drainLock) drained() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.release = true
}

// mayRelease says why the lease must not be released. client-go's elector reads the lease before it releases it, but looks only at who
// it believed to be the holder before; it would take the lease from another process that has got it in the meantime.
func (l *drainLock) mayRelease() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case !l.release:
		return errNotDrained
	case l.holder != l.Identity():
		return errNotHolder
	}
	return nil
}

func (l *drainLock) read(holder string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.holder = holder
}

// Get implements resourcelock.Interface.
func (l *drainLock) Get(ctx context.Context) (*resourcelock.LeaderElectionRecord, []byte, error) {
	record, raw, err := l.Interface.Get(ctx)
	switch {
	case err == nil:
		l.read(record.HolderIdentity)
		l.elector.observe(record.HolderIdentity, nil)
	case !apierrors.IsNotFound(err): // a lease that does not exist is made next
		l.elector.observe("", fmt.Errorf("read lease %s: %w", l.Describe(), err))
	}
	return record, raw, err
}

// Create implements resourcelock.Interface.
func (l *drainLock) Create(ctx context.Context, record resourcelock.LeaderElectionRecord) error {
	begun := time.Now()
	err := l.Interface.Create(ctx, record)
	l.written(record, begun, "create", err)
	return err
}

// Update implements resourcelock.Interface.
func (l *drainLock) Update(ctx context.Context, record resourcelock.LeaderElectionRecord) error {
	if record.HolderIdentity == "" {
		if err := l.mayRelease(); err != nil {
			return err
		}
	}
	begun := time.Now()
	err := l.Interface.Update(ctx, record)
	l.written(record, begun, "update", err)
	return err
}

func (l *drainLock) written(record resourcelock.LeaderElectionRecord, begun time.Time, verb string, err error) {
	if err != nil {
		// A conflict says that another replica was faster, which is what an election is about.
		if !apierrors.IsConflict(err) && !apierrors.IsAlreadyExists(err) {
			l.elector.observe("", fmt.Errorf("%s lease %s: %w", verb, l.Describe(), err))
		}
		return
	}
	l.elector.observe(record.HolderIdentity, nil)
	if record.HolderIdentity == l.Identity() {
		l.elector.renewed(begun)
	}
}
