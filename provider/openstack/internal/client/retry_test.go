package client

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/gophercloud/gophercloud/v2"
	clocktesting "k8s.io/utils/clock/testing"

	"github.com/fxccm/fxccm/internal/fence"
	"github.com/fxccm/fxccm/internal/waittest"
)

func TestRetryReason_EachResponse_IsRetriedOrNot(t *testing.T) {
	const (
		immutableLB = `{"faultcode": "Client", "faultstring": "Load Balancer 1 is immutable and cannot be updated.", "debuginfo": null}`
		inUse       = `{"NeutronError": {"type": "PortInUse", "message": "Unable to complete operation"}}`
	)
	status := func(code int, body string) func() (*http.Response, error) {
		return func() (*http.Response, error) {
			return &http.Response{
				StatusCode: code,
				Body:       io.NopCloser(bytes.NewBufferString(body)),
			}, nil
		}
	}
	failure := func(err error) func() (*http.Response, error) {
		return func() (*http.Response, error) { return nil, err }
	}
	dial := failure(fmt.Errorf("x: %w", &net.OpError{
		Op:  "dial",
		Err: errors.New("connection refused"),
	}))
	reset := failure(&net.OpError{Op: "read", Err: errors.New("connection reset by peer")})
	all := []string{"GET", "HEAD", "PUT", "DELETE", "POST", "PATCH"}
	repeatable := []string{"GET", "HEAD", "PUT", "DELETE"}
	for _, c := range []struct {
		name    string
		outcome func() (*http.Response, error)
		reason  string
		methods []string
	}{
		{"too many requests", status(429, ""), "429", all},
		{"unavailable", status(503, ""), "503", all},
		{"immutable", status(409, immutableLB), "409", all},
		{"another conflict", status(409, inUse), "", nil},
		{"internal error", status(500, ""), "500", []string{"GET", "HEAD"}},
		{"bad gateway", status(502, ""), "502", repeatable},
		{"gateway timeout", status(504, ""), "504", repeatable},
		{"no time", failure(&timeoutError{time.Second}), "timeout", repeatable},
		{"connection lost", reset, "connection", repeatable},
		{"no connection", dial, "connection", all},
		{"not found", status(404, ""), "", nil},
		{"unauthorized", status(401, ""), "", nil},
		{"forbidden", status(403, ""), "", nil},
		{"precondition failed", status(412, ""), "", nil},
		{"fine", status(200, "{}"), "", nil},
		{"refused by the fence", failure(fmt.Errorf("PUT refused: %w", fence.ErrClosed)), "", nil},
		{"closed", failure(ErrClosed), "", nil},
		{"caller gave up", failure(context.Canceled), "", nil},
		{"caller's time is over", failure(context.DeadlineExceeded), "", nil},
		{"not JSON", failure(&invalidResponse{"x"}), "", nil},
		{"certificate", failure(&tls.CertificateVerificationError{Err: errors.New("x")}), "", nil},
	} {
		for _, method := range all {
			req, _ := http.NewRequest(method, "http://x/v2.0/lbaas/loadbalancers/1", nil)
			want := ""
			if slices.Contains(c.methods, method) {
				want = c.reason
			}
			resp, err := c.outcome()
			if got := retryReason(req, resp, err); got != want {
				t.Errorf("%s %s: retried because of %q, want %q", method, c.name, got, want)
			}
			if resp != nil && resp.StatusCode == 409 {
				if body, _ := io.ReadAll(resp.Body); len(body) == 0 {
					t.Errorf("%s %s: the body cannot be read again", method, c.name)
				}
			}
		}
	}
	deletion, _ := http.NewRequestWithContext(withCall(t.Context(),
		call{service: serviceLoadBalancer}), "DELETE", "http://x/v2.0/lbaas/pools/1", nil)
	for _, c := range []struct {
		outcome func() (*http.Response, error)
		reason  string
	}{
		{status(502, ""), ""},
		{status(504, ""), ""},
		{reset, ""},
		{failure(&timeoutError{time.Second}), ""},
		{status(503, ""), "503"},
		{dial, "connection"},
	} {
		resp, err := c.outcome()
		if got := retryReason(deletion, resp, err); got != c.reason {
			t.Errorf("a deletion in a load balancer that ended with %s is made again because of "+
				"%q, want %q", outcome(resp, err), got, c.reason)
		}
	}
	failover, _ := http.NewRequest("PUT", "http://x/v2.0/lbaas/loadbalancers/1/failover", nil)
	if resp, err := reset(); retryReason(failover, resp, err) != "" {
		t.Error("a failover that may have begun is repeated")
	}
}

func TestBackoff_GrowsToItsLimit(t *testing.T) {
	for n, want := range map[int]time.Duration{
		0: time.Second, 1: 2 * time.Second,
		4: 16 * time.Second, 5: 30 * time.Second, 29: 30 * time.Second, 1000: 30 * time.Second,
	} {
		if got := backoff(time.Second, 30*time.Second, n, 1); got != want {
			t.Errorf("after %d: %s, want %s", n, got, want)
		}
		if got := backoff(time.Second, 30*time.Second, n, 0.25); got != want/4 {
			t.Errorf("a quarter after %d: %s, want %s", n, got, want/4)
		}
	}
}

// script returns its responses in turn, and then repeats the last one.
func script(answers ...http.HandlerFunc) http.HandlerFunc {
	var mu sync.Mutex
	n := 0
	return func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		handler := answers[min(n, len(answers)-1)]
		n++
		mu.Unlock()
		handler(w, r)
	}
}

func status(code int, header ...string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		for i := 0; i < len(header); i += 2 {
			w.Header().Set(header[i], header[i+1])
		}
		reply(w, code, map[string]any{"error": http.StatusText(code)})
	}
}

func immutableAnswer(w http.ResponseWriter, _ *http.Request) {
	reply(w, http.StatusConflict,
		map[string]any{"faultstring": "Load Balancer 1 is immutable and cannot be updated."})
}

func hangUp(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }

// OCCM stops at the first of these responses.
func TestRequest_TemporarilyRefused_IsRetried(t *testing.T) {
	s, cfg := newStub(t, script(immutableAnswer, status(429), status(503), status(201)))
	cfg.Client.MaxRetries = 3
	f := open(t, cfg)
	body := map[string]any{"listener": map[string]any{"name": "a"}}
	if err := send(within(t), f.Clients, "POST", "lbaas/listeners", body); err != nil {
		t.Fatal(err)
	}
	if got, want := f.observed.Retries(), []string{"409", "429", "503"}; !slices.Equal(got, want) {
		t.Errorf("retried because of %v, want %v", got, want)
	}
	for i, r := range s.seen("/listeners") {
		if want := `{"listener":{"name":"a"}}`; r.body != want {
			t.Errorf("attempt %d had the body %q, want %q", i, r.body, want)
		}
	}
	want := []string{
		"identity token_create 201", "network network_other 409",
		"network network_other 429", "network network_other 503", "network network_other 201",
	}
	if got := f.observed.Requests(); !slices.Equal(got, want) {
		t.Errorf("observed %v, want each attempt: %v", got, want)
	}
	if f.observed.inFlight != 0 {
		t.Errorf("%d requests are in flight", f.observed.inFlight)
	}
}

func TestRequest_AlwaysFails_EndsAfterMaxRetries(t *testing.T) {
	for _, retries := range []int{0, 3} {
		s, cfg := newStub(t, immutableAnswer)
		cfg.Client.MaxRetries = retries
		f := open(t, cfg)
		if err := send(within(t), f.Clients, "DELETE", "x", nil); !gophercloud.ResponseCodeIs(err,
			http.StatusConflict) {
			t.Errorf("got %v, want the conflict", err)
		}
		if n := s.count("/x"); n != 1+retries {
			t.Errorf("%d attempts, want 1 and %d retries", n, retries)
		}
	}
}

func TestRetryAfter_IsWaitedFor(t *testing.T) {
	clock := clocktesting.NewFakeClock(time.Now())
	s, cfg := newStub(t, script(status(503, "Retry-After", "20"), status(200)))
	f := open(t, cfg, func(o *Options) { o.Clock = clock })
	done := make(chan error, 1)
	go func() { done <- get(within(t), f.Clients, "ports") }()
	waittest.Until(t, "the request waits", clock.HasWaiters)
	start := clock.Now()
	advance(t, clock, time.Second, "the request has ended", func() bool { return len(done) == 1 })
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	if took := clock.Since(start); s.count("/ports") != 2 || took < 20*time.Second {
		t.Errorf("%d attempts in %s, want 2 in 20 s or more", s.count("/ports"), took)
	}
}

func TestRetryAfter_TooLong_IsReturnedToTheCaller(t *testing.T) {
	s, cfg := newStub(t, status(503, "Retry-After", "3600"))
	f := open(t, cfg)
	if err := get(within(t), f.Clients, "ports"); !gophercloud.ResponseCodeIs(err,
		http.StatusServiceUnavailable) {
		t.Errorf("got %v, want the refusal at once", err)
	}
	if n := s.count("/ports"); n != 1 {
		t.Errorf("%d attempts", n)
	}
}

func TestRetries_EndAfterAMinute(t *testing.T) {
	clock := clocktesting.NewFakeClock(time.Now())
	s, cfg := newStub(t, func(w http.ResponseWriter, r *http.Request) {
		clock.Step(25 * time.Second)
		status(503)(w, r)
	})
	cfg.Client.MaxRetries = 1000
	// The clock moves only when a request is sent, so each pause must be zero.
	f := open(t, cfg, func(o *Options) { o.Clock = clock })
	done := make(chan error, 1)
	go func() { done <- get(within(t), f.Clients, "ports") }()
	advance(t, clock, 0, "the request is given up", func() bool { return len(done) == 1 })
	if err := <-done; !gophercloud.ResponseCodeIs(err, http.StatusServiceUnavailable) {
		t.Errorf("got %v", err)
	}
	if n := s.count("/ports"); n != 3 {
		t.Errorf("%d attempts, want 3: at 0, 25 and 50 s", n)
	}
}

func TestPauseBeforeRetry_EndsWithTheCallersContext(t *testing.T) {
	clock := clocktesting.NewFakeClock(time.Now())
	s, cfg := newStub(t, status(503, "Retry-After", "20"))
	f := open(t, cfg, func(o *Options) { o.Clock = clock })
	ctx, cancel := context.WithCancel(within(t))
	done := make(chan error, 1)
	go func() { done <- get(ctx, f.Clients, "ports") }()
	waittest.Until(t, "the request waits", clock.HasWaiters)
	cancel()
	err := <-done
	if !errors.Is(err, context.Canceled) {
		t.Errorf("got %v, want the context's error", err)
	}
	if n := s.count("/ports"); n != 1 {
		t.Errorf("%d attempts", n)
	}
}

func TestConnection_ThatBreaks(t *testing.T) {
	for _, c := range []struct {
		method string
		times  int
		ok     bool
	}{{"GET", 2, true}, {"PUT", 2, true}, {"DELETE", 2, true}, {"POST", 1, false}} {
		t.Run(c.method, func(t *testing.T) {
			s, cfg := newStub(t, script(hangUp, status(200)))
			f := open(t, cfg)
			err := send(within(t), f.Clients, c.method, "things", map[string]any{"a": 1})
			if (err == nil) != c.ok {
				t.Errorf("got %v", err)
			}
			if n := s.count("/things"); n != c.times {
				t.Errorf("%d attempts, want %d", n, c.times)
			}
		})
	}
}

// A truncated response is neither used nor returned as if it were complete.
func TestResponse_Truncated_IsRetried(t *testing.T) {
	cut := func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Length", strconv.Itoa(1000))
		_, _ = w.Write([]byte(`{"servers": [{"id": "1"}`))
	}
	s, cfg := newStub(t, script(cut, status(200)))
	f := open(t, cfg)
	if err := get(within(t), f.Clients, "ports"); err != nil {
		t.Error(err)
	}
	if n := s.count("/ports"); n != 2 {
		t.Errorf("%d attempts, want 2", n)
	}

	_, cfg = newStub(t, cut)
	f = open(t, cfg)
	wantError(t, cfg, get(within(t), f.Clients, "ports"), "is truncated", "200 OK",
		"unexpected EOF")
}
