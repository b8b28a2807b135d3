package client

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-logr/logr/funcr"
	"github.com/gophercloud/gophercloud/v2"
	clocktesting "k8s.io/utils/clock/testing"

	"github.com/fxccm/fxccm/internal/waittest"
	"github.com/fxccm/fxccm/provider/internal/kit/ratelimit"
)

// hang delays responses until the client disconnects, or the test ends.
func hang(t *testing.T, before func(http.ResponseWriter)) http.HandlerFunc {
	t.Helper()
	end := make(chan struct{})
	t.Cleanup(func() { close(end) })
	return func(w http.ResponseWriter, r *http.Request) {
		before(w)
		select {
		case <-r.Context().Done():
		case <-end:
		}
		// A return would send an empty response, which a client that closes a TLS connection may
		// still read.
		panic(http.ErrAbortHandler)
	}
}

func TestRequestTimeout_CoversTheWholeResponse(t *testing.T) {
	for name, before := range map[string]func(http.ResponseWriter){
		"no answer": func(http.ResponseWriter) {},
		"no end of the body": func(w http.ResponseWriter) {
			_, _ = w.Write([]byte(`{"ports": [`))
			_ = http.NewResponseController(w).Flush()
		},
	} {
		t.Run(name, func(t *testing.T) {
			_, cfg := newStub(t, hang(t, before))
			cfg.Client.MaxRetries, cfg.Metadata.RequestTimeout = 0, 200*time.Millisecond
			f := open(t, cfg)
			err := get(within(t), f.Clients, "ports")
			wantError(t, cfg, err, "no complete response within 200ms")
			var timeout net.Error
			if !errors.As(err, &timeout) || !timeout.Timeout() ||
				errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("%v is not a timeout of the request, as opposed to the caller's", err)
			}
			if got := f.observed.Requests(); got[len(got)-1] != "network port_list timeout" {
				t.Errorf("observed %v", got)
			}
		})
	}
}

func TestRequest_EndsWithTheCallersContext(t *testing.T) {
	s, cfg := newStub(t, hang(t, func(http.ResponseWriter) {}))
	f := open(t, cfg)
	ctx, cancel := context.WithCancelCause(within(t))
	done := make(chan error, 1)
	go func() { done <- get(ctx, f.Clients, "ports") }()
	waittest.Until(t, "the request is made", func() bool { return s.count("/ports") == 1 })
	because := errors.New("the term is over")
	cancel(because)
	if err := <-done; !errors.Is(err, because) {
		t.Errorf("got %v, want the cause of the context", err)
	}
}

func TestResponse_NotJSON_ErrorNamesItsType(t *testing.T) {
	s, cfg := newStub(t, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/html")
		_, _ = w.Write([]byte("<html>Please log in to the network</html>"))
	})
	f := open(t, cfg)
	wantError(t, cfg, get(within(t), f.Clients, "ports"), "Neutron: ", "200 OK",
		"not JSON but text/html", "(port_list)")
	if n := s.count("/ports"); n != 1 {
		t.Errorf("%d attempts, want one because a retry gets the same page", n)
	}
}

func TestRequest_Fails_URLAndAnswerAreOnlyInTheLogAtV4(t *testing.T) {
	for verbosity, isLogged := range map[int]bool{3: false, 4: true} {
		s, cfg := newStub(t, func(w http.ResponseWriter, _ *http.Request) {
			reply(w, http.StatusNotFound, map[string]any{"NeutronError": map[string]any{
				"type": "PortNotFound", "message": "Port 1234 could not be found.", "detail": "x7",
			}})
		})
		written := &logs{}
		f := open(t, cfg, func(o *Options) {
			o.Logger = funcr.New(written.write, funcr.Options{Verbosity: verbosity})
		})
		err := get(within(t), f.Clients, "ports/1234")
		wantError(t, cfg, err, "Neutron: 404 Port 1234 could not be found")
		text := written.String()
		noSecret(t, cfg, "log", text)
		for _, part := range []string{"Request to OpenStack failed", s.URL, "/ports/1234", "x7"} {
			if strings.Contains(text, part) != isLogged {
				t.Errorf("the log at -v=%d is %s, has %q: %t", verbosity, text, part, isLogged)
			}
			if err != nil && strings.Contains(err.Error(), part) {
				t.Errorf("the error %q has %q", err, part)
			}
		}
	}
}

func TestResponse_EmptyOrList_IsAccepted(t *testing.T) {
	for _, c := range []struct {
		status int
		body   string
	}{{204, ""}, {202, " \n"}, {200, " [1]"}, {200, "{}"}} {
		req := &http.Request{Header: http.Header{"Accept": {"application/json"}}}
		resp := &http.Response{StatusCode: c.status, Header: http.Header{}}
		if err := checkJSON(req, resp, []byte(c.body)); err != nil {
			t.Errorf("%d %q: %v", c.status, c.body, err)
		}
	}
	// Barbican's payloads may have any form.
	req := &http.Request{Header: http.Header{"Accept": {"text/plain"}}}
	if err := checkJSON(req, &http.Response{StatusCode: 200}, []byte("secret")); err != nil {
		t.Errorf("a text that the caller requested: %v", err)
	}
}

// A list that is null would look like an empty one.
func TestResponse_Null_IsAcceptedOnlyForAPut(t *testing.T) {
	for method, accepted := range map[string]bool{"PUT": true, "GET": false, "POST": false} {
		req := &http.Request{Method: method, Header: http.Header{"Accept": {"application/json"}}}
		resp := &http.Response{StatusCode: 200, Header: http.Header{}}
		if err := checkJSON(req, resp, []byte("null\n")); (err == nil) != accepted {
			t.Errorf("%s: %v, accepted: %t", method, err, accepted)
		}
	}
}

// announcing is a response of 10 bytes whose header announces another length.
func announcing(length int64) *http.Response {
	return &http.Response{
		Status: "200 OK", ContentLength: length,
		Body: io.NopCloser(strings.NewReader("0123456789")),
	}
}

func TestReadAll_HasALimit(t *testing.T) {
	for _, length := range []int64{-1, 10, 1 << 40} {
		if body, err := readAll(announcing(length), 10); err != nil ||
			string(body) != "0123456789" {
			t.Errorf("10 bytes of 10, announced %d: %q, %v", length, body, err)
		}
		var broken *invalidResponse
		if _, err := readAll(announcing(length), 9); !errors.As(err, &broken) {
			t.Errorf("10 bytes of at most 9, announced %d: %v", length, err)
		}
	}
}

func TestReadAll_ServerAnnouncesMuchAndSendsLittle_TakesLittleMemory(t *testing.T) {
	const announced = 100 << 20
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	body, err := readAll(announcing(announced), maxBody)
	runtime.ReadMemStats(&after)
	if err != nil || string(body) != "0123456789" {
		t.Errorf("the body is %q, %v", body, err)
	}
	if used := after.TotalAlloc - before.TotalAlloc; used > announced/10 {
		t.Errorf("10 bytes took %d bytes of memory", used)
	}
}

// openBodies counts the bodies of responses that are not closed.
type openBodies struct {
	t    *testing.T
	next http.RoundTripper
	n    atomic.Int64
}

func (o *openBodies) RoundTrip(req *http.Request) (*http.Response, error) {
	if n := o.n.Load(); n > 0 {
		o.t.Errorf("%s %s is sent while %d responses are open", req.Method, req.URL.Path, n)
	}
	resp, err := o.next.RoundTrip(req)
	if err != nil {
		return nil, err
	}
	o.n.Add(1)
	resp.Body = countedBody{resp.Body, sync.OnceFunc(func() { o.n.Add(-1) })}
	return resp, nil
}

type countedBody struct {
	io.ReadCloser
	closed func()
}

func (b countedBody) Close() error {
	b.closed()
	return b.ReadCloser.Close()
}

// decoding is JSON of any form.
type decoding struct{ begun func() }

func (d *decoding) UnmarshalJSON([]byte) error {
	d.begun()
	return nil
}

// A guard may limit how many responses are in memory at once.
func TestGuard_BodyOfAResponse_IsOpenUntilItIsDecoded(t *testing.T) {
	for name, test := range map[string]struct {
		first     http.HandlerFunc // the others are of status 200
		isRevoked bool
	}{
		"decoded":  {},
		"error":    {first: status(http.StatusNotFound)},
		"retried":  {first: status(http.StatusServiceUnavailable)},
		"conflict": {first: immutableAnswer},
		"other text": {first: func(w http.ResponseWriter, _ *http.Request) {
			_, _ = io.WriteString(w, "<html>")
		}},
		"token is renewed": {isRevoked: true},
	} {
		t.Run(name, func(t *testing.T) {
			var requests atomic.Int64
			s, cfg := newStub(t, func(w http.ResponseWriter, r *http.Request) {
				if requests.Add(1) == 1 && test.first != nil {
					test.first(w, r)
				} else {
					reply(w, http.StatusOK, map[string]any{})
				}
			})
			cfg.Client.MaxRetries = 1
			bodies := &openBodies{t: t}
			f := open(t, cfg, func(o *Options) {
				o.Guard = func(t *http.Transport) http.RoundTripper {
					bodies.next = t
					return bodies
				}
			})
			network, err := f.Network(within(t))
			if err != nil {
				t.Fatal(err)
			}
			if test.isRevoked {
				s.revoke()
			}
			isDecoded := false
			_, err = network.Get(within(t), network.ServiceURL("ports"), &decoding{func() {
				isDecoded = true
				if n := bodies.n.Load(); n != 1 {
					t.Errorf("%d responses are open while one is decoded", n)
				}
			}}, nil)
			if isDecoded != (err == nil) {
				t.Errorf("decoded %t, error %v", isDecoded, err)
			}
			if n := bodies.n.Load(); n != 0 {
				t.Errorf("%d responses are open after the request", n)
			}
		})
	}
}

func TestReplay_SendsTheSameBodyAgain(t *testing.T) {
	req := httptest.NewRequest("POST", "http://x/y", nil)
	req.Body, req.GetBody = io.NopCloser(strings.NewReader("used up")),
		func() (io.ReadCloser, error) {
			return io.NopCloser(strings.NewReader("again")), nil
		}
	again, err := replay(req)
	if err != nil {
		t.Fatal(err)
	}
	if body, _ := io.ReadAll(again.Body); !bytes.Equal(body, []byte("again")) {
		t.Errorf("sent %q", body)
	}
	req.GetBody = nil
	if replayable(req) {
		t.Error("a body that cannot be rewound counts as replayable")
	}
	if _, err := replay(req); err == nil {
		t.Error("a body that cannot be rewound was replayed")
	}
}

// The token must not be sent to another host.
func TestRedirect_IsFollowedWithinTheServiceOnly(t *testing.T) {
	var mu sync.Mutex
	var reached []string
	other := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		defer mu.Unlock()
		reached = append(reached, r.Header.Get("X-Auth-Token"))
		status(200)(w, r)
	}))
	defer other.Close()
	s, cfg := newStub(t, func(w http.ResponseWriter, r *http.Request) {
		switch {
		case strings.HasSuffix(r.URL.Path, "/away"):
			http.Redirect(w, r, other.URL, http.StatusTemporaryRedirect)
		case strings.HasSuffix(r.URL.Path, "/here"):
			http.Redirect(w, r, "/network/v2.0/there", http.StatusFound)
		default:
			status(200)(w, r)
		}
	})
	f := open(t, cfg)
	if err := get(within(t), f.Clients, "here"); err != nil || s.count("/there") != 1 {
		t.Errorf("within the service: %v", err)
	}
	for _, method := range []string{"GET", "POST"} {
		if err := send(within(t), f.Clients, method, "away",
			map[string]any{}); !gophercloud.ResponseCodeIs(err, http.StatusTemporaryRedirect) {
			t.Errorf("%s to another host: %v, want the redirect as the response", method, err)
		}
	}
	// A POST would become a GET that changes nothing.
	if err := send(within(t), f.Clients, "POST", "here",
		map[string]any{}); !gophercloud.ResponseCodeIs(err, http.StatusFound) {
		t.Errorf("POST: %v, want the redirect as the response", err)
	}
	if len(reached) != 0 {
		t.Errorf("the other host was reached with the tokens %q", reached)
	}
}

// The body of the login has the password.
func TestLogin_IsRedirectedToAnotherHost_PasswordIsNotSentThere(t *testing.T) {
	var arrived atomic.Int64
	other := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
		arrived.Add(1)
	}))
	defer other.Close()
	for _, code := range []int{302, 307, 308} {
		s, cfg := newStub(t, status(200))
		s.answerLogins(func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, other.URL+r.URL.Path, code)
		})
		f := open(t, cfg)
		wantError(t, cfg, get(within(t), f.Clients, "ports"), "Keystone", strconv.Itoa(code))
	}
	if n := arrived.Load(); n != 0 {
		t.Errorf("%d requests arrived at the other host", n)
	}
}

func TestRateLimit_WaitEndsWithTheCallersContextAndWithClose(t *testing.T) {
	clock := clocktesting.NewFakeClock(time.Now())
	s, cfg := newStub(t, status(200))
	cfg.Client.RequestRate, cfg.Client.RequestBurst = 0.001, 2
	f := open(t, cfg, func(o *Options) { o.Clock = clock })
	if err := get(within(t), f.Clients, "ports"); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	one, two := make(chan error, 1), make(chan error, 1)
	go func() { one <- get(ctx, f.Clients, "ports") }()
	go func() { two <- get(t.Context(), f.Clients, "ports") }()
	waittest.Until(t, "both wait",
		func() bool { return f.current.own.Waiting(ratelimit.Flow{}) == 2 })
	cancel()
	if err := <-one; !errors.Is(err, context.Canceled) {
		t.Errorf("got %v, want the context's error", err)
	}
	if err := f.Close(); err != nil {
		t.Error(err)
	}
	if err := <-two; !errors.Is(err, ErrClosed) {
		t.Errorf("got %v, want ErrClosed", err)
	}
	if n := s.count("/ports"); n != 1 {
		t.Errorf("%d requests were made", n)
	}
}

func TestConnections_AreReusedAndClosedByClose(t *testing.T) {
	s, cfg := newStub(t, status(200))
	f := open(t, cfg)
	for range 20 {
		if err := get(within(t), f.Clients, "ports"); err != nil {
			t.Fatal(err)
		}
	}
	if opened, _ := s.connections(); opened != 1 {
		t.Errorf("%d connections for 21 requests in turn", opened)
	}
	for range 3 {
		var all sync.WaitGroup
		for range 16 {
			all.Go(func() {
				if err := get(within(t), f.Clients, "ports"); err != nil {
					t.Error(err)
				}
			})
		}
		all.Wait()
	}
	if opened, _ := s.connections(); opened > 32 {
		t.Errorf("%d connections for 3 times 16 requests at a time", opened)
	}
	if err := f.Close(); err != nil {
		t.Error(err)
	}
	waittest.Until(t, "all connections are closed", func() bool {
		_, left := s.connections()
		return left == 0
	})
}

func TestUserAgent_HostHasItsOwn_BothAreSent(t *testing.T) {
	s, cfg := newStub(t, status(200))
	f := open(t, cfg, func(o *Options) { o.UserAgents = []string{"host/1.0", "cluster-a"} })
	if err := get(within(t), f.Clients, "ports"); err != nil {
		t.Fatal(err)
	}
	for _, r := range s.seen("") {
		if !strings.HasPrefix(r.agent, "host/1.0 cluster-a fxccm gophercloud/") {
			t.Errorf("%s has the user agent %q", r.path, r.agent)
		}
	}
	if _, err := New(cfg, Options{UserAgents: []string{"a\r\nX-Evil: 1"}}); err == nil {
		t.Error("a user agent with a line end was accepted")
	}
}
