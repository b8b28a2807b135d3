package ccm_test

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/leaderelection/resourcelock"

	"github.com/fxccm/fxccm/ccm"
)

// elect starts the elector as a Manager does, and returns its result.
func elect(
	ctx context.Context, e ccm.Elector, lead func(context.Context, ccm.Grant) error,
) <-chan error {
	result := make(chan error, 1)
	go func() { result <- e.Elect(ctx, lead) }()
	return result
}

func TestHostElector_HostLeads_TermLastsAsLong(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := ccm.NewHostElector()
		began := make(chan struct{})
		result := elect(t.Context(), e, func(ctx context.Context, _ ccm.Grant) error {
			close(began)
			<-ctx.Done()
			time.Sleep(time.Minute) // the drain
			return context.Cause(ctx)
		})
		synctest.Wait()
		select {
		case <-began:
			t.Fatal("the term began before the host led")
		default:
		}
		host, lose := context.WithCancel(t.Context())
		lent := make(chan error, 1)
		go func() { lent <- e.Lead(host, ccm.Grant{}) }()
		<-began
		lose()
		synctest.Wait()
		select {
		case err := <-lent:
			t.Fatalf("Lead returned before the term had drained: %v", err)
		default:
		}
		if err := <-result; !errors.Is(err, ccm.ErrLeadershipLost) {
			t.Errorf("the term ended with %v, want ErrLeadershipLost", err)
		}
		if err := <-lent; err != nil {
			t.Errorf("Lead returned %v", err)
		}
	})
}

func TestHostElector_TermsFailWhileTheHostLeads_OtherTermsFollow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := ccm.NewHostElector()
		host, lose := context.WithCancel(t.Context())
		lent := make(chan error, 1)
		go func() { lent <- e.Lead(host, ccm.Grant{}) }()
		failure := errors.New("the API server is down")
		for range 3 {
			if err := <-elect(t.Context(), e,
				func(context.Context,
					ccm.Grant,
				) error {
					return failure
				}); !errors.Is(err, failure) {
				t.Fatalf("Elect returned %v", err)
			}
		}
		synctest.Wait()
		if err := e.Lead(host, ccm.Grant{}); err == nil {
			t.Error("a second concurrent Lead succeeded")
		}
		lose()
		if err := <-lent; err != nil {
			t.Errorf("Lead returned %v", err)
		}
		// The host may lead again.
		host, lose = context.WithCancel(t.Context())
		defer lose()
		go func() { lent <- e.Lead(host, ccm.Grant{}) }()
		if err := <-elect(t.Context(), e,
			func(context.Context, ccm.Grant) error { return failure }); !errors.Is(err, failure) {
			t.Errorf("Elect returned %v for the host's second leadership", err)
		}
		lose()
		<-lent
	})
}

func TestHostElector_DrainTimeout_LeadReturnsItAndTheLockIsNotReleased(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := ccm.NewHostElector()
		lock := e.Watch(&memoryLock{identity: "me"}, 15*time.Second, 10*time.Second)
		if err := e.Lead(t.Context(), ccm.Grant{}); err == nil ||
			!strings.Contains(err.Error(), "has not been written") {
			t.Errorf("Lead returned %v before the watched lock was written", err)
		}
		if err := lock.Create(t.Context(),
			resourcelock.LeaderElectionRecord{
				HolderIdentity: "me",
				RenewTime:      metav1.Now(),
			}); err != nil {
			t.Fatal(err)
		}
		lent := make(chan error, 1)
		go func() { lent <- e.Lead(t.Context(), ccm.Grant{}) }()
		want := &ccm.DrainTimeoutError{
			Term:    1,
			Running: []ccm.Activity{{Name: "call LoadBalancer.EnsureLoadBalancer", MayAct: true}},
		}
		<-elect(t.Context(), e, func(context.Context, ccm.Grant) error { return want })
		if err := <-lent; !errors.Is(err, want) {
			t.Errorf("Lead returned %v, want the DrainTimeoutError", err)
		}
		if err := lock.Update(t.Context(), resourcelock.LeaderElectionRecord{}); err == nil {
			t.Error("the lock was released although the term has not drained")
		}
	})
}

func TestHostElector_ManagerStops_ElectReturns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := ccm.NewHostElector()
		ctx, cancel := context.WithCancelCause(t.Context())
		result := elect(ctx, e, func(context.Context, ccm.Grant) error { return nil })
		synctest.Wait()
		cancel(ccm.ErrStopped)
		if err := <-result; !errors.Is(err, ccm.ErrStopped) {
			t.Errorf("Elect returned %v", err)
		}
	})
}

func TestHostElector_WatchedLock_LimitsLeadershipAndIsHeldUntilTheTermHasDrained(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := ccm.NewHostElector()
		inner := &memoryLock{identity: "me"}
		lock := e.Watch(inner, 15*time.Second, 10*time.Second)
		record := func() resourcelock.LeaderElectionRecord {
			return resourcelock.LeaderElectionRecord{HolderIdentity: "me", RenewTime: metav1.Now()}
		}
		if err := lock.Create(t.Context(), record()); err != nil {
			t.Fatal(err)
		}
		acquired := time.Now()
		host, lose := context.WithCancel(t.Context())
		lent := make(chan error, 1)
		go func() { lent <- e.Lead(host, ccm.Grant{}) }()
		result := elect(t.Context(), e, func(_ context.Context, g ccm.Grant) error {
			if until := g.ValidUntil(); until.Sub(acquired) != 12500*time.Millisecond {
				t.Errorf("leadership is valid for %s after the lock was taken, want 12.5 s",
					until.Sub(acquired))
			}
			if free := g.LeaseExpiry(); free.Sub(acquired) != 15*time.Second {
				t.Errorf("another process may lead %s after the lock was taken, want 15 s",
					free.Sub(acquired))
			}
			time.Sleep(300 * time.Millisecond)
			if err := lock.Update(t.Context(), record()); err != nil {
				t.Error(err)
			}
			if until := g.ValidUntil(); until.Sub(acquired) != 12500*time.Millisecond {
				t.Errorf(
					"a renewal within the same second, which other processes cannot see, made leadership valid for %s", until.Sub(acquired))
			}
			time.Sleep(1700 * time.Millisecond)
			if err := lock.Update(t.Context(), record()); err != nil {
				t.Error(err)
			}
			if until := g.ValidUntil(); until.Sub(acquired) != 14500*time.Millisecond {
				t.Errorf("after a renewal leadership is valid for %s, want 14.5 s",
					until.Sub(acquired))
			}
			if _, _, err := lock.Get(t.Context()); err != nil {
				t.Error(err)
			}
			if err := lock.Update(t.Context(), resourcelock.LeaderElectionRecord{}); err == nil {
				t.Error("the lock was released while the term runs")
			}
			return nil
		})
		<-result
		if s := e.ElectionStatus(); s.Identity != "me" || s.Leader != "me" ||
			s.LastRenewal.IsZero() {
			t.Errorf("status of the election: %+v", s)
		}
		lose()
		<-lent
		if err := lock.Update(t.Context(), resourcelock.LeaderElectionRecord{}); err != nil {
			t.Errorf("the lock could not be released when the term was over: %v", err)
		}
	})
}

func TestHostElector_AnotherProcessTakesTheWatchedLock_TermEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := ccm.NewHostElector()
		inner := &memoryLock{identity: "me"}
		lock := e.Watch(inner, 15*time.Second, 10*time.Second)
		if err := lock.Create(t.Context(),
			resourcelock.LeaderElectionRecord{
				HolderIdentity: "me",
				RenewTime:      metav1.Now(),
			}); err != nil {
			t.Fatal(err)
		}
		host, lose := context.WithCancel(t.Context())
		lent := make(chan error, 1)
		go func() { lent <- e.Lead(host, ccm.Grant{}) }()
		result := elect(t.Context(), e, func(ctx context.Context, _ ccm.Grant) error {
			<-ctx.Done()
			return context.Cause(ctx)
		})
		synctest.Wait()
		if err := inner.Update(t.Context(),
			resourcelock.LeaderElectionRecord{HolderIdentity: "another"}); err != nil {
			t.Fatal(err)
		}
		if _, _, err := lock.Get(t.Context()); err != nil {
			t.Fatal(err)
		}
		if err := <-result; !errors.Is(err, ccm.ErrLeadershipLost) ||
			!strings.Contains(err.Error(), `"another" has taken`) {
			t.Errorf("the term ended with %v", err)
		}
		// The host gets the lock back before its own election has noticed the loss.
		again := elect(t.Context(), e, func(context.Context, ccm.Grant) error { return nil })
		synctest.Wait()
		select {
		case <-again:
			t.Fatal("a term began while another process held the lock")
		default:
		}
		record := resourcelock.LeaderElectionRecord{HolderIdentity: "me", RenewTime: metav1.Now()}
		if err := lock.Update(t.Context(), record); err == nil {
			t.Fatal("the lock was taken from a holder that may still lead")
		}
		time.Sleep(15 * time.Second)
		record.RenewTime = metav1.Now()
		if err := lock.Update(t.Context(), record); err != nil {
			t.Fatal(err)
		}
		if err := <-again; err != nil {
			t.Errorf("the next term ended with %v", err)
		}
		lose()
		if err := <-lent; err != nil {
			t.Error(err)
		}
		// The host must not release the lock of another process.
		if err := inner.Update(t.Context(),
			resourcelock.LeaderElectionRecord{HolderIdentity: "another"}); err != nil {
			t.Fatal(err)
		}
		if _, _, err := lock.Get(t.Context()); err != nil {
			t.Fatal(err)
		}
		if err := lock.Update(t.Context(), resourcelock.LeaderElectionRecord{}); err == nil {
			t.Error("the lock was released although another process holds it")
		}
	})
}

func TestHostElector_HostLeadsThreeTimes_ManagerRunsThreeTerms(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := ccm.NewHostElector()
		p := standaloneParams("mine")
		p.Controllers = []ccm.Controller{idle("mine")}
		p.Elector = e
		m, stop := start(t, p)
		for round := uint64(1); round <= 3; round++ {
			host, lose := context.WithCancel(t.Context())
			lent := make(chan error, 1)
			go func() { lent <- e.Lead(host, ccm.Grant{}) }()
			eventually(t, m.Status, func(s ccm.Status) bool { return s.Ready && s.Term == round },
				"ready")
			lose()
			if err := <-lent; err != nil {
				t.Fatal(err)
			}
			eventually(t, m.Status, func(s ccm.Status) bool { return s.State == ccm.StateStandby },
				"standby")
		}
		_ = stop()
	})
}

// memoryLock is a lock in memory.
type memoryLock struct {
	identity string

	mu     sync.Mutex
	record resourcelock.LeaderElectionRecord
}

func (l *memoryLock) Get(context.Context) (*resourcelock.LeaderElectionRecord, []byte, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	record := l.record
	return &record, nil, nil
}

func (l *memoryLock) Create(_ context.Context, r resourcelock.LeaderElectionRecord) error {
	return l.Update(context.Background(), r)
}

func (l *memoryLock) Update(_ context.Context, r resourcelock.LeaderElectionRecord) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.record = r
	return nil
}
func (l *memoryLock) RecordEvent(string) {}
func (l *memoryLock) Identity() string   { return l.identity }
func (l *memoryLock) Describe() string   { return "memory" }
