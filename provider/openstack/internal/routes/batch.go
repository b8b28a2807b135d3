package routes

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"k8s.io/utils/clock"

	"github.com/fxccm/fxccm/internal/rescue"
)

var errClosed = errors.New("the provider's routes are closed")

// A batcher does together what is asked for at about the same time. One batch runs at a time; what is asked for meanwhile is the next.
type batcher[T any] struct {
	run func(context.Context, []*call[T])
	// window is how long the first of a batch waits for others. linger is how much longer it waits at most for those of which
	// it is known that they will come.
	window, linger time.Duration
	clock          clock.Clock

	mu      sync.Mutex
	queue   []*call[T]
	running bool
	coming  int
	// here is told, without waiting for anybody, when nobody is coming any more.
	here   chan struct{}
	abort  context.CancelFunc
	closed chan struct{}
	worker sync.WaitGroup
}

// A call is one caller's part of a batch.
type call[T any] struct {
	value T
	// err is the caller's answer, set by run.
	err  error
	done chan struct{}
	// gone is closed when the caller does not want the answer any more.
	gone <-chan struct{}
	// batch is the one that it is in; nil while it is queued. Guarded by the batcher.
	batch *batch
}

type batch struct {
	wanted int
	cancel context.CancelFunc
}

// abandoned tells whether the caller has given up.
func (c *call[T]) abandoned() bool {
	select {
	case <-c.gone:
		return true
	default:
		return false
	}
}

func newBatcher[T any](c clock.Clock, window, linger time.Duration, run func(context.Context, []*call[T])) *batcher[T] {
	return &batcher[T]{
		run: run, window: window, linger: linger, clock: c,
		here: make(chan struct{}, 1), closed: make(chan struct{}),
	}
}

// expect says that a do is coming. The caller calls arrived when it will not come after all; more than once does no harm.
func (b *batcher[T]) expect() (arrived func()) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.coming++
	return sync.OnceFunc(func() {
		b.mu.Lock()
		defer b.mu.Unlock()
		b.coming--
		if b.coming == 0 {
			select {
			case b.here <- struct{}{}:
			default:
			}
		}
	})
}

// do has the value done as part of a batch, and returns its error. When the context ends first it returns at once; then the value is not
// done any more if it has not begun, and a batch that nobody waits for is cancelled.
func (b *batcher[T]) do(ctx context.Context, value T, arrived func()) error {
	c := &call[T]{value: value, done: make(chan struct{}), gone: ctx.Done()}
	err := b.enqueue(ctx, c)
	arrived()
	if err != nil {
		return err
	}
	select {
	case <-c.done:
		return c.err
	case <-ctx.Done():
		b.leave(c)
		return ctx.Err()
	}
}

func (b *batcher[T]) enqueue(ctx context.Context, c *call[T]) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	select {
	case <-b.closed:
		return errClosed
	default:
	}
	b.queue = append(b.queue, c)
	if !b.running {
		b.running = true
		b.worker.Go(b.work)
	}
	return nil
}

func (b *batcher[T]) leave(c *call[T]) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if c.batch == nil {
		b.queue = slices.DeleteFunc(b.queue, func(other *call[T]) bool { return other == c })
		return
	}
	c.batch.wanted--
	if c.batch.wanted == 0 {
		c.batch.cancel()
	}
}

// work runs batches until there is nothing to do.
func (b *batcher[T]) work() {
	for {
		b.gather()
		ctx, calls := b.take()
		if len(calls) == 0 {
			return
		}
		err := rescue.Panic(func() error {
			b.run(ctx, calls)
			return nil
		})
		if err != nil {
			for _, c := range calls {
				c.err = err
			}
		}
		b.finish(calls)
	}
}

// gather waits for others to come.
func (b *batcher[T]) gather() {
	b.waitUntil(b.window, func() bool { return false })
	b.waitUntil(b.linger, b.allAreHere)
}

// waitUntil waits for at most d, and asks again whenever the last one has come.
func (b *batcher[T]) waitUntil(d time.Duration, enough func() bool) {
	if d <= 0 {
		return
	}
	timer := b.clock.NewTimer(d)
	defer timer.Stop()
	for !enough() {
		select {
		case <-b.here:
		case <-timer.C():
			return
		case <-b.closed:
			return
		}
	}
}

func (b *batcher[T]) allAreHere() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.coming == 0
}

// take makes a batch of the queue. If that is empty the worker is at its end.
func (b *batcher[T]) take() (context.Context, []*call[T]) {
	b.mu.Lock()
	defer b.mu.Unlock()
	calls := b.queue
	b.queue = nil
	if len(calls) == 0 {
		b.running = false
		return nil, nil
	}
	ctx, cancel := context.WithCancel(context.Background())
	b.abort = cancel
	select {
	case <-b.closed:
		cancel()
	default:
	}
	batch := &batch{wanted: len(calls), cancel: cancel}
	for _, c := range calls {
		c.batch = batch
	}
	return ctx, calls
}

func (b *batcher[T]) finish(calls []*call[T]) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.abort()
	b.abort = nil
	for _, c := range calls {
		close(c.done)
	}
}

// close cancels what runs, refuses what comes, and waits for the worker.
func (b *batcher[T]) close() {
	b.mu.Lock()
	select {
	case <-b.closed:
	default:
		close(b.closed)
	}
	if b.abort != nil {
		b.abort()
	}
	b.mu.Unlock()
	b.worker.Wait()
}
