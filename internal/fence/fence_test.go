package fence_test

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
	"unsafe"

	"go.uber.org/goleak"
	"k8s.io/utils/clock"
	clocktesting "k8s.io/utils/clock/testing"

	"github.com/fxccm/fxccm/internal/fence"
	"github.com/fxccm/fxccm/internal/inflight"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func change(name string) inflight.Activity { return inflight.Activity{Name: name, MayAct: true} }

var errLost = errors.New("the lease went away")

func TestClose_OpenFence_RefusesNewCallsAndCancelsThoseInFlight(t *testing.T) {
	f := fence.New(nil, clock.RealClock{})
	ctx, done, err := f.Enter(t.Context(), change("create"))
	if err != nil {
		t.Fatal(err)
	}
	if got := f.InFlight(); len(got) != 1 || got[0].Name != "create" || got[0].Since.IsZero() {
		t.Errorf("in flight: %v", got)
	}
	f.Close(errLost)
	<-ctx.Done()
	if cause := context.Cause(ctx); !errors.Is(cause, errLost) ||
		!errors.Is(cause, fence.ErrClosed) {
		t.Errorf("call in flight was canceled because of %v", cause)
	}
	if _, _, err := f.Enter(t.Context(), change("delete")); !errors.Is(err, fence.ErrClosed) ||
		!strings.Contains(err.Error(), "delete refused") {
		t.Errorf("new call got %v, want a refusal that names it", err)
	}
	done()
	if got := f.InFlight(); len(got) != 0 {
		t.Errorf("in flight after done: %v", got)
	}
}

// Upstream passes context.TODO() to UpdateLoadBalancer. The close of the fence must cancel that
// call, too.
func TestEnter_CallersContextEnds_EndsTheCallsContext(t *testing.T) {
	f := fence.New(nil, clock.RealClock{})
	type key struct{}
	caller, cancel := context.WithCancel(context.WithValue(context.Background(), key{}, "v"))
	ctx, done, err := f.Enter(caller, change("update"))
	if err != nil {
		t.Fatal(err)
	}
	defer done()
	if ctx.Value(key{}) != "v" {
		t.Error("the context lacks the caller's values")
	}
	cancel()
	<-ctx.Done()
	if !errors.Is(ctx.Err(), context.Canceled) {
		t.Errorf("the context ended with %v", ctx.Err())
	}
}

// A process that was frozen past its lease must not act when it continues, even before its elector
// notices the loss.
func TestEnter_LeadershipHasExpiredByTheClock_IsRefused(t *testing.T) {
	now := clocktesting.NewFakeClock(time.Unix(1000, 0))
	until := now.Now().Add(10 * time.Second)
	f := fence.New(func() time.Time { return until }, now)
	ctx, done, err := f.Enter(t.Context(), change("first"))
	if err != nil {
		t.Fatal(err)
	}
	now.Step(time.Minute)
	if _, _, err := f.Enter(t.Context(), change("second")); !errors.Is(err, fence.ErrClosed) {
		t.Errorf("got %v, want a refusal", err)
	}
	<-ctx.Done()
	done()
	until = now.Now().Add(time.Hour)
	if _, _, err := f.Enter(t.Context(), change("third")); !errors.Is(err, fence.ErrClosed) {
		t.Errorf("the closed fence admitted a call after a renewal: %v", err)
	}
}

// suspended is the clock of a machine that was suspended: the wall clock continued, and the
// monotonic clock stopped.
type suspended struct {
	clock.RealClock
	slept time.Duration
}

func (s suspended) Now() time.Time {
	now := time.Now().Add(s.slept)
	// No function changes only one of a Time's clocks. The second word is the monotonic clock.
	(*[2]int64)(unsafe.Pointer(&now))[1] -= int64(s.slept)
	return now
}

func TestEnter_MachineWasSuspendedPastTheLease_IsRefused(t *testing.T) {
	until := time.Now().Add(10 * time.Second)
	expiry := func() time.Time { return until }
	if left := until.Sub(suspended{slept: time.Minute}.Now()); left < 9*time.Second {
		t.Fatalf("the test's clock is wrong: %s are left by its monotonic part", left)
	}
	if _, done, err := fence.New(expiry, suspended{slept: 9 * time.Second}).Enter(t.Context(),
		change("in time")); err != nil {
		t.Error(err)
	} else {
		done()
	}
	if _, _, err := fence.New(expiry, suspended{slept: time.Minute}).Enter(t.Context(),
		change("late")); !errors.Is(err, fence.ErrClosed) {
		t.Errorf("got %v, want a refusal", err)
	}
}

func TestCloseOnExpiry_LeadershipIsNotRenewed_CancelsCallsInFlight(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var renewed atomic.Pointer[time.Time]
		renew := func() { now := time.Now(); renewed.Store(&now) }
		renew()
		f := fence.New(func() time.Time { return renewed.Load().Add(10 * time.Second) },
			clock.RealClock{})
		go f.CloseOnExpiry(t.Context())
		ctx, done, err := f.Enter(t.Context(), change("slow"))
		if err != nil {
			t.Fatal(err)
		}
		defer done()
		time.Sleep(8 * time.Second)
		renew()
		time.Sleep(8 * time.Second)
		synctest.Wait()
		if ctx.Err() != nil {
			t.Fatalf("canceled although leadership was renewed: %v", context.Cause(ctx))
		}
		time.Sleep(3 * time.Second)
		synctest.Wait()
		if !errors.Is(context.Cause(ctx), fence.ErrClosed) ||
			!errors.Is(f.Cause(), fence.ErrClosed) {
			t.Errorf("not canceled 11 s after the last renewal: %v", context.Cause(ctx))
		}
	})
}

// A call that finds leadership expired closes the fence, and the elector renews a moment later.
func TestCloseOnExpiry_RenewedAfterACallHasSeenTheExpiry_ReturnsTrue(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var until atomic.Pointer[time.Time]
		leadUntil := func(at time.Time) { until.Store(&at) }
		leadUntil(time.Now().Add(time.Hour))
		f := fence.New(func() time.Time { return *until.Load() }, clock.RealClock{})
		expired := make(chan bool, 1)
		go func() { expired <- f.CloseOnExpiry(t.Context()) }()
		synctest.Wait()
		leadUntil(time.Now())
		if _, _, err := f.Enter(t.Context(), change("late")); !errors.Is(err, fence.ErrClosed) {
			t.Fatalf("got %v, want a refusal", err)
		}
		leadUntil(time.Now().Add(time.Hour))
		synctest.Wait()
		select {
		case got := <-expired:
			if !got {
				t.Error("CloseOnExpiry returned false, want true")
			}
		default:
			t.Error("CloseOnExpiry has not returned although leadership expired")
		}
	})
}

func TestCloseOnExpiry_LeadershipHasExpiredAlready_ClosesAtOnce(t *testing.T) {
	now := clocktesting.NewFakeClock(time.Now())
	until := now.Now().Add(-time.Second)
	f := fence.New(func() time.Time { return until }, now)
	f.CloseOnExpiry(t.Context())
	if f.Cause() == nil {
		t.Error("the fence is open although leadership expired a second ago")
	}
}

func TestHold_NewWorkWaitsWhileWorkInFlightFinishes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := fence.New(nil, clock.RealClock{})
		_, ensured, err := f.EnterWhenOpen(t.Context(), change("ensure"))
		if err != nil {
			t.Fatal(err)
		}
		f.Hold()
		waited := make(chan error, 1)
		go func() {
			_, _, err := f.EnterWhenOpen(t.Context(), change("next"))
			waited <- err
		}()
		quiet := make(chan error, 1)
		go func() { quiet <- f.WaitQuiet(t.Context(), 100*time.Millisecond) }()
		synctest.Wait()
		select {
		case err := <-waited:
			t.Fatalf("new work did not wait: %v", err)
		case <-quiet:
			t.Fatal("WaitQuiet returned while a call is in flight")
		default:
		}
		// The work in flight makes its second call.
		ensured()
		time.Sleep(50 * time.Millisecond)
		_, patched, err := f.Enter(t.Context(), change("patch status"))
		if err != nil {
			t.Fatalf("work in flight could not finish: %v", err)
		}
		synctest.Wait()
		patched()
		if err := <-quiet; err != nil {
			t.Fatal(err)
		}
		f.Close(errLost)
		if err := <-waited; !errors.Is(err, fence.ErrClosed) {
			t.Errorf("held call got %v, want a refusal", err)
		}
	})
}

func TestEnterWhenOpen_HeldCallsContextEnds_Returns(t *testing.T) {
	f := fence.New(nil, clock.RealClock{})
	f.Hold()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, _, err := f.EnterWhenOpen(ctx, change("x")); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
	f.Close(errLost)
}

func TestTransport_AfterClose_ReadsPassAndWritesAreRefused(t *testing.T) {
	var reached []string
	server := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		reached = append(reached, r.Method)
	}))
	defer server.Close()
	base := &http.Transport{}
	defer base.CloseIdleConnections()
	f := fence.New(nil, clock.RealClock{})
	client := &http.Client{Transport: f.Transport(base)}
	send := func(method string) error {
		req, err := http.NewRequestWithContext(t.Context(), method, server.URL+"/nodes/a",
			strings.NewReader("{}"))
		if err != nil {
			t.Fatal(err)
		}
		resp, err := client.Do(req)
		if err == nil {
			_, _ = io.Copy(io.Discard, resp.Body)
			_ = resp.Body.Close()
		}
		return err
	}
	if err := send(http.MethodPatch); err != nil {
		t.Fatal(err)
	}
	if n := f.InFlight(); len(n) != 0 {
		t.Errorf("in flight after the response was read: %v", n)
	}
	f.Close(errLost)
	for _, method := range []string{
		http.MethodPost, http.MethodPut, http.MethodPatch,
		http.MethodDelete,
	} {
		if err := send(method); !errors.Is(err, fence.ErrClosed) {
			t.Errorf("%s after close: %v, want a refusal", method, err)
		}
	}
	if err := send(http.MethodGet); err != nil {
		t.Errorf("GET after close: %v", err)
	}
	f.EndReads(errLost)
	if err := send(http.MethodGet); !errors.Is(err, fence.ErrClosed) || !errors.Is(err, errLost) {
		t.Errorf("GET after the end of reads: %v, want a refusal", err)
	}
	if want := []string{"PATCH", "GET"}; !slices.Equal(reached, want) {
		t.Errorf("the server received %v, want %v", reached, want)
	}
}

func TestTransport_CloseWithARequestInFlight_CancelsIt(t *testing.T) {
	arrived := make(chan struct{})
	server := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		close(arrived)
		<-r.Context().Done()
	}))
	defer server.Close()
	base := &http.Transport{}
	defer base.CloseIdleConnections()
	f := fence.New(nil, clock.RealClock{})
	result := make(chan error, 1)
	go func() {
		_, err := (&http.Client{Transport: f.Transport(base)}).Post(server.URL, "text/plain", nil)
		result <- err
	}()
	receive(t, arrived)
	f.Close(errLost)
	if err := receive(t, result); !errors.Is(err, errLost) {
		t.Errorf("request in flight ended with %v, want the reason of the close", err)
	}
	if err := f.WaitQuiet(t.Context(), 0); err != nil {
		t.Error(err)
	}
}

// The end of a term closes connections, which may reach a request before its cancellation does.
func TestTransport_ConnectionIsClosedWithTheTerm_ErrorIsTheReasonOfTheClose(t *testing.T) {
	for _, method := range []string{http.MethodGet, http.MethodPatch} {
		f := fence.New(nil, clock.RealClock{})
		closing := roundTripper(func(*http.Request) (*http.Response, error) {
			f.EndReads(errLost)
			return nil, net.ErrClosed
		})
		req, err := http.NewRequestWithContext(t.Context(), method, "http://127.0.0.1/", nil)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := f.Transport(closing).RoundTrip(req); !errors.Is(err, fence.ErrClosed) ||
			!errors.Is(err, errLost) {
			t.Errorf("%s ended with %v, want the reason of the close", method, err)
		}
	}
}

type roundTripper func(*http.Request) (*http.Response, error)

// RoundTrip implements http.RoundTripper.
func (f roundTripper) RoundTrip(req *http.Request) (*http.Response, error) { return f(req) }

// Upstream reads with context.TODO(). If the connection stays open without an answer, the read
// would delay the end of its goroutine, and of the term, for minutes.
func TestTransport_EndReads_EndsReadsAndTheirBodies(t *testing.T) {
	for name, answers := range map[string]bool{"no answer": false, "a body that stays open": true} {
		t.Run(name, func(t *testing.T) {
			arrived := make(chan struct{})
			server := httptest.NewServer(
				http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
					if answers {
						w.WriteHeader(http.StatusOK)
						_ = http.NewResponseController(w).Flush()
					}
					close(arrived)
					<-r.Context().Done()
				}))
			defer server.Close()
			base := &http.Transport{}
			defer base.CloseIdleConnections()
			f := fence.New(nil, clock.RealClock{})
			result := make(chan error, 1)
			go func() {
				resp, err := (&http.Client{Transport: f.Transport(base)}).Get(server.URL)
				if err == nil {
					_, err = io.Copy(io.Discard, resp.Body)
					_ = resp.Body.Close()
				}
				result <- err
			}()
			receive(t, arrived)
			if n := f.InFlight(); len(n) != 0 {
				t.Errorf("a read counts as in flight: %v", n)
			}
			f.Close(errLost)
			select {
			case err := <-result:
				t.Fatalf("the read ended with the close: %v", err)
			case <-time.After(20 * time.Millisecond):
			}
			f.EndReads(errLost)
			if err := receive(t, result); !errors.Is(err, errLost) {
				t.Errorf("the read ended with %v, want the reason of the end", err)
			}
		})
	}
}

func TestWaitActing_CallThatOnlyReads_DoesNotWait(t *testing.T) {
	f := fence.New(nil, clock.RealClock{})
	_, done, err := f.Enter(t.Context(), inflight.Activity{Name: "read"})
	if err != nil {
		t.Fatal(err)
	}
	if err := f.WaitActing(t.Context()); err != nil {
		t.Error(err)
	}
	quiet, cancel := context.WithCancel(t.Context())
	cancel()
	if err := f.WaitQuiet(quiet, 0); err == nil {
		t.Error("WaitQuiet returned although a read is in flight")
	}
	done()
}

// receive fails the test if nothing arrives within a minute.
func receive[T any](t *testing.T, from <-chan T) (value T) {
	t.Helper()
	select {
	case value = <-from:
	case <-time.After(time.Minute):
		t.Fatal("no value arrived within a minute")
	}
	return value
}
