package project

import (
	"bytes"
	"io"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"sync"
	"time"
)

// Wire is between the provider and OpenStack: it records requests, and can make some of them fail.
type Wire struct {
	mu     sync.Mutex
	calls  []Call
	faults []*Fault
}

// A Call is a request of the provider that was answered, or failed.
type Call struct {
	Time     time.Time
	Duration time.Duration
	Method   string
	// Path is the path of the address; Route is the path with {id} instead of IDs.
	Path, Route string
	Query       string
	// RequestBody is the sent body.
	RequestBody string
	// Status is 0 if there was no answer.
	Status int
	Token  string
}

// Changes reports whether the call may have changed an object. A login does not count.
func (c Call) Changes() bool {
	return c.Method != http.MethodGet && !strings.HasSuffix(c.Path, "/auth/tokens")
}

// A Fault makes requests fail. It is used up after Times; 0: never.
type Fault struct {
	// Matches selects the requests; nil: all.
	Matches func(*http.Request) bool
	Times   int
	// Delay comes first.
	Delay time.Duration
	// After means that the request is executed, but its answer is lost.
	After bool
	// Err is an error of the connection. Without it, the answer is Status, with Body and Header. If
	// that is 0, too, it is OpenStack's own answer.
	Err    error
	Status int
	Body   string
	Header http.Header

	used int
}

// On returns a Matches for a method ("" for all) and the end of the route, such as
// "/lbaas/listeners/{id}".
func On(method, route string) func(*http.Request) bool {
	return func(r *http.Request) bool {
		return (method == "" || r.Method == method) && strings.HasSuffix(routeOf(r.URL.Path), route)
	}
}

var identifier = regexp.MustCompile(
	`[0-9a-f]{8}-?[0-9a-f]{4}-?[0-9a-f]{4}-?[0-9a-f]{4}-?[0-9a-f]{12}`)

func routeOf(path string) string { return identifier.ReplaceAllString(path, "{id}") }

// Break makes requests fail until remove is called.
func (w *Wire) Break(f Fault) (remove func()) {
	w.mu.Lock()
	defer w.mu.Unlock()
	p := &f
	w.faults = append(w.faults, p)
	return func() {
		w.mu.Lock()
		defer w.mu.Unlock()
		w.faults = slices.DeleteFunc(w.faults, func(other *Fault) bool { return other == p })
	}
}

func (w *Wire) fault(r *http.Request) *Fault {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, f := range w.faults {
		if (f.Times == 0 || f.used < f.Times) && (f.Matches == nil || f.Matches(r)) {
			f.used++
			return f
		}
	}
	return nil
}

// Calls are all calls so far.
func (w *Wire) Calls() []Call {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Clone(w.calls)
}

// Mark is the current position in the record.
func (w *Wire) Mark() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return len(w.calls)
}

// Since are the calls after the mark that which selects; nil: all.
func (w *Wire) Since(mark int, which func(Call) bool) []Call {
	return slices.DeleteFunc(w.Calls()[mark:],
		func(c Call) bool { return which != nil && !which(c) })
}

// Transport puts the wire behind next, the provider's fence.
func (w *Wire) Transport(
	fence func(http.RoundTripper) http.RoundTripper,
) func(http.RoundTripper) http.RoundTripper {
	return func(real http.RoundTripper) http.RoundTripper {
		var tripper http.RoundTripper = &recorder{wire: w, next: real}
		if fence != nil {
			tripper = fence(tripper)
		}
		return tripper
	}
}

type recorder struct {
	wire *Wire
	next http.RoundTripper
}

// RoundTrip implements http.RoundTripper.
func (r *recorder) RoundTrip(request *http.Request) (*http.Response, error) {
	call := Call{
		Time: time.Now(), Method: request.Method, Path: request.URL.Path,
		Route: routeOf(request.URL.Path), Query: request.URL.RawQuery,
		Token: request.Header.Get("X-Auth-Token"),
	}
	if request.Body != nil && request.Body != http.NoBody {
		text, err := io.ReadAll(request.Body)
		_ = request.Body.Close()
		if err != nil {
			return nil, err
		}
		call.RequestBody = string(text)
		request = request.Clone(request.Context())
		request.Body = io.NopCloser(bytes.NewReader(text))
	}
	response, err := r.roundTrip(request, r.wire.fault(request))
	call.Duration = time.Since(call.Time)
	if err == nil {
		call.Status = response.StatusCode
	}
	r.wire.mu.Lock()
	r.wire.calls = append(r.wire.calls, call)
	r.wire.mu.Unlock()
	return response, err
}

func (r *recorder) roundTrip(request *http.Request, f *Fault) (*http.Response, error) {
	if f != nil && f.Delay > 0 {
		select {
		case <-time.After(f.Delay):
		case <-request.Context().Done():
			return nil, request.Context().Err()
		}
	}
	if f == nil || f.Err == nil && f.Status == 0 {
		return r.next.RoundTrip(request)
	}
	if f.After {
		response, err := r.next.RoundTrip(request)
		if err != nil {
			return nil, err
		}
		_, _ = io.Copy(io.Discard, response.Body)
		_ = response.Body.Close()
	} else if request.Body != nil {
		_ = request.Body.Close()
	}
	if f.Err != nil {
		return nil, f.Err
	}
	header := f.Header.Clone()
	if header == nil {
		header = http.Header{}
	}
	return &http.Response{
		Status: http.StatusText(f.Status), StatusCode: f.Status, Proto: "HTTP/1.1", ProtoMajor: 1,
		ProtoMinor: 1,
		Header:     header, Body: io.NopCloser(strings.NewReader(f.Body)),
		ContentLength: int64(len(f.Body)), Request: request,
	}, nil
}

// CloseIdleConnections is called by http.Client.
func (r *recorder) CloseIdleConnections() {
	if c, ok := r.next.(interface{ CloseIdleConnections() }); ok {
		c.CloseIdleConnections()
	}
}
