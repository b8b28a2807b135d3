package ccm

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
	"k8s.io/utils/clock"
)

// leaseRecord is what the requests to a lease have shown of it. It is safe for concurrent use.
type leaseRecord struct {
	clock clock.PassiveClock

	mu     sync.Mutex
	status ElectionStatus
}

func (r *leaseRecord) snapshot() ElectionStatus {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.status
}

// validity is the [Grant.ValidUntil] of a lease: when the fence closes by the clock.
//
// Others may take the lease leaseDuration after they have seen the last renewal, and they have seen it after its request began here: it
// is the begin of the request that counts. The elector gives up renewDeadline after it. The fence closes half-way between the two:
// never before the elector's own loss, which is told better, and with the other half left for cancelled requests to die out on their
// way, and for clocks that do not run at the same rate. With the defaults, 15 s and 10 s, it closes 12.5 s after the
// last renewal, 2.5 s before anybody else may lead.
func (r *leaseRecord) validity(leaseDuration, renewDeadline time.Duration) func() time.Time {
	return func() time.Time {
		r.mu.Lock()
		defer r.mu.Unlock()
		return r.status.LastRenewal.Add(renewDeadline + (leaseDuration-renewDeadline)/2)
	}
}

func (r *leaseRecord) identify(identity string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.status.Identity = identity
}

func (r *leaseRecord) observe(leader string, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	// The elector's own end is not trouble.
	if err == nil || !errors.Is(err, context.Canceled) {
		r.status.Err = err
	}
	if err == nil {
		r.status.Leader = leader
	}
}

func (r *leaseRecord) renewed(at time.Time) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.status.LastRenewal = at
}

// watchedLock sees each request to a lease: it records failures and renewals, and keeps the release back until the term has
// drained. client-go releases as soon as its context ends or a renewal fails, whatever still runs.
type watchedLock struct {
	resourcelock.Interface
	record *leaseRecord
	// mayRelease says why the lease must not be given back yet.
	mayRelease func() error

	mu sync.Mutex
	// holder is who held the lease when it was last read.
	holder string
}

var (
	errNotDrained = errors.New("the lease is kept: the term has not drained")
	errNotHolder  = errors.New("the lease is not ours to release: another process holds it")
)

// stillOurs refuses to release a lease that another process holds. client-go's elector reads the lease before it releases it, but looks
// only at who it believed to be the holder before; it would take the lease from another that has got it in the meantime.
func (l *watchedLock) stillOurs() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.holder != l.Identity() {
		return errNotHolder
	}
	return nil
}

func (l *watchedLock) read(holder string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.holder = holder
}

// Get implements resourcelock.Interface.
func (l *watchedLock) Get(ctx context.Context) (*resourcelock.LeaderElectionRecord, []byte, error) {
	record, raw, err := l.Interface.Get(ctx)
	switch {
	case err == nil:
		l.read(record.HolderIdentity)
		l.record.observe(record.HolderIdentity, nil)
	case !apierrors.IsNotFound(err): // a lease that does not exist is made next
		l.record.observe("", fmt.Errorf("read lease %s: %w", l.Describe(), err))
	}
	return record, raw, err
}

// Create implements resourcelock.Interface.
func (l *watchedLock) Create(ctx context.Context, record resourcelock.LeaderElectionRecord) error {
	begun := l.record.clock.Now()
	err := l.Interface.Create(ctx, record)
	l.written(record, begun, "create", err)
	return err
}

// Update implements resourcelock.Interface.
func (l *watchedLock) Update(ctx context.Context, record resourcelock.LeaderElectionRecord) error {
	if record.HolderIdentity == "" {
		if err := l.mayRelease(); err != nil {
			return err
		}
		if err := l.stillOurs(); err != nil {
			return err
		}
	}
	begun := l.record.clock.Now()
	err := l.Interface.Update(ctx, record)
	l.written(record, begun, "update", err)
	return err
}

func (l *watchedLock) written(record resourcelock.LeaderElectionRecord, begun time.Time, verb string, err error) {
	if err != nil {
		// A conflict says that another replica was faster, which is what an election is about.
		if !apierrors.IsConflict(err) && !apierrors.IsAlreadyExists(err) {
			l.record.observe("", fmt.Errorf("%s lease %s: %w", verb, l.Describe(), err))
		}
		return
	}
	l.record.observe(record.HolderIdentity, nil)
	if record.HolderIdentity == l.Identity() {
		l.record.renewed(begun)
	}
}
