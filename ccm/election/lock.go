package election

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"strings"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	utilnet "k8s.io/apimachinery/pkg/util/net"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
	"k8s.io/utils/clock"
)

// leaseRecord holds the state of a lease as this process has seen it in its requests. It is safe
// for concurrent use.
type leaseRecord struct {
	clock clock.PassiveClock

	mu     sync.Mutex
	status Status
	// written is the last record that this process wrote. seen is its JSON, which other processes
	// compare.
	written resourcelock.LeaderElectionRecord
	seen    []byte
	// other is the last other process that held the lease. It is nil after that process's release.
	other *otherHolder
	// earlier is the holder before other that may lead longest, because its release was not seen.
	// Only time ends the wait for it, because it stands for all holders before other.
	earlier *otherHolder
	// isHeldByOther reports whether the lease named other as its holder when it was last seen.
	isHeldByOther bool
	// version is that of the lease when it was last seen.
	version string
}

type otherHolder struct {
	record  resourcelock.LeaderElectionRecord
	version string
	// releaseDigest is that of the proof of the holder's release. It is empty if the holder
	// publishes none.
	releaseDigest string
	// duration is how long the holder may lead after a renewal, and until is when that time ends.
	duration time.Duration
	until    time.Time
}

// maxOwnDurations limits the wait for another holder to a multiple of this process's own lease
// duration. Otherwise an edit with a very long duration would keep all processes from leading.
const maxOwnDurations = 2

// mayLeadFor returns how long another holder may lead after a renewal. own is this process's lease
// duration, which is the minimum, because an edit may have shortened the duration in the record
// without the holder's knowledge.
func mayLeadFor(record *resourcelock.LeaderElectionRecord, own time.Duration) time.Duration {
	recorded := time.Duration(record.LeaseDurationSeconds) * time.Second
	return max(own, min(recorded, maxOwnDurations*own))
}

// observeState remembers the other holder of the lease and its expiry. own is this process's
// configured lease duration. at is when this process saw the state. The result reports whether the
// holder was seen to release the lease.
func (r *leaseRecord) observeState(seen leaseState, own time.Duration, at time.Time) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	holder, last := seen.record.HolderIdentity, r.other
	isSame := last != nil && last.record.HolderIdentity == holder &&
		last.releaseDigest == seen.releaseDigest
	r.isHeldByOther = holder != "" && holder != r.status.Identity
	isNew := seen.version != r.version
	r.version = seen.version
	switch {
	case !r.isHeldByOther:
		isReleased := last != nil && seen.isReleaseBy(last.releaseDigest)
		if isReleased {
			r.other = nil
		}
		// Without a proof, the record says nothing about the last holder, which may still lead.
		// Another client may have written it over a renewal that this process has not seen.
		if isNew {
			r.other.extend(at)
			if !isReleased || r.earlier.isBy(last) {
				r.earlier.extend(at)
			}
		}
		return isReleased
	case isSame && last.record == seen.record && last.version == seen.version:
		return false // the holder has not renewed
	}
	// Another version counts as a renewal, even if its record is an old one: another client may
	// have written that over a renewal, to hide it.
	duration := mayLeadFor(&seen.record, own)
	r.other = &otherHolder{
		seen.record, seen.version, seen.releaseDigest, duration, at.Add(duration),
	}
	switch {
	case last == nil:
	case !isSame:
		r.earlier = later(r.earlier, last)
	case last.until.After(r.other.until):
		r.other.until = last.until
	}
	return false
}

// extend counts a renewal by a holder that may still lead. The holder may be nil.
func (o *otherHolder) extend(at time.Time) {
	if o == nil || !at.Before(o.until) {
		return
	}
	if until := at.Add(o.duration); until.After(o.until) {
		o.until = until
	}
}

// isBy reports whether two holders have the same identity. Both may be nil.
func (o *otherHolder) isBy(other *otherHolder) bool {
	return o != nil && other != nil && o.record.HolderIdentity == other.record.HolderIdentity
}

// later returns the holder that may lead longer. Both may be nil.
func later(a, b *otherHolder) *otherHolder {
	if a == nil || b != nil && b.until.After(a.until) {
		return b
	}
	return a
}

// liveHolder returns the other process that may still lead according to its last seen renewal, or
// nil. The lock is held.
func (r *leaseRecord) liveHolder() *otherHolder {
	if found := later(r.other, r.earlier); found != nil && r.clock.Now().Before(found.until) {
		return found
	}
	return nil
}

// liveRecord returns the record of the other process that may still lead, with the duration that
// this process waits.
func (r *leaseRecord) liveRecord() (resourcelock.LeaderElectionRecord, bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	live := r.liveHolder()
	if live == nil {
		return resourcelock.LeaderElectionRecord{}, false
	}
	record := live.record
	record.LeaseDurationSeconds = int(live.duration / time.Second)
	return record, true
}

// hasExpired reports whether this process has seen no renewal of a record of another holder for the
// time that it waits, and no earlier holder may lead.
func (r *leaseRecord) hasExpired(seen *resourcelock.LeaderElectionRecord) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.other != nil && r.other.record == *seen && r.liveHolder() == nil
}

func (r *leaseRecord) lastWritten() resourcelock.LeaderElectionRecord {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.written
}

func (r *leaseRecord) snapshot() Status {
	r.mu.Lock()
	defer r.mu.Unlock()
	status := r.status
	if live := r.liveHolder(); live != nil {
		status.WaitsFor, status.WaitsUntil = bounded(live.record.HolderIdentity), live.until
	}
	return status
}

func (r *leaseRecord) lastRenewal() time.Time {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.status.LastRenewal
}

// bounded shortens the identity of a holder for Status, logs and errors, because an edit can make
// it as long as a request may be.
func bounded(identity string) string {
	const most = 253 // of the name of a Kubernetes object
	if len(identity) <= most {
		return identity
	}
	return strings.ToValidUTF8(identity[:most], "") + "..."
}

// grant is the [Grant] of a lease, by the clock.
//
// Other processes may take the lease leaseDuration after they have seen the last renewal. They have
// seen it after its request began here, so the begin of the request counts. The elector gives up
// renewDeadline after the next attempt, which is a retry period later. The fence closes half-way
// between renewDeadline and leaseDuration. That is usually after the elector's own loss, which has
// a better error text. The other half is left for canceled requests to end, and for clocks that
// run at different rates. With the defaults, 15 s, 10 s and 2 s, the elector gives up after 12 s.
// The fence closes 12.5 s after the last renewal, 2.5 s before another process may lead.
func (r *leaseRecord) grant(leaseDuration, renewDeadline time.Duration) Grant {
	after := func(d time.Duration) func() time.Time {
		return func() time.Time { return r.lastRenewal().Add(d) }
	}
	return Grant{
		ValidUntil:  after(renewDeadline + (leaseDuration-renewDeadline)/2),
		LeaseExpiry: after(leaseDuration),
	}
}

func (r *leaseRecord) setIdentity(identity string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.status.Identity = identity
}

// clearError is called when a campaign begins, because the error of an earlier one does not concern
// it.
func (r *leaseRecord) clearError() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.status.Err = nil
}

func (r *leaseRecord) observe(leader string, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	// The end of the elector itself is not a failure.
	if err == nil || !errors.Is(err, context.Canceled) {
		r.status.Err = err
	}
	if err == nil {
		r.status.Leader = bounded(leader)
	}
}

// recordRenewal remembers the record that this process wrote. at is when the request began. Other
// processes notice a renewal because the record differs. The record's times have whole seconds, so
// a second renewal within a second does not count.
func (r *leaseRecord) recordRenewal(record resourcelock.LeaderElectionRecord, at time.Time) {
	seen, err := json.Marshal(record)
	r.mu.Lock()
	defer r.mu.Unlock()
	r.written, r.other, r.earlier = record, nil, nil
	if err == nil && bytes.Equal(seen, r.seen) {
		return
	}
	r.seen, r.status.LastRenewal = seen, at
}

// watchedLock observes each request to a lease: it records failures, renewals, and the holder. It
// refuses to take a deleted or edited lease whose holder may still lead. It is safe for concurrent
// use.
type watchedLock struct {
	resourcelock.Interface
	// leases is the client of Interface. Nil: no release is recognized, because the lock of the
	// host does not read the annotations of the lease.
	leases *provingLeases
	record *leaseRecord
	// duration is the lease duration of this process's own configuration.
	duration time.Duration
	// onLost is called when another process is seen to hold the lease that this process held.
	onLost func(holder string)
	// onWon is called when this process has written a lease that it did not hold. It may be nil.
	onWon func()
	// mayRelease returns why the lease must not be released yet. Nil: the caller of the lock
	// decides.
	mayRelease func() error
	// onTimeout is called when a request timed out. It may be nil.
	onTimeout func()

	// requests serializes requests, because the lock of client-go keeps the last answer in a field.
	requests sync.Mutex

	mu sync.Mutex
	// leader is the holder in the last answer. held reports whether this process wrote the lease
	// last.
	leader string
	held   bool
}

var (
	errNotDrained = errors.New("the lease cannot be released: the term has not drained")
	errNotHolder  = errors.New("the lease cannot be released: another process holds it")
)

func (l *watchedLock) isHeld() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.held
}

// recordHolder records the holder of the lease. A held lease that has no holder now was edited by
// hand: the next renewal takes it back, unless another process is faster.
func (l *watchedLock) recordHolder(leader string) {
	l.mu.Lock()
	lost := l.held && leader != "" && leader != l.Identity()
	l.leader = leader
	if lost {
		l.held = false
	}
	l.mu.Unlock()
	if lost && l.onLost != nil {
		l.onLost(bounded(leader))
	}
}

// restore rewrites a held lease that was deleted or edited by hand. If another process has taken
// it, the lease is lost.
func (l *watchedLock) restore(ctx context.Context) error {
	l.requests.Lock()
	defer l.requests.Unlock()
	last, _, err := l.get(ctx)
	missing := apierrors.IsNotFound(err)
	switch {
	case !l.isHeld():
		return nil
	case err != nil && !missing:
		return err
	}
	record := l.record.lastWritten()
	if !missing && last.HolderIdentity == l.Identity() &&
		last.LeaseDurationSeconds == record.LeaseDurationSeconds {
		return nil
	}
	record.RenewTime = metav1.NewTime(l.record.clock.Now())
	if missing {
		return l.write(ctx, record, "create", l.Interface.Create)
	}
	return l.write(ctx, record, "update", l.Interface.Update)
}

// release frees the lease, unless another process holds it. The error is a conflict if the lease
// was written in between.
func (l *watchedLock) release(ctx context.Context) error {
	l.requests.Lock()
	defer l.requests.Unlock()
	last, _, err := l.get(ctx)
	switch {
	case apierrors.IsNotFound(err), err == nil && last.HolderIdentity != l.Identity():
		return nil
	case err != nil:
		return err
	}
	// The times and the duration are those with which client-go releases a lease.
	now := metav1.NewTime(l.record.clock.Now())
	return l.write(ctx, resourcelock.LeaderElectionRecord{
		LeaderTransitions:    last.LeaderTransitions,
		LeaseDurationSeconds: 1,
		RenewTime:            now,
		AcquireTime:          now,
	}, "update", l.Interface.Update)
}

// checkRelease returns why the lease must not be released. It guards against electors of client-go,
// which read the lease before they release it, but check only the holder that they remember.
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

// Get implements resourcelock.Interface. While another holder may lead, Get returns that holder's
// record, with the duration that this process waits. It does so even if the lease was deleted, or
// edited to have no holder, another duration, or this process as holder. A lease that has expired
// is returned without its holder, because client-go's elector counts the lease duration only from
// its own first request.
func (l *watchedLock) Get(ctx context.Context) (*resourcelock.LeaderElectionRecord, []byte, error) {
	l.requests.Lock()
	defer l.requests.Unlock()
	record, raw, err := l.get(ctx)
	if err != nil && !apierrors.IsNotFound(err) || l.isHeld() {
		return record, raw, err
	}
	if live, ok := l.record.liveRecord(); ok {
		raw, err = json.Marshal(live)
		return &live, raw, err
	}
	if err == nil && l.record.hasExpired(record) {
		free := *record
		free.HolderIdentity = ""
		raw, err = json.Marshal(free)
		return &free, raw, err
	}
	return record, raw, err
}

// get reads the lease. The lock of requests is held.
func (l *watchedLock) get(ctx context.Context) (*resourcelock.LeaderElectionRecord, []byte, error) {
	record, raw, err := l.Interface.Get(ctx)
	switch {
	case err == nil:
		state := leaseState{record: *record}
		if l.leases != nil {
			state = l.leases.read
		}
		l.record.observeState(state, l.duration, l.record.clock.Now())
		l.recordHolder(record.HolderIdentity)
		l.record.observe(record.HolderIdentity, nil)
	case apierrors.IsNotFound(err):
		l.record.observe("", nil) // it is created next
	default:
		l.failed("read", err)
	}
	return record, raw, err
}

func (l *watchedLock) failed(verb string, err error) {
	l.record.observe("", fmt.Errorf("%s lease %s: %w", verb, l.Describe(), err))
	if l.onTimeout != nil && (utilnet.IsTimeout(err) || errors.Is(err, context.DeadlineExceeded)) {
		l.onTimeout()
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
func (l *watchedLock) write(
	ctx context.Context, record resourcelock.LeaderElectionRecord, verb string,
	send func(context.Context, resourcelock.LeaderElectionRecord) error,
) error {
	mine := record.HolderIdentity == l.Identity()
	if other, ok := l.record.liveRecord(); ok && mine && !l.isHeld() {
		return fmt.Errorf("lease %s: %q may still lead", l.Describe(),
			bounded(other.HolderIdentity))
	}
	if record.LeaderTransitions > math.MaxInt32 {
		record.LeaderTransitions = 0 // the API server refuses what an int32 cannot hold
	}
	begun := l.record.clock.Now()
	if err := send(ctx, record); err != nil {
		// A conflict only means that another replica was faster, which is normal in an election.
		if !apierrors.IsConflict(err) && !apierrors.IsAlreadyExists(err) {
			l.failed(verb, err)
		}
		return err
	}
	l.record.observe(record.HolderIdentity, nil)
	if mine {
		l.record.recordRenewal(record, begun)
	}
	l.mu.Lock()
	won := mine && !l.held
	l.held = mine
	l.mu.Unlock()
	if won && l.onWon != nil {
		l.onWon()
	}
	return nil
}
