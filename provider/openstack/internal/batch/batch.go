// Package batch answers together what is asked together.
package batch

import (
	"context"
	"sync"
	"time"

	"github.com/fxccm/fxccm/internal/rescue"
)

// How long questions are collected. This is pacing, like latency, and of the real clock: no answer depends on it.
const (
	// gather is what a batch waits for questions that are asked at the same moment.
	gather = 3 * time.Millisecond
	// patience is what a batch waits, collecting, for the one before it. A request that hangs holds the others up for no longer.
	patience = time.Second
)

// Batches answers together what is asked together: while one batch is under way the next one collects.
//
// A batch has a goroutine of its own, for it belongs to all who asked: it ends when the last of them has gone. Close waits for it.
// Whatever is done to answer a question begins after it was asked. It is safe for concurrent use.
type Batches[Q any] struct {
	answer func(context.Context, []Q)
	// refusal is the error of what is asked after the end.
	refusal error

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

// New returns batches that are answered by a function. It puts the answers into the questions, which who asked may read when Ask has
// returned nil, and only then. Its context carries what that of the first who asked does, but ends with the last. What is asked after
// Close fails with the error closed.
func New[Q any](closed error, answer func(context.Context, []Q)) *Batches[Q] {
	return &Batches[Q]{answer: answer, refusal: closed, cancelAll: map[*batch[Q]]context.CancelFunc{}}
}

// Ask returns when the question is answered, or ctx ends. A panic of the function that answers is an error of all who asked.
func (b *Batches[Q]) Ask(ctx context.Context, question Q) error {
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

func (b *Batches[Q]) join(ctx context.Context, question Q) (*batch[Q], error) {
	if err := ctx.Err(); err != nil {
		return nil, context.Cause(ctx)
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.closed {
		return nil, b.refusal
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
func (b *Batches[Q]) start(first context.Context) *batch[Q] {
	ctx, cancel := context.WithCancel(context.WithoutCancel(first))
	started := &batch[Q]{ctx: ctx, cancel: cancel, done: make(chan struct{})}
	b.cancelAll[started] = cancel
	b.running.Add(1)
	go b.run(started)
	return started
}

func (b *Batches[Q]) leave(left *batch[Q]) {
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

func (b *Batches[Q]) run(mine *batch[Q]) {
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
			return b.refusal
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

// Close cancels what is under way and waits for its end. Another call does nothing.
func (b *Batches[Q]) Close() {
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
