package election_test

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/leaderelection/resourcelock"

	"github.com/fxccm/fxccm/ccm"
	"github.com/fxccm/fxccm/ccm/election"
	"github.com/fxccm/fxccm/ccm/status"
)

// elect starts the elector as a Manager does, and returns its result.
func elect(
	ctx context.Context, e election.Elector, lead func(context.Context, election.Grant) error,
) <-chan error {
	result := make(chan error, 1)
	go func() { result <- e.Elect(ctx, lead) }()
	return result
}

func TestHost_HostLeads_TermLastsAsLong(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := election.NewHost()
		began := make(chan struct{})
		result := elect(t.Context(), e, func(ctx context.Context, _ election.Grant) error {
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
		go func() { lent <- e.Lead(host, election.Grant{}) }()
		<-began
		lose()
		synctest.Wait()
		select {
		case err := <-lent:
			t.Fatalf("Lead returned before the term had drained: %v", err)
		default:
		}
		if err := <-result; !errors.Is(err, election.ErrLost) {
			t.Errorf("the term ended with %v, want ErrLost", err)
		}
		if err := <-lent; err != nil {
			t.Errorf("Lead returned %v", err)
		}
	})
}

func TestHost_TermsFailWhileTheHostLeads_OtherTermsFollow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := election.NewHost()
		host, lose := context.WithCancel(t.Context())
		lent := make(chan error, 1)
		go func() { lent <- e.Lead(host, election.Grant{}) }()
		failure := errors.New("the API server is down")
		for range 3 {
			if err := <-elect(t.Context(), e,
				func(context.Context,
					election.Grant,
				) error {
					return failure
				}); !errors.Is(err, failure) {
				t.Fatalf("Elect returned %v", err)
			}
		}
		synctest.Wait()
		if err := e.Lead(host, election.Grant{}); err == nil {
			t.Error("a second concurrent Lead succeeded")
		}
		lose()
		if err := <-lent; err != nil {
			t.Errorf("Lead returned %v", err)
		}
		// The host may lead again.
		host, lose = context.WithCancel(t.Context())
		defer lose()
		go func() { lent <- e.Lead(host, election.Grant{}) }()
		fail := func(context.Context, election.Grant) error { return failure }
		if err := <-elect(t.Context(), e, fail); !errors.Is(err, failure) {
			t.Errorf("Elect returned %v for the host's second leadership", err)
		}
		lose()
		<-lent
	})
}

func TestHost_WatchWithWrongDurations_LeadReturnsAnError(t *testing.T) {
	for _, c := range [][2]time.Duration{
		{10 * time.Second, 15 * time.Second},
		{10 * time.Second, 10 * time.Second},
		{10 * time.Second, 0},
		{0, 0},
		{-time.Second, -2 * time.Second},
	} {
		e := election.NewHost()
		e.Watch(&memoryLock{identity: "me"}, c[0], c[1])
		if err := e.Lead(t.Context(), election.Grant{}); err == nil ||
			!strings.Contains(err.Error(), "Host.Watch") ||
			!strings.Contains(err.Error(), c[1].String()) {
			t.Errorf("Lead returned %v after Watch with %v", err, c)
		}
	}
}

func TestHost_DrainTimeout_LeadReturnsItAndTheLockIsNotReleased(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := election.NewHost()
		lock := e.Watch(&memoryLock{identity: "me"}, 15*time.Second, 10*time.Second)
		if err := e.Lead(t.Context(), election.Grant{}); err == nil ||
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
		go func() { lent <- e.Lead(t.Context(), election.Grant{}) }()
		want := &ccm.DrainTimeoutError{
			Term: 1,
			Running: []status.Activity{
				{Name: "call LoadBalancer.EnsureLoadBalancer", MayAct: true},
			},
		}
		<-elect(t.Context(), e, func(context.Context, election.Grant) error { return want })
		if err := <-lent; !errors.Is(err, want) {
			t.Errorf("Lead returned %v, want the DrainTimeoutError", err)
		}
		if err := lock.Update(t.Context(), resourcelock.LeaderElectionRecord{}); err == nil {
			t.Error("the lock was released although the term has not drained")
		}
	})
}

func TestHost_ManagerStops_ElectReturns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := election.NewHost()
		ctx, cancel := context.WithCancelCause(t.Context())
		result := elect(ctx, e, func(context.Context, election.Grant) error { return nil })
		synctest.Wait()
		cancel(ccm.ErrStopped)
		if err := <-result; !errors.Is(err, ccm.ErrStopped) {
			t.Errorf("Elect returned %v", err)
		}
	})
}

func TestHost_WatchedLock_LimitsLeadershipAndIsHeldUntilTheTermHasDrained(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := election.NewHost()
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
		go func() { lent <- e.Lead(host, election.Grant{}) }()
		result := elect(t.Context(), e, func(_ context.Context, g election.Grant) error {
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

func TestHost_AnotherProcessTakesTheWatchedLock_TermEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := election.NewHost()
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
		go func() { lent <- e.Lead(host, election.Grant{}) }()
		result := elect(t.Context(), e, func(ctx context.Context, _ election.Grant) error {
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
		if err := <-result; !errors.Is(err, election.ErrLost) ||
			!strings.Contains(err.Error(), `"another" has taken`) {
			t.Errorf("the term ended with %v", err)
		}
		// The host gets the lock back before its own election has noticed the loss.
		again := elect(t.Context(), e, func(context.Context, election.Grant) error { return nil })
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

func TestHost_TwoManagers_TheSecondIsRefused(t *testing.T) {
	e := election.NewHost()
	host, end := context.WithCancel(t.Context())
	lent, began := make(chan error, 1), make(chan struct{})
	first := elect(t.Context(), e, func(ctx context.Context, _ election.Grant) error {
		close(began)
		<-ctx.Done()
		return context.Cause(ctx)
	})
	go func() { lent <- e.Lead(host, election.Grant{}) }()
	<-began
	err := <-elect(t.Context(), e, func(context.Context, election.Grant) error { return nil })
	if err == nil || !strings.Contains(err.Error(), "another Manager uses this Host") {
		t.Errorf("the second Manager got %v", err)
	}
	end()
	if err := <-lent; err != nil {
		t.Error(err)
	}
	<-first
}

func TestNewLease_InvalidParams_AreNamedTogether(t *testing.T) {
	_, err := election.NewLease(election.LeaseParams{})
	for _, field := range []string{
		"LeaseParams.RESTConfig: Required", "leaderElection.identity: Required",
		"leaderElection.leaseDuration", "leaderElection.resourceName",
	} {
		if err == nil || !strings.Contains(err.Error(), field) {
			t.Errorf("the error does not name %s: %v", field, err)
		}
	}
}

func TestElect_APIServerRedirects_NoRequestLeavesIt(t *testing.T) {
	other := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		t.Errorf("a request arrived at the other server, with %q", r.Header.Get("Authorization"))
	}))
	defer other.Close()
	ctx, stop := context.WithTimeout(t.Context(), time.Minute)
	defer stop()
	requests := make(chan struct{}, 1000)
	api := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		http.Redirect(w, r, other.URL, http.StatusTemporaryRedirect)
		requests <- struct{}{}
	}))
	defer api.Close()
	cfg := ccm.DefaultConfig().LeaderElection
	cfg.Identity, cfg.RetryPeriod.Duration = "a", 50*time.Millisecond
	e, err := election.NewLease(election.LeaseParams{
		RESTConfig: &rest.Config{Host: api.URL, BearerToken: "t"}, Config: cfg,
	})
	if err != nil {
		t.Fatal(err)
	}
	result := elect(ctx, e, func(context.Context, election.Grant) error { return nil })
	for range 6 { // lists, watches and reads, of which the first ones have been followed or not
		select {
		case <-requests:
		case <-ctx.Done():
			t.Fatal("the elector does not ask")
		}
	}
	stop()
	<-result
}
