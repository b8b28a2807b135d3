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
	utilnet "k8s.io/apimachinery/pkg/util/net"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
	"k8s.io/utils/clock"
)

// leaseRecord is what the requests to a lease have shown of it. It is safe for concurrent use.
type leaseRecord struct {
	clock clock.PassiveClock

	mu     sync.Mutex
	status ElectionStatus
	// written is what this process wrote last, and seen what others see of that.
	written resourcelock.LeaderElectionRecord
	seen    []byte
	// other is the last other process that was seen to hold the lease; nil if it has released it.
	other *otherHolder
}

// otherHolder is another process that was seen to hold the lease.
type otherHolder struct {
	record resourcelock.LeaderElectionRecord
	// duration is the longest lease duration that it was seen with: an edit may have shortened that of
	// the record, and the holder does not know.
	duration time.Duration
	// until is when it has lost its lease, unless it is seen to renew it.
	until time.Time
}

// isRelease tells whether a free record was written by a holder that released the lease, and not by
// hand: client-go and this package write that it lasts a second from that moment.
func isRelease(r *resourcelock.LeaderElectionRecord) bool {
	return r.HolderIdentity == "" && r.LeaseDurationSeconds == 1 && !r.RenewTime.IsZero() && r.RenewTime.Equal(&r.AcquireTime)
}

// sawRecord remembers who else holds the lease, and until when. duration is that of this process's
// own configuration: the least that is waited for.
func (r *leaseRecord) sawRecord(seen *resourcelock.LeaderElectionRecord, duration time.Duration) {
	r.mu.Lock()
	defer r.mu.Unlock()
	last := r.other
	switch {
	case isRelease(seen):
		r.other = nil
	case seen.HolderIdentity == "" || seen.HolderIdentity == r.status.Identity:
		// Nothing is known of another holder, so what was known of the last one holds.
	case last != nil && last.record == *seen:
		// It has not renewed.
	default:
		duration = max(duration, time.Duration(seen.LeaseDurationSeconds)*time.Second)
		now := &otherHolder{record: *seen, duration: duration}
		if last != nil && last.record.HolderIdentity == seen.HolderIdentity {
			now.duration = max(duration, last.duration)
		}
		now.until = r.clock.Now().Add(now.duration)
		if last != nil && last.until.After(now.until) {
			now.until = last.until
		}
		r.other = now
	}
}

// mayLead returns the other process that may still lead by what was seen of its lease.
func (r *leaseRecord) mayLead() (resourcelock.LeaderElectionRecord, bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.other == nil || !r.clock.Now().Before(r.other.until) {
		return resourcelock.LeaderElectionRecord{}, false
	}
	record := r.other.record
	record.LeaseDurationSeconds = int(r.other.duration / time.Second)
	return record, true
}

func (r *leaseRecord) lastWritten() resourcelock.LeaderElectionRecord {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.written
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
	return Grant{ValidUntil: after(renewDeadline + (leaseDuration-renewDeadline)/2), LeaseExpiry: after(leaseDuration)}
}

func (r *leaseRecord) identify(identity string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.status.Identity = identity
}

// forgetError begins a campaign: the error of an earlier one says nothing about it.
func (r *leaseRecord) forgetError() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.status.Err = nil
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

// renewed records that this process wrote a record by a request that began at a time. Others notice a renewal because the record
// differs, and its times have whole seconds: they do not notice a second renewal within a second.
func (r *leaseRecord) renewed(record resourcelock.LeaderElectionRecord, at time.Time) {
	seen, err := json.Marshal(record)
	r.mu.Lock()
	defer r.mu.Unlock()
	r.written, r.other = record, nil
	if err == nil && bytes.Equal(seen, r.seen) {
		return
	}
	r.seen, r.status.LastRenewal = seen, at
}

// watchedLock sees each request to a lease: it records failures and renewals, and who has taken the
// lease. It keeps this process from taking a lease whose holder may still lead although the lease was
// deleted or edited. It is safe for concurrent use.
type watchedLock struct {
	resourcelock.Interface
	record *leaseRecord
	// duration is the lease duration of this process's own configuration.
	duration time.Duration
	// taken is called when a lease that was held is seen to be another's.
	taken func(holder string)
	// won is called when the lease has been written by this process, which did not hold it before. It may be nil.
	won func()
	// mayRelease says why the lease must not be given back yet. Nil: the caller of the lock decides.
	mayRelease func() error
	// hung is called when a request was not answered in time. It may be nil.
	hung func()

	// requests keeps requests apart, because the lock of client-go keeps the last answer in a field.
	requests sync.Mutex

	mu sync.Mutex
	// leader is who held the lease when it was last read, held that it was last written by this process.
	leader string
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

// read records who holds the lease. A lease without a holder that this process held was edited by
// hand: the next renewal takes it back, unless another process was faster.
func (l *watchedLock) read(leader string) {
	l.mu.Lock()
	lost := l.held && leader != "" && leader != l.Identity()
	l.leader = leader
	if lost {
		l.held = false
	}
	l.mu.Unlock()
	if lost && l.taken != nil {
		l.taken(leader)
	}
}

// repair writes a held lease again that was deleted or edited by hand, unless another process has
// taken it: then it is lost.
func (l *watchedLock) repair(ctx context.Context) error {
	l.requests.Lock()
	defer l.requests.Unlock()
	last, _, err := l.get(ctx)
	missing := apierrors.IsNotFound(err)
	if err != nil && !missing || !l.isHeld() {
		return ignoreNotFound(err)
	}
	record := l.record.lastWritten()
	if !missing && last.HolderIdentity == l.Identity() && last.LeaseDurationSeconds == record.LeaseDurationSeconds {
		return nil
	}
	record.RenewTime = metav1.NewTime(l.record.clock.Now())
	if missing {
		return l.write(ctx, record, "create", l.Interface.Create)
	}
	return l.write(ctx, record, "update", l.Interface.Update)
}

func ignoreNotFound(err error) error {
	if apierrors.IsNotFound(err) {
		return nil
	}
	return err
}

// giveBack makes the lease free, unless another holds it. The error is a conflict if it was written in between.
func (l *watchedLock) giveBack(ctx context.Context) error {
	l.requests.Lock()
	defer l.requests.Unlock()
	last, _, err := l.get(ctx)
	switch {
	case apierrors.IsNotFound(err), err == nil && last.HolderIdentity != l.Identity():
		return nil
	case err != nil:
		return err
	}
	now := metav1.NewTime(l.record.clock.Now())
	return l.write(ctx, resourcelock.LeaderElectionRecord{
		LeaderTransitions: last.LeaderTransitions, LeaseDurationSeconds: 1, RenewTime: now, AcquireTime: now,
	}, "update", l.Interface.Update)
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
	if l.leader != l.Identity() {
		return errNotHolder
	}
	return nil
}

// Get implements resourcelock.Interface. A lease that was deleted, or edited to be free, this
// process's, or shorter, looks like its last other holder's as long as that one may lead.
func (l *watchedLock) Get(ctx context.Context) (*resourcelock.LeaderElectionRecord, []byte, error) {
	l.requests.Lock()
	defer l.requests.Unlock()
	record, raw, err := l.get(ctx)
	if err != nil && !apierrors.IsNotFound(err) || l.isHeld() {
		return record, raw, err
	}
	other, ok := l.record.mayLead()
	if !ok || err == nil && record.HolderIdentity == other.HolderIdentity && record.LeaseDurationSeconds >= other.LeaseDurationSeconds {
		return record, raw, err
	}
	raw, err = json.Marshal(other)
	return &other, raw, err
}

// get reads the lease as it is. The lock of requests is held.
func (l *watchedLock) get(ctx context.Context) (*resourcelock.LeaderElectionRecord, []byte, error) {
	record, raw, err := l.Interface.Get(ctx)
	switch {
	case err == nil:
		l.record.sawRecord(record, l.duration)
		l.read(record.HolderIdentity)
		l.record.observe(record.HolderIdentity, nil)
	case !apierrors.IsNotFound(err): // a lease that does not exist is created next
		l.failed("read", err)
	}
	return record, raw, err
}

func (l *watchedLock) failed(verb string, err error) {
	l.record.observe("", fmt.Errorf("%s lease %s: %w", verb, l.Describe(), err))
	if l.hung != nil && (utilnet.IsTimeout(err) || errors.Is(err, context.DeadlineExceeded)) {
		l.hung()
	}
}

// Create implements resourcelock.Interface.
func (l *watchedLock) Create(ctx context.Context, record resourcelock.LeaderElectionRecord) error {
	l.requests.Lock()
	defer l.requests.Unlock()
	return l.write(ctx, record, "create", l.Interface.Create)
}

// Update implements resourcelock.Interface.
func (l *watchedLock) Update(ctx context.Context, record resourcelock.LeaderElectionRecord) error {
	l.requests.Lock()
	defer l.requests.Unlock()
	if record.HolderIdentity == "" {
		if err := l.checkRelease(); err != nil {
			return err
		}
	}
	return l.write(ctx, record, "update", l.Interface.Update)
}

// RecordEvent implements resourcelock.Interface.
func (l *watchedLock) RecordEvent(text string) {
	l.requests.Lock()
	defer l.requests.Unlock()
	l.Interface.RecordEvent(text)
}

// write writes the lease, but does not take it from a process that may still lead. The lock of
// requests is held.
func (l *watchedLock) write(ctx context.Context, record resourcelock.LeaderElectionRecord, verb string,
	send func(context.Context, resourcelock.LeaderElectionRecord) error,
) error {
	mine := record.HolderIdentity == l.Identity()
	if other, ok := l.record.mayLead(); ok && mine && !l.isHeld() {
		return fmt.Errorf("lease %s: %q may still lead", l.Describe(), other.HolderIdentity)
	}
	begun := l.record.clock.Now()
	if err := send(ctx, record); err != nil {
		// A conflict says that another replica was faster, which is what an election is about.
		if !apierrors.IsConflict(err) && !apierrors.IsAlreadyExists(err) {
			l.failed(verb, err)
		}
		return err
	}
	l.record.observe(record.HolderIdentity, nil)
	if mine {
		l.record.renewed(record, begun)
	}
	l.mu.Lock()
	won := mine && !l.held
	l.held = mine
	l.mu.Unlock()
	if won && l.won != nil {
		l.won()
	}
	return nil
}
