package serving_test

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"go.uber.org/goleak"

	"github.com/fxccm/fxccm/ccm"
	"github.com/fxccm/fxccm/ccm/ccmtest"
	"github.com/fxccm/fxccm/ccm/serving"
	"github.com/fxccm/fxccm/ccm/serving/servingconfig"
	"github.com/fxccm/fxccm/internal/waittest"
)

// slow is a controller whose health check lasts until the test releases it.
type slow struct {
	asked   chan struct{} // receives a value for each check that has begun
	release chan struct{}
	ignores bool // the check continues after its caller has gone
	cut     chan error
}

func newSlow() *slow {
	return &slow{
		asked: make(chan struct{}, 10), release: make(chan struct{}),
		cut: make(chan error, 10),
	}
}

func (s *slow) Run(ctx context.Context) error {
	<-ctx.Done()
	return nil
}

func (s *slow) HealthCheck(r *http.Request) error {
	s.asked <- struct{}{}
	gone := r.Context().Done()
	if s.ignores {
		gone = nil
	}
	select {
	case <-s.release:
		return nil
	case <-gone:
		s.cut <- context.Cause(r.Context())
		return errors.New("cut off")
	}
}

func (s *slow) controller() ccm.Controller {
	return ccm.Controller{
		Name: "slow",
		New:  func(context.Context, *ccm.Term) (ccm.Runnable, error) { return s, nil },
	}
}

// serveSlow runs a Server whose /healthz lasts until the test releases it.
func serveSlow(t *testing.T, s *slow) *running {
	t.Helper()
	before := goleak.IgnoreCurrent()
	m := newManager(t, unreachable(), s.controller())
	ctx, cancel := cancelable(t)
	go func() { _ = m.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		<-m.Done()
		ccmtest.VerifyNoLeaks(t, before)
	})
	waittest.Until(t, "the Manager is ready", func() bool { return m.Status().Ready })
	return run(t, newServer(t, m, nil))
}

type outcome struct {
	answer answer
	err    error
}

func getAsync(c *http.Client, s *serving.Server, path string) <-chan outcome {
	result := make(chan outcome, 1)
	go func() {
		a, err := tryGet(c, s, path)
		result <- outcome{a, err}
	}()
	return result
}

func TestStop_RequestsInFlightEnd_AndConnectionsAreClosed(t *testing.T) {
	for _, protocol := range []struct {
		name   string
		change func(*http.Transport)
	}{
		{"HTTP/2", func(*http.Transport) {}},
		{"HTTP/1.1", func(tr *http.Transport) { tr.ForceAttemptHTTP2 = false }},
	} {
		t.Run(protocol.name, func(t *testing.T) {
			s := newSlow()
			r := serveSlow(t, s)
			addr := r.Addr().String()
			c, idle := client(t, nil), client(t, nil)
			protocol.change(c.Transport.(*http.Transport))
			protocol.change(idle.Transport.(*http.Transport))
			// keeps its connection open
			get(t, idle, r.Server, "/readyz").wants(t, http.StatusOK, "ok")
			inFlight := getAsync(c, r.Server, "/healthz")
			<-s.asked

			stopped := make(chan error, 1)
			go func() { stopped <- r.stop(t, nil) }()
			waittest.Until(t, "no new connection is accepted", func() bool {
				conn, err := net.Dial("tcp", addr)
				if err == nil {
					_ = conn.Close()
				}
				return err != nil
			})
			select {
			case err := <-stopped:
				t.Fatalf("Run returned while a request is in flight: %v", err)
			case <-time.After(100 * time.Millisecond):
			}
			close(s.release)
			if o := <-inFlight; o.err != nil || o.answer.StatusCode != http.StatusOK {
				t.Errorf("the request in flight ended with %v %+v", o.err, o.answer)
			}
			if err := <-stopped; err != nil {
				t.Errorf("Run: %v", err)
			}
		})
	}
}

func TestStop_RequestExceedsTheDeadline_IsCanceled(t *testing.T) {
	s := newSlow()
	r := serveSlow(t, s)
	inFlight := getAsync(client(t, nil), r.Server, "/healthz")
	<-s.asked
	begun := time.Now()
	if err := r.stop(t, ccm.StopBy(begun.Add(time.Second))); err != nil {
		t.Errorf("Run: %v", err)
	}
	if took := time.Since(begun); took < 500*time.Millisecond {
		t.Errorf("Run ended %s after the stop, want it to wait until shortly before the deadline of 1s", took)
	}
	select {
	case <-s.cut:
	case <-time.After(limit):
		t.Error("the request's context did not end")
	}
	// A handler may still respond with an error before its connection is closed.
	if o := <-inFlight; o.err == nil && o.answer.StatusCode == http.StatusOK {
		t.Errorf("the request was answered: %+v", o.answer)
	}
}

func TestStop_HandlerDoesNotEnd_ErrorNamesIt(t *testing.T) {
	s := newSlow()
	s.ignores = true
	r := serveSlow(t, s)
	inFlight := getAsync(client(t, nil), r.Server, "/healthz")
	<-s.asked
	err := r.stop(t, ccm.StopBy(time.Now().Add(500*time.Millisecond)))
	if err == nil || !strings.Contains(err.Error(), "GET /healthz") {
		t.Errorf("want an error that names GET /healthz, got %v", err)
	}
	close(s.release)
	<-inFlight
}

// http.Server.Shutdown waits five seconds for a connection that has sent nothing. A load balancer
// that only connects would delay each stop.
func TestStop_UnusedConnections_DoNotDelayIt(t *testing.T) {
	oneTakesLess(t, 5*time.Second, "the stop", func() time.Duration {
		r := serve(t, nil)
		silent, err := net.Dial("tcp", r.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		defer silent.Close()
		shaken, err := tls.Dial("tcp", r.Addr().String(), &tls.Config{InsecureSkipVerify: true})
		if err != nil {
			t.Fatal(err)
		}
		defer shaken.Close()
		begun := time.Now()
		if err := r.stop(t, nil); err != nil {
			t.Errorf("Run: %v", err)
		}
		r.result <- nil // for the cleanup
		return time.Since(begun)
	})
}

// oneTakesLess fails the test if each of five tries takes as long as the limit. On a busy machine
// some do.
func oneTakesLess(t *testing.T, limit time.Duration, what string, try func() time.Duration) {
	t.Helper()
	var all []time.Duration
	for range 5 {
		took := try()
		if took < limit {
			return
		}
		all = append(all, took)
	}
	t.Errorf("%s took %s, want less than %s", what, all, limit)
}

// onPort returns a configuration for the address.
func onPort(addr net.Addr) servingconfig.Config {
	cfg := servingconfig.Default()
	cfg.BindAddress, cfg.SecurePort = "127.0.0.1", addr.(*net.TCPAddr).Port
	return cfg
}

func TestRun_PortIsInUse_ErrorNamesTheAddressAndTheFlag(t *testing.T) {
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	before := goleak.IgnoreCurrent()
	s, err := serving.New(newManager(t, unreachable()), onPort(taken.Addr()),
		serving.WithLogger(logr.Discard()))
	if err != nil {
		t.Fatal(err)
	}
	err = s.Run(t.Context())
	ccmtest.VerifyNoLeaks(t, before)
	if err == nil {
		t.Fatal("Run returned no error although the port is in use")
	}
	for _, want := range []string{
		taken.Addr().String(), "--secure-port", "--bind-address",
		"in use",
	} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("the error lacks %q: %v", want, err)
		}
	}
}

func TestRun_CalledAgain_ServesUnlessAnotherCallRuns(t *testing.T) {
	before := goleak.IgnoreCurrent()
	s := newServer(t, newManager(t, unreachable()), nil)
	for range 3 {
		r := run(t, s)
		c := client(t, nil)
		get(t, c, s, "/healthz").wants(t, http.StatusOK, "ok")
		c.CloseIdleConnections()
		if err := s.Run(t.Context()); err == nil ||
			!strings.Contains(err.Error(), "already running") {
			t.Errorf("a second concurrent Run returned %v", err)
		}
		if err := r.stop(t, nil); err != nil {
			t.Errorf("Run: %v", err)
		}
		if s.Addr() != nil {
			t.Errorf("the stopped server still has the address %s", s.Addr())
		}
	}
	ccmtest.VerifyNoLeaks(t, before)
}

func TestRun_TwoServersInOneProcess_EachShowsItsConfiguration(t *testing.T) {
	for _, path := range []string{"/*", "/configz"} {
		s := serve(t, func(c *servingconfig.Config) {
			c.Authorization.AlwaysAllowPaths = []string{path}
		})
		get(t, client(t, nil), s.Server, "/configz").wants(t, http.StatusOK,
			fmt.Sprintf("%q", path))
	}
}

// Upstream's server panics when its listener fails.
func TestRun_ListenerFails_IsOpenedAgain(t *testing.T) {
	var mu sync.Mutex
	var opened []net.Listener
	refusals := 2
	listen := func(ctx context.Context) (net.Listener, error) {
		mu.Lock()
		defer mu.Unlock()
		if len(opened) == 1 && refusals > 0 {
			refusals--
			return nil, errors.New("no port available")
		}
		l, err := (&net.ListenConfig{}).Listen(ctx, "tcp", "127.0.0.1:0")
		opened = append(opened, l)
		return l, err
	}
	r := serve(t, nil, serving.WithListener(listen))
	get(t, client(t, nil), r.Server, "/healthz").wants(t, http.StatusOK, "ok")
	first := r.Addr().String()
	mu.Lock()
	_ = opened[0].Close()
	mu.Unlock()
	waittest.Until(t, "another listener is served", func() bool {
		a, err := tryGet(client(t, nil), r.Server, "/healthz")
		return r.Addr().String() != first && err == nil && a.StatusCode == http.StatusOK
	})
}

func TestRun_PortCannotBeOpenedAgain_StopEndsIt(t *testing.T) {
	var mu sync.Mutex
	var first net.Listener
	r := serve(t, nil, serving.WithListener(func(ctx context.Context) (net.Listener, error) {
		mu.Lock()
		defer mu.Unlock()
		if first != nil {
			return nil, errors.New("no port available")
		}
		var err error
		first, err = (&net.ListenConfig{}).Listen(ctx, "tcp", "127.0.0.1:0")
		return first, err
	}))
	mu.Lock()
	_ = first.Close()
	mu.Unlock()
	if err := r.stop(t, nil); err != nil {
		t.Errorf("Run: %v", err)
	}
	r.result <- nil // for the cleanup
}
