package instances

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/fxccm/fxccm/provider/openstack/internal/rescue"
)

// How long questions are collected. This is pacing, like latency, and of the real clock: no answer depends on it.
const (
	// gather is what a batch waits for questions that are asked at the same moment.
	gather = 3 * time.Millisecond
	// patience is what a batch waits, collecting, for the one before it. A request that hangs holds the others up for no longer.
	patience = time.Second
)

// ErrClosed is returned for what is asked after [Instances.Close].
var ErrClosed = errors.New("the lookups of instances are closed")

// batches answers together what is asked together: while one batch is under way the next one collects.
//
// A batch has a goroutine of its own, for it belongs to all who asked: it ends when the last of them has gone. close waits for it.
type batches[Q any] struct {
	// answer answers all questions of a batch.
	answer func(context.Context, []Q)

	mu     sync.Mutex
	closed bool
	// open collects; nil: none does. latest is the last one that has begun to answer.
	open, latest *batch[Q]
	running      sync.WaitGroup
	cancelAll    map[*batch[Q]]context.CancelFunc
}

type batch[Q any] struct {
	// ctx ends with the last of those who wait.
	ctx     context.Context
	cancel  context.CancelFunc
	waiting int
	asked   []Q
	done    chan struct{}
	// err is set before done is closed.
	err error
}

// ask returns when the question is answered, or ctx ends.
func (b *batches[Q]) ask(ctx context.Context, question Q) error {
	mine, err := b.join(ctx, question)
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

func (b *batches[Q]) join(ctx context.Context, question Q) (*batch[Q], error) {
	if err := ctx.Err(); err != nil {
		return nil, context.Cause(ctx)
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.closed {
		return nil, ErrClosed
	}
	if b.open == nil {
		b.open = b.start(ctx)
	}
	mine := b.open
	mine.waiting++
	mine.asked = append(mine.asked, question)
	return mine, nil
}

// start is called with the lock held. The batch keeps what the first one's context carries, but not its end.
func (b *batches[Q]) start(first context.Context) *batch[Q] {
	ctx, cancel := context.WithCancel(context.WithoutCancel(first))
	started := &batch[Q]{ctx: ctx, cancel: cancel, done: make(chan struct{})}
	if b.cancelAll == nil {
		b.cancelAll = map[*batch[Q]]context.CancelFunc{}
	}
	b.cancelAll[started] = cancel
	b.running.Add(1)
	go b.run(started)
	return started
}

func (b *batches[Q]) leave(left *batch[Q]) {
	b.mu.Lock()
	defer b.mu.Unlock()
	left.waiting--
	if left.waiting > 0 {
		return
	}
	left.cancel()
	if b.open == left {
		b.open = nil
	}
}

func (b *batches[Q]) run(mine *batch[Q]) {
	defer b.running.Done()
	defer mine.cancel()
	pause(mine.ctx, gather, nil)
	b.mu.Lock()
	before := b.latest
	b.mu.Unlock()
	if before != nil {
		pause(mine.ctx, patience, before.done)
	}

	b.mu.Lock()
	if b.open == mine {
		b.open = nil
	}
	b.latest = mine
	asked := mine.asked
	b.mu.Unlock()

	mine.err = rescue.Panic(func() error {
		if mine.ctx.Err() != nil {
			return ErrClosed
		}
		b.answer(mine.ctx, asked)
		return nil
	})
	close(mine.done)
	b.mu.Lock()
	delete(b.cancelAll, mine)
	if b.latest == mine {
		b.latest = nil
	}
	b.mu.Unlock()
}

// close cancels what is under way and waits for its end.
func (b *batches[Q]) close() {
	b.mu.Lock()
	b.closed = true
	for _, cancel := range b.cancelAll {
		cancel()
	}
	b.mu.Unlock()
	b.running.Wait()
}

func pause(ctx context.Context, d time.Duration, until <-chan struct{}) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-until:
	case <-ctx.Done():
	}
}

// inParallel calls f for each item, width of them at a time, and waits for all.
func inParallel[T any](items []T, width int, f func(T) error) []error {
	errs := make([]error, len(items))
	var wg sync.WaitGroup
	slots := make(chan struct{}, width)
	for i, item := range items {
		slots <- struct{}{}
		wg.Go(func() {
			defer func() { <-slots }()
			errs[i] = rescue.Panic(func() error { return f(item) })
		})
	}
	wg.Wait()
	return errs
}
