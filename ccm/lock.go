package ccm

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
	"k8s.io/utils/clock"
)

// leaseRecord is what the requests to a lease have shown of it. It is safe for concurrent use.
type leaseRecord struct {
	clock clock.PassiveClock

	mu     sync.Mutex
	status ElectionStatus
	// seen is what others see of the last renewal.
	seen []byte
}

func (r *leaseRecord) snapshot() ElectionStatus {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.status
}

// grant is the [Grant] of a lease, by the clock.
//
// Others may take the lease leaseDuration after they have seen the last renewal, and they have seen it after its request began here: it
// is the begin of the request that counts. The elector gives up renewDeadline after the next try, which comes a retry period later. The
// fence closes half-way between renewDeadline and leaseDuration: usually after the elector's own loss, which is told better, and with the other
// half left for cancelled requests to die out on their way, and for clocks that do not run at the same rate. With the
// defaults, 15 s, 10 s and 2 s, the elector gives up after 12 s, and the fence closes 12.5 s after the last renewal,
// 2.5 s before anybody else may lead.
func (r *leaseRecord) grant(leaseDuration, renewDeadline time.Duration) Grant {
	after := func(d time.Duration) func() time.Time {
		return func() time.Time { return r.snapshot().LastRenewal.Add(d) }
	}
	return Grant{ValidUntil: after(renewDeadline + (leaseDuration-renewDeadline)/2), FreeAt: after(leaseDuration)}
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

// renewed tells that a record was written by a request that began at a time. Others know that the lease was renewed by that the record
// is another one, and its times have whole seconds: a second renewal within a second is none to them.
func (r *leaseRecord) renewed(record resourcelock.LeaderElectionRecord, at time.Time) {
	seen, err := json.Marshal(record)
	r.mu.Lock()
	defer r.mu.Unlock()
	if err == nil && bytes.Equal(seen, r.seen) {
		return
	}
	r.seen, r.status.LastRenewal = seen, at
}

// watchedLock sees each request to a lease: it records failures and renewals, and who has taken the lease.
type watchedLock struct {
	resourcelock.Interface
	record *leaseRecord
	// taken is called when a lease that was held is seen to be another's.
	taken func(holder string)
	// won is called when the lease has been written by this process, which did not hold it before. Nil: nobody asks.
	won func()
	// mayRelease says why the lease must not be given back yet. Nil: who writes to the lock knows.
	mayRelease func() error

	mu sync.Mutex
	// holder is who held the lease when it was last read, held that it was last written by this process.
	holder string
	held   bool
}

var (
	errNotDrained = errors.New("the lease is kept: the term has not drained")
	errNotHolder  = errors.New("the lease is not ours to release: another process holds it")
)

func (l *watchedLock) isHeld() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.held
}

// read tells who holds the lease.
func (l *watchedLock) read(holder string) {
	l.mu.Lock()
	lost := l.held && holder != l.Identity()
	l.holder = holder
	if lost {
		l.held = false
	}
	l.mu.Unlock()
	if lost && l.taken != nil {
		l.taken(holder)
	}
}

// giveBack makes the lease free, unless another holds it. The error is a conflict if it was written in between.
func (l *watchedLock) giveBack(ctx context.Context) error {
	last, _, err := l.Get(ctx)
	switch {
	case apierrors.IsNotFound(err), err == nil && last.HolderIdentity != l.Identity():
		return nil
	case err != nil:
		return err
	}
	now := metav1.NewTime(l.record.clock.Now())
	return l.Update(ctx, resourcelock.LeaderElectionRecord{
		LeaderTransitions: last.LeaderTransitions, LeaseDurationSeconds: 1, RenewTime: now, AcquireTime: now,
	})
}

// checkRelease says why the lease must not be released. It is for electors of client-go, which read the lease before they release it, but
// look only at who they believed to be the holder before.
func (l *watchedLock) checkRelease() error {
	if l.mayRelease == nil {
		return nil
	}
	if err := l.mayRelease(); err != nil {
		return err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.holder != l.Identity() {
		return errNotHolder
	}
	return nil
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
		if err := l.checkRelease(); err != nil {
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
	held := record.HolderIdentity == l.Identity()
	if held {
		l.record.renewed(record, begun)
	}
	l.mu.Lock()
	won := held && !l.held
	l.held = held
	l.mu.Unlock()
	if won && l.won != nil {
		l.won()
	}
}
