package client

import (
	"context"
	"net/http"
	"net/url"
	"sync"
	"time"

	"k8s.io/utils/clock"

	"github.com/fxccm/fxccm/provider/kit/batch"
)

// readLife is how long an unused result of a shared read is kept.
const readLife = 10 * time.Minute

// reads are the reads of a project that its clusters share. They are safe for concurrent use.
type reads struct {
	clock clock.Clock

	mu     sync.Mutex
	closed bool
	byKey  map[string]*sharedRead
}

// sharedRead is one read, and its last result. Concurrent callers share a request, which ends when
// the last of them has left.
type sharedRead struct {
	calls *batch.Batches[*readCall]

	mu sync.Mutex
	// begun is zero before the first result.
	begun time.Time
	value any
	// last is the read that was begun last.
	last *flight
}

type readCall struct {
	// by is the generation that sends the requests, if this call is the first of its batch.
	by    *generation
	newer time.Time
	read  func(context.Context) (any, error)

	// The result, valid when the batch is done.
	value any
	begun time.Time
	err   error
}

func newReads(c clock.Clock) *reads {
	return &reads{clock: c, byKey: map[string]*sharedRead{}}
}

func (r *reads) get(ctx context.Context, key string, call *readCall) error {
	shared, err := r.of(key)
	if err != nil {
		return err
	}
	if shared.recall(call) {
		return nil
	}
	if err := shared.calls.Ask(ctx, call); err != nil {
		return err
	}
	return call.err
}

func (r *reads) of(key string) (*sharedRead, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.closed {
		return nil, ErrClosed
	}
	for other, shared := range r.byKey {
		if other != key {
			shared.forget(r.clock.Now().Add(-readLife))
		}
	}
	shared := r.byKey[key]
	if shared == nil {
		shared = &sharedRead{}
		shared.calls = batch.New(ErrClosed, func(ctx context.Context, calls []*readCall) {
			shared.answer(ctx, r.clock, calls)
		})
		r.byKey[key] = shared
	}
	return shared, nil
}

// close is called when no caller is left.
func (r *reads) close() {
	r.mu.Lock()
	r.closed = true
	r.mu.Unlock()
	for _, shared := range r.byKey {
		shared.calls.Close()
	}
}

// recall returns the last result, if that was begun late enough.
func (s *sharedRead) recall(call *readCall) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.begun.IsZero() || s.begun.Before(call.newer) {
		return false
	}
	call.value, call.begun = s.value, s.begun
	return true
}

func (s *sharedRead) forget(before time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.begun.Before(before) {
		s.begun, s.value = time.Time{}, nil
	}
}

// flight is a read in flight.
type flight struct {
	begun time.Time
	ended chan struct{}
}

func (s *sharedRead) answer(ctx context.Context, c clock.Clock, calls []*readCall) {
	open := s.unanswered(calls)
	// The previous batch may still read a result that serves all calls.
	if last := s.inFlight(); last != nil && !last.begun.Before(newest(open)) {
		select {
		case <-last.ended:
			open = s.unanswered(open)
		case <-ctx.Done():
		}
	}
	if len(open) == 0 {
		return
	}
	first, now := open[0], &flight{begun: c.Now(), ended: make(chan struct{})}
	s.mu.Lock()
	s.last = now
	s.mu.Unlock()
	defer close(now.ended)
	value, err := first.read(context.WithValue(ctx, flightKey{}, first.by))
	if err == nil {
		s.keep(value, now.begun)
	}
	for _, call := range open {
		call.value, call.begun, call.err = value, now.begun, err
	}
}

func (s *sharedRead) unanswered(calls []*readCall) (open []*readCall) {
	for _, call := range calls {
		if !s.recall(call) {
			open = append(open, call)
		}
	}
	return open
}

func (s *sharedRead) inFlight() *flight {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.last
}

// newest returns the time from which a read serves all calls.
func newest(open []*readCall) (newer time.Time) {
	for _, call := range open {
		if call.newer.After(newer) {
			newer = call.newer
		}
	}
	return newer
}

// keep keeps the newest result. A slow read may end after a newer one.
func (s *sharedRead) keep(value any, begun time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if begun.After(s.begun) {
		s.begun, s.value = begun, value
	}
}

type flightKey struct{}

// flightOf returns the generation that sends the requests of a shared read, or nil.
func flightOf(ctx context.Context) *generation {
	g, _ := ctx.Value(flightKey{}).(*generation)
	return g
}

// Read carries out a read that is the same for all clusters with the same access. A result that was
// begun at newer or later is reused; begun is its time. read gets a context that ends when no
// caller waits any more. Neither read nor the callers may change the result later.
//
// The term of each caller guards its own wait, so the end of one term does not cancel a read for
// which other clusters wait. No result is older than the Clients, because another process may have
// acted for their cluster before. Clients that share nothing call read directly.
func (c *Clients) Read(
	ctx context.Context, key string, newer time.Time, read func(context.Context) (any, error),
) (value any, begun time.Time, err error) {
	g := c.acquire()
	defer c.release(g)
	// A read within another shared read is shared with that.
	if isPart := flightOf(ctx) != nil; isPart || !g.isShared() {
		begun = c.options.Clock.Now()
		value, err = read(ctx)
		return value, begun, err
	}
	ctx, done, err := c.enter(ctx)
	if err != nil {
		return nil, time.Time{}, err
	}
	defer done()
	if newer.Before(c.opened) {
		newer = c.opened
	}
	call := &readCall{by: g, newer: newer, read: read}
	err = c.pass(ctx, http.MethodGet, g.authURL().JoinPath("..", key),
		func(ctx context.Context) error { return g.reads.get(ctx, key, call) })
	if err != nil {
		// The batch may still write to a call whose caller has left.
		return nil, time.Time{}, err
	}
	return call.value, call.begun, nil
}

// pass runs a function as a request of the term, which the fence can refuse or cancel.
func (c *Clients) pass(
	ctx context.Context, method string, address *url.URL, do func(context.Context) error,
) error {
	req, err := http.NewRequestWithContext(ctx, method, address.String(), nil)
	if err != nil {
		return err
	}
	resp, err := c.options.Transport(doing(do)).RoundTrip(req)
	if err != nil {
		return err
	}
	return resp.Body.Close()
}

// doing is a function as an http.RoundTripper.
type doing func(context.Context) error

// RoundTrip implements http.RoundTripper.
func (d doing) RoundTrip(req *http.Request) (*http.Response, error) {
	if err := d(req.Context()); err != nil {
		return nil, err
	}
	return &http.Response{
		StatusCode: http.StatusNoContent, Body: http.NoBody, Header: http.Header{}, Request: req,
	}, nil
}
