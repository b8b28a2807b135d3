package sharing

import (
	"context"
	"sync"
	"time"

	"k8s.io/utils/clock"

	"github.com/fxccm/fxccm/provider/kit/batch"
)

// readLife is how long an unused result of a shared read is kept.
const readLife = 10 * time.Minute

// Reads carry out reads, and share their results among callers. They are safe for concurrent use.
// [Reads.Close] ends them.
type Reads struct {
	clock     clock.PassiveClock
	errClosed error

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
	newer time.Time
	read  func(context.Context) (any, error)

	// The result, valid when the batch is done.
	value any
	begun time.Time
	err   error
}

// NewReads starts no goroutine. After Close, reads fail with errClosed.
func NewReads(c clock.PassiveClock, errClosed error) *Reads {
	return &Reads{clock: c, errClosed: errClosed, byKey: map[string]*sharedRead{}}
}

// Read is a [Read]. A result that was begun at newer or later is reused, and concurrent callers
// share a request. read gets a context that ends when no caller waits any more.
func (r *Reads) Read(
	ctx context.Context, key string, newer time.Time, read func(context.Context) (any, error),
) (value any, begun time.Time, err error) {
	shared, err := r.of(key)
	if err != nil {
		return nil, time.Time{}, err
	}
	call := &readCall{newer: newer, read: read}
	if shared.recall(call) {
		return call.value, call.begun, nil
	}
	if err := shared.calls.Ask(ctx, call); err != nil {
		// The batch may still write to a call whose caller has left.
		return nil, time.Time{}, err
	}
	return call.value, call.begun, call.err
}

func (r *Reads) of(key string) (*sharedRead, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.closed {
		return nil, r.errClosed
	}
	for other, shared := range r.byKey {
		if other != key {
			shared.forget(r.clock.Now().Add(-readLife))
		}
	}
	shared := r.byKey[key]
	if shared == nil {
		shared = &sharedRead{}
		shared.calls = batch.New(r.errClosed, func(ctx context.Context, calls []*readCall) {
			shared.answer(ctx, r.clock, calls)
		})
		r.byKey[key] = shared
	}
	return shared, nil
}

// Close cancels reads in flight and waits for their end. It is idempotent.
func (r *Reads) Close() {
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

func (s *sharedRead) answer(ctx context.Context, c clock.PassiveClock, calls []*readCall) {
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
	value, err := first.read(ctx)
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
