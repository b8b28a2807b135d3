// Package batch collects calls that are made at about the same time and serves them together.
package batch

import (
	"context"
	"sync"
	"time"

	"github.com/fxccm/fxccm/internal/rescue"
)

// These times only pace requests, so they use the real clock.
const (
	// window is how long a batch collects calls that are made at the same moment.
	window = 3 * time.Millisecond
	// previousTimeout is how long a batch waits for the previous one, unless batches are serial. A
	// request that hangs delays later batches no longer than this.
	previousTimeout = time.Second
	// expectedTimeout is how long a batch waits for the calls that [Batches.Expect] announced.
	expectedTimeout = time.Second
)

// Batches collects calls and serves them together. While a batch is in flight, new calls form the
// next one.
//
// A batch runs on its own goroutine and is canceled when its last caller leaves. Close waits for
// it. Every request for a call is sent after the call was made. Batches is safe for concurrent use.
type Batches[Q any] struct {
	serve     func(context.Context, []Q)
	errClosed error
	// isSerial: no two batches run at the same time, however long the first one takes.
	isSerial bool

	mu     sync.Mutex
	closed bool
	// open collects calls; it may be nil. latest is the batch that started last, nil if it has
	// ended.
	open, latest *batch[Q]
	running      sync.WaitGroup
	cancelAll    map[*batch[Q]]context.CancelFunc
	// expected counts the announced calls; allArrived is closed when none is missing.
	expected   int
	allArrived chan struct{}
}

type batch[Q any] struct {
	// ctx is canceled when the last caller leaves.
	ctx     context.Context
	cancel  context.CancelFunc
	callers int
	calls   []Q
	done    chan struct{}
	// err is set before done is closed.
	err error
}

// New returns Batches that call serve once a batch. serve writes its results into the calls; a
// caller may read them only after Ask returned nil. The context of serve has the values of the
// first caller's context, but not its deadline. After Close, Ask returns errClosed.
func New[Q any](errClosed error, serve func(context.Context, []Q)) *Batches[Q] {
	return &Batches[Q]{
		serve: serve, errClosed: errClosed, cancelAll: map[*batch[Q]]context.CancelFunc{},
	}
}

// NewSerial returns Batches of which only one runs at a time, for writes to one object.
func NewSerial[Q any](errClosed error, serve func(context.Context, []Q)) *Batches[Q] {
	b := New(errClosed, serve)
	b.isSerial = true
	return b
}

// Ask returns when the call is served or ctx ends. A panic in serve becomes the error of all
// callers of the batch.
func (b *Batches[Q]) Ask(ctx context.Context, call Q) error {
	return b.AskExpected(ctx, call, func() {})
}

// Expect announces a call that is still being prepared: a batch waits for it for at most a second.
// The caller passes arrived to AskExpected, or calls it if the call is not made after all. arrived
// may be called several times.
func (b *Batches[Q]) Expect() (arrived func()) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.expected == 0 {
		b.allArrived = make(chan struct{})
	}
	b.expected++
	return sync.OnceFunc(func() {
		b.mu.Lock()
		defer b.mu.Unlock()
		b.expected--
		if b.expected == 0 {
			close(b.allArrived)
		}
	})
}

// AskExpected is Ask for a call that Expect announced.
func (b *Batches[Q]) AskExpected(ctx context.Context, call Q, arrived func()) error {
	mine, err := b.join(ctx, call)
	arrived()
	if err != nil {
		return err
	}
	select {
	case <-mine.done:
		return mine.err
	case <-ctx.Done():
		b.leave(mine)
		return context.Cause(ctx)
	}
}

func (b *Batches[Q]) join(ctx context.Context, call Q) (*batch[Q], error) {
	if err := ctx.Err(); err != nil {
		return nil, context.Cause(ctx)
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.closed {
		return nil, b.errClosed
	}
	if b.open == nil {
		b.open = b.start(ctx)
	}
	mine := b.open
	mine.callers++
	mine.calls = append(mine.calls, call)
	return mine, nil
}

// start is called with the lock held.
func (b *Batches[Q]) start(first context.Context) *batch[Q] {
	ctx, cancel := context.WithCancel(context.WithoutCancel(first))
	started := &batch[Q]{ctx: ctx, cancel: cancel, done: make(chan struct{})}
	b.cancelAll[started] = cancel
	b.running.Go(func() { b.run(started) })
	return started
}

func (b *Batches[Q]) leave(left *batch[Q]) {
	b.mu.Lock()
	defer b.mu.Unlock()
	left.callers--
	if left.callers > 0 {
		return
	}
	left.cancel()
	if b.open == left {
		b.open = nil
	}
}

func (b *Batches[Q]) run(mine *batch[Q]) {
	defer mine.cancel()
	b.collect(mine)
	calls := b.begin(mine)
	mine.err = rescue.Panic(func() error {
		if mine.ctx.Err() != nil {
			return b.errClosed
		}
		b.serve(mine.ctx, calls)
		return nil
	})
	close(mine.done)
	b.mu.Lock()
	defer b.mu.Unlock()
	delete(b.cancelAll, mine)
	if b.latest == mine {
		b.latest = nil
	}
}

// collect returns when the batch may be served.
func (b *Batches[Q]) collect(mine *batch[Q]) {
	b.mu.Lock()
	previous := b.latest
	b.mu.Unlock()
	switch {
	case previous == nil:
	case b.isSerial:
		select {
		case <-previous.done:
		case <-mine.ctx.Done():
		}
	default:
		pause(mine.ctx, previousTimeout, previous.done)
	}
	pause(mine.ctx, window, nil)
	b.mu.Lock()
	allArrived := b.allArrived
	b.mu.Unlock()
	if allArrived != nil {
		pause(mine.ctx, expectedTimeout, allArrived)
	}
}

// begin closes the batch for new calls and returns its calls. A batch that all callers have left
// does not become the latest, because the previous one may still be in flight.
func (b *Batches[Q]) begin(mine *batch[Q]) []Q {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.open == mine {
		b.open, b.latest = nil, mine
	}
	return mine.calls
}

// Close cancels all batches and waits for their end.
func (b *Batches[Q]) Close() {
	b.mu.Lock()
	b.closed = true
	for _, cancel := range b.cancelAll {
		cancel()
	}
	b.mu.Unlock()
	b.running.Wait()
}

// pause waits for d, until the channel is closed, or until ctx ends.
func pause(ctx context.Context, d time.Duration, until <-chan struct{}) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-until:
	case <-ctx.Done():
	}
}
