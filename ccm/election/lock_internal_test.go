package election

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
	clocktesting "k8s.io/utils/clock/testing"
)

// storedLease is a lease in memory. A nil record means that the lease does not exist.
type storedLease struct {
	identity string
	record   *resourcelock.LeaderElectionRecord
	// digest and token are the annotations of the lease, which leases has read.
	digest, token string
	leases        *provingLeases
}

var errNoLease = apierrors.NewNotFound(coordinationv1.Resource("leases"), "x")

func (l *storedLease) Get(context.Context) (*resourcelock.LeaderElectionRecord, []byte, error) {
	if l.record == nil {
		return nil, nil, errNoLease
	}
	record := *l.record
	if l.leases != nil {
		l.leases.read = leaseState{record, "", l.digest, l.token}
	}
	raw, err := json.Marshal(record)
	return &record, raw, err
}

func (l *storedLease) Create(ctx context.Context, r resourcelock.LeaderElectionRecord) error {
	if l.record != nil {
		return apierrors.NewAlreadyExists(coordinationv1.Resource("leases"), "x")
	}
	l.record = &r
	return nil
}

func (l *storedLease) Update(_ context.Context, r resourcelock.LeaderElectionRecord) error {
	if l.record == nil {
		return errNoLease
	}
	l.record = &r
	return nil
}
func (l *storedLease) RecordEvent(string) {}
func (l *storedLease) Identity() string   { return l.identity }
func (l *storedLease) Describe() string   { return "kube-system/x" }

// by returns a lease that a process has just renewed.
func by(identity string, seconds int, at time.Time) *resourcelock.LeaderElectionRecord {
	return &resourcelock.LeaderElectionRecord{
		HolderIdentity: identity, LeaseDurationSeconds: seconds,
		AcquireTime: metav1.NewTime(at.Add(-time.Minute)), RenewTime: metav1.NewTime(at),
	}
}

// released is the record of a lease that client-go has released.
func released(at time.Time) *resourcelock.LeaderElectionRecord {
	return &resourcelock.LeaderElectionRecord{
		LeaseDurationSeconds: 1, AcquireTime: metav1.NewTime(at), RenewTime: metav1.NewTime(at),
	}
}

// Only the process that published the digest can prove a release. A change of the digest does not
// shorten the wait for the holder that was seen before.
func TestLock_LeaseLooksReleased_IsFreeOnlyWithTheHoldersToken(t *testing.T) {
	begin := time.Unix(1_000_000, 0)
	leader := func(digest string, seconds int) leaseState {
		at := begin.Add(time.Duration(seconds) * time.Second)
		return leaseState{*by("leader", 15, at), "", digest, ""}
	}
	free := func(token string) leaseState {
		return leaseState{*released(begin), "", "", token}
	}
	mine, forged, other := digestOf("mine"), digestOf("forged"), digestOf("other")
	ghost := leaseState{*by("ghost", 15, begin), "", forged, ""}
	second := leaseState{*by("second", 15, begin), "", other, ""}
	// The standby cannot tell a repair from an edit that shortens the duration, so it waits for
	// twice its own lease duration after the edit.
	day := leaseState{*by("leader", 86400, begin.Add(time.Second)), "", mine, ""}
	for name, test := range map[string]struct {
		states []leaseState // a second apart
		wait   time.Duration
	}{
		"with the token":                {[]leaseState{leader(mine, 0), free("mine")}, 0},
		"after renewals":                {[]leaseState{leader(mine, 0), leader(mine, 1), leader(mine, 2), free("mine")}, 0},
		"without a token":               {[]leaseState{leader(mine, 0), free("")}, 15 * time.Second},
		"with another token":            {[]leaseState{leader(mine, 0), free("forged")}, 15 * time.Second},
		"with the digest as token":      {[]leaseState{leader(mine, 0), free(mine)}, 15 * time.Second},
		"of a holder without a digest":  {[]leaseState{leader("", 0), free("")}, 15 * time.Second},
		"digest replaced":               {[]leaseState{leader(mine, 0), leader(forged, 0), free("forged")}, 15 * time.Second},
		"digest and record replaced":    {[]leaseState{leader(mine, 0), leader(forged, 1), free("forged")}, 15 * time.Second},
		"digest replaced and restored":  {[]leaseState{leader(mine, 0), leader(forged, 0), leader(mine, 2), free("mine")}, 16 * time.Second},
		"digest removed":                {[]leaseState{leader(mine, 0), leader("", 0), free("")}, 16 * time.Second},
		"a ghost holds and releases it": {[]leaseState{leader(mine, 0), ghost, free("forged")}, 15 * time.Second},
		"a ghost and then the leader":   {[]leaseState{leader(mine, 0), ghost, leader(mine, 2), free("mine")}, 16 * time.Second},
		"digest replaced twice":         {[]leaseState{leader(mine, 0), leader(forged, 0), leader(other, 0), free("forged"), free("other")}, 16 * time.Second},
		"a momentary day":               {[]leaseState{leader(mine, 0), day, leader(mine, 2), free("")}, 31 * time.Second},
		"two ghosts hold and release":   {[]leaseState{leader(mine, 0), ghost, second, free("forged"), free("other")}, 16 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			clock := clocktesting.NewFakePassiveClock(begin)
			record := &leaseRecord{clock: clock, status: Status{Identity: "standby"}}
			for i, state := range test.states {
				clock.SetTime(begin.Add(time.Duration(i) * time.Second))
				record.observeState(state, 15*time.Second, clock.Now())
			}
			got := time.Duration(0)
			if record.snapshot().WaitsFor != "" {
				got = record.snapshot().WaitsUntil.Sub(begin)
			}
			if got != test.wait {
				t.Errorf("the standby waits for %s after the first state, want %s", got,
					test.wait)
			}
			// Time alone always frees the lease.
			clock.SetTime(begin.Add(test.wait))
			if live, ok := record.liveRecord(); ok {
				t.Errorf("%q may still lead", live.HolderIdentity)
			}
		})
	}
}

// Another client writes the leader's earlier record over its renewal, before a standby has seen the
// renewal.
func TestLock_RenewalIsOverwrittenWithTheEarlierRecord_StandbyWaitsFromThen(t *testing.T) {
	begin := time.Unix(1_000_000, 0)
	clock := clocktesting.NewFakePassiveClock(begin)
	record := &leaseRecord{clock: clock, status: Status{Identity: "standby"}}
	for i, version := range []string{"1", "1", "3", "3"} {
		clock.SetTime(begin.Add(time.Duration(i) * 4 * time.Second))
		record.observeState(leaseState{
			*by("leader", 15, begin), version, digestOf("mine"), "",
		}, 15*time.Second, clock.Now())
	}
	if got, want := record.snapshot().WaitsUntil, begin.Add((8+15)*time.Second); !got.Equal(want) {
		t.Errorf("the standby waits until %s, want %s", got, want)
	}
}

// Another client writes a record without the leader over each of its renewals, before a standby has
// seen the renewal. The standby must not lead beside it.
func TestLock_RenewalsAreOverwrittenWithoutTheHolder_StandbyWaitsFromTheLastVersion(t *testing.T) {
	begin := time.Unix(1_000_000, 0)
	mine, forged := digestOf("mine"), digestOf("forged")
	leader := func(digest string) leaseState {
		return leaseState{*by("leader", 15, begin), "", digest, ""}
	}
	free := func(token string) leaseState { return leaseState{*released(begin), "", "", token} }
	standby := leaseState{*by("standby", 15, begin), "", "", ""}
	for name, states := range map[string][]leaseState{
		"released":            {leader(mine), free(""), free(""), free(""), free(""), free("")},
		"in the name of self": {leader(mine), standby, standby, standby, standby, standby},
		"by a forged digest": {
			leader(mine), leader(forged), free("forged"), free(""), free(""), free(""),
		},
		"by forged digests": {
			leader(mine), leader(forged), free("forged"), leader(forged), free("forged"),
			leader(forged), free("forged"), leader(forged), free("forged"),
		},
	} {
		t.Run(name, func(t *testing.T) {
			clock := clocktesting.NewFakePassiveClock(begin)
			record := &leaseRecord{clock: clock, status: Status{Identity: "standby"}}
			for i, state := range states {
				state.version = fmt.Sprint(2 * i) // the leader has written the others
				clock.SetTime(begin.Add(time.Duration(i) * 4 * time.Second))
				for range 2 { // a version is seen more than once
					record.observeState(state, 15*time.Second, clock.Now())
				}
				if record.liveHolder() == nil {
					t.Fatalf("after %d states the standby may take the lease", i+1)
				}
			}
			last := clock.Now()
			clock.SetTime(last.Add(14 * time.Second))
			record.observeState(leaseState{version: record.version}, 15*time.Second, clock.Now())
			if record.liveHolder() == nil {
				t.Error("the standby waits for less than a lease duration after the last version")
			}
			clock.SetTime(last.Add(15 * time.Second))
			if live := record.liveHolder(); live != nil {
				t.Errorf("%q may still lead", live.record.HolderIdentity)
			}
		})
	}
}

// A standby that has waited long enough may take the lease, whatever others write then.
func TestLock_LeaseIsEditedAfterTheWait_StandbyWaitsNoLonger(t *testing.T) {
	begin := time.Unix(1_000_000, 0)
	clock := clocktesting.NewFakePassiveClock(begin)
	record := &leaseRecord{clock: clock, status: Status{Identity: "standby"}}
	record.observeState(leaseState{*by("leader", 15, begin), "1", "", ""}, 15*time.Second, begin)
	clock.SetTime(begin.Add(15 * time.Second))
	record.observeState(leaseState{*by("standby", 15, begin), "2", "", ""}, 15*time.Second,
		clock.Now())
	if live := record.liveHolder(); live != nil {
		t.Errorf("%q may still lead", live.record.HolderIdentity)
	}
}

// A standby waits for the lease duration of a holder that it has seen, even if the lease is deleted
// or edited by hand.
func TestLock_LeaseDeletedOrEdited_StandbyWaitsForTheLastHolder(t *testing.T) {
	begin := time.Unix(1_000_000, 0)
	type leaderRecord = resourcelock.LeaderElectionRecord
	edited := func(edit func(*leaderRecord)) *leaderRecord {
		record := *by("leader", 15, begin)
		edit(&record)
		return &record
	}
	for name, test := range map[string]struct {
		after *resourcelock.LeaderElectionRecord
		// free is the time from the last seen renewal until the standby may take the lease. The
		// change follows after 5 s, and counts as a renewal if it names a holder.
		free time.Duration
	}{
		"deleted":        {nil, 15 * time.Second},
		"looks released": {released(begin), 15 * time.Second},
		"other holder, a day": {edited(func(r *resourcelock.LeaderElectionRecord) {
			r.HolderIdentity, r.LeaseDurationSeconds = "ghost", 86400
		}), 25 * time.Second},
		"longer": {edited(func(r *resourcelock.LeaderElectionRecord) { r.LeaseDurationSeconds = 86400 }), 25 * time.Second},
		"longer, renewed": {edited(func(r *resourcelock.LeaderElectionRecord) {
			r.LeaseDurationSeconds, r.RenewTime = 86400, metav1.NewTime(begin.Add(time.Second))
		}), 25 * time.Second},
		"holder removed": {edited(func(r *resourcelock.LeaderElectionRecord) { r.HolderIdentity = "" }), 15 * time.Second},
		"names standby":  {edited(func(r *resourcelock.LeaderElectionRecord) { r.HolderIdentity = "standby" }), 15 * time.Second},
		"other holder":   {edited(func(r *resourcelock.LeaderElectionRecord) { r.HolderIdentity = "ghost" }), 20 * time.Second},
		"shorter":        {edited(func(r *resourcelock.LeaderElectionRecord) { r.LeaseDurationSeconds = 1 }), 15 * time.Second},
		"in the past": {edited(func(r *resourcelock.LeaderElectionRecord) {
			r.RenewTime, r.AcquireTime = metav1.NewTime(time.Unix(0,
				0)), metav1.NewTime(time.Unix(0, 0))
		}), 20 * time.Second},
		"emptied": {&resourcelock.LeaderElectionRecord{}, 15 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			clock := clocktesting.NewFakePassiveClock(begin)
			lease := &storedLease{identity: "standby", record: by("leader", 15, begin)}
			lock := &watchedLock{
				Interface: lease, duration: 10 * time.Second,
				record: &leaseRecord{clock: clock, status: Status{Identity: "standby"}},
			}
			if _, _, err := lock.Get(t.Context()); err != nil {
				t.Fatal(err)
			}
			clock.SetTime(begin.Add(5 * time.Second))
			lease.record = test.after
			mine := by("standby", 10, begin)
			take := func() error {
				seen, _, err := lock.Get(t.Context())
				if apierrors.IsNotFound(err) {
					return lock.Create(t.Context(), *mine)
				}
				if err != nil {
					return err
				}
				if seen.HolderIdentity == "standby" && lock.record.liveHolder() != nil {
					t.Errorf("Get shows the standby as the holder: %+v", seen)
				}
				return lock.Update(t.Context(), *mine)
			}
			if wait := test.free - 5*time.Second; wait > 0 {
				if err := take(); err == nil {
					t.Fatal("taken at once")
				}
				clock.SetTime(clock.Now().Add(wait - time.Millisecond))
				if err := take(); err == nil {
					t.Fatal("taken before the holder's lease duration was over")
				}
				clock.SetTime(clock.Now().Add(time.Millisecond))
			}
			if err := take(); err != nil {
				t.Errorf("not taken when the holder's lease duration was over: %v", err)
			}
			if !lock.isHeld() {
				t.Error("not held")
			}
		})
	}
}

// The host may have seen the expiry before the campaign begins. client-go's elector alone would
// wait for a lease duration from its first request.
func TestLock_LeaseExpiredBeforeTheCampaign_IsFreeAtTheFirstRequest(t *testing.T) {
	begin := time.Unix(1_000_000, 0)
	for name, test := range map[string]struct {
		now  time.Duration
		read *resourcelock.LeaderElectionRecord
		free bool
	}{
		"expired":                  {15 * time.Second, by("leader", 15, begin), true},
		"valid":                    {15*time.Second - 1, by("leader", 15, begin), false},
		"renewed, which is unseen": {time.Hour, by("leader", 15, begin.Add(time.Second)), false},
		"other holder, unseen":     {time.Hour, by("ghost", 15, begin), false},
	} {
		t.Run(name, func(t *testing.T) {
			clock := clocktesting.NewFakePassiveClock(begin.Add(test.now))
			record := &leaseRecord{clock: clock, status: Status{Identity: "standby"}}
			record.observeState(leaseState{record: *by("leader", 15, begin)}, 10*time.Second, begin)
			lease := &storedLease{identity: "standby", record: test.read}
			lock := &watchedLock{Interface: lease, duration: 10 * time.Second, record: record}
			seen, _, err := lock.Get(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			if free := seen.HolderIdentity == ""; free != test.free {
				t.Errorf("the holder is %q, want a free lease: %v", seen.HolderIdentity, test.free)
			}
			err = lock.Update(t.Context(), *by("standby", 10, begin))
			if (err == nil) != test.free {
				t.Errorf("the standby takes the lease: %v, want success: %v", err, test.free)
			}
		})
	}
}

// The leader restores its lease after a deletion or an edit. It loses the lease to another holder.
func TestLock_Restore_WritesTheLeaseUnlessAnotherProcessHoldsIt(t *testing.T) {
	now := time.Unix(1_000_000, 0)
	type leaderRecord = resourcelock.LeaderElectionRecord
	edited := func(edit func(*leaderRecord)) *leaderRecord {
		record := *by("leader", 15, now)
		edit(&record)
		return &record
	}
	for name, test := range map[string]struct {
		after *resourcelock.LeaderElectionRecord
		lost  bool
	}{
		"deleted":        {nil, false},
		"holder removed": {edited(func(r *resourcelock.LeaderElectionRecord) { r.HolderIdentity = "" }), false},
		"shorter":        {edited(func(r *resourcelock.LeaderElectionRecord) { r.LeaseDurationSeconds = 1 }), false},
		"other holder":   {edited(func(r *resourcelock.LeaderElectionRecord) { r.HolderIdentity = "ghost" }), true},
	} {
		t.Run(name, func(t *testing.T) {
			clock := clocktesting.NewFakePassiveClock(now)
			lease := &storedLease{identity: "leader"}
			taken := ""
			lock := &watchedLock{
				Interface: lease, duration: 15 * time.Second, onLost: func(holder string) {
					taken = holder
				},
				record: &leaseRecord{clock: clock, status: Status{Identity: "leader"}},
			}
			if err := lock.Create(t.Context(), *by("leader", 15, now)); err != nil {
				t.Fatal(err)
			}
			lease.record = test.after
			clock.SetTime(now.Add(time.Second))
			if err := lock.restore(t.Context()); err != nil {
				t.Fatal(err)
			}
			if test.lost {
				if taken != "ghost" || lease.record.HolderIdentity != "ghost" {
					t.Errorf("taken by %q, the lease is %+v", taken, lease.record)
				}
				// client-go's elector continues to renew while the term drains.
				if err := lock.Update(t.Context(), *by("leader", 15, now)); err == nil {
					t.Error("the lease was taken back from a process that may lead")
				}
				return
			}
			if r := lease.record; taken != "" || r == nil || r.HolderIdentity != "leader" ||
				r.LeaseDurationSeconds != 15 || !r.RenewTime.Time.Equal(clock.Now()) {
				t.Errorf("taken by %q, the lease is %+v", taken, r)
			}
		})
	}
}

// A timeout of a lease request resets the connections.
func TestLock_RequestTimesOut_ConnectionsAreReset(t *testing.T) {
	resets := 0
	lock := &watchedLock{
		Interface: failingLock{&storedLease{identity: "me"}}, onTimeout: func() { resets++ },
		record: &leaseRecord{clock: clocktesting.NewFakePassiveClock(time.Now())},
	}
	if _, _, err := lock.Get(t.Context()); !errors.Is(err, context.DeadlineExceeded) ||
		resets != 1 {
		t.Errorf("%d resets after %v", resets, err)
	}
}

type failingLock struct{ *storedLease }

func (failingLock) Get(context.Context) (*resourcelock.LeaderElectionRecord, []byte, error) {
	return nil, nil, context.DeadlineExceeded
}
