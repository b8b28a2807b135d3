package routes

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"
	"time"

	"k8s.io/utils/clock"
	clocktesting "k8s.io/utils/clock/testing"
)

// recorder holds each batch back until it is let go, and fails the value "bad".
type recorder struct {
	began chan []string
	goOn  chan struct{}
}

func newRecorder() *recorder {
	return &recorder{began: make(chan []string, 10), goOn: make(chan struct{}, 10)}
}

func (r *recorder) run(ctx context.Context, calls []*call[string]) {
	var values []string
	for _, c := range calls {
		values = append(values, c.value)
	}
	r.began <- values
	select {
	case <-r.goOn:
	case <-ctx.Done():
		for _, c := range calls {
			c.err = ctx.Err()
		}
		return
	}
	for _, c := range calls {
		if c.value == "bad" {
			c.err = errors.New("bad")
		}
	}
}

func doing(ctx context.Context, b *batcher[string], value string) <-chan error {
	done := make(chan error, 1)
	arrived := b.expect()
	go func() { done <- b.do(ctx, value, arrived) }()
	return done
}

// queued waits until so many calls wait for the next batch.
func queued(t *testing.T, b *batcher[string], n int) {
	t.Helper()
	eventually(t, "calls are queued", func() bool {
		b.mu.Lock()
		defer b.mu.Unlock()
		return len(b.queue) == n
	})
}

func eventually(t *testing.T, what string, is func() bool) {
	t.Helper()
	deadline := time.Now().Add(30 * time.Second)
	for !is() {
		if time.Now().After(deadline) {
			t.Fatalf("in vain waited until %s", what)
		}
		time.Sleep(time.Millisecond)
	}
}

func TestBatcher_WhatIsAskedForMeanwhile_IsTheNextBatch(t *testing.T) {
	r := newRecorder()
	b := newBatcher(clock.RealClock{}, -1, 0, r.run)
	defer b.close()
	first := doing(t.Context(), b, "first")
	<-r.began
	second, bad := doing(t.Context(), b, "second"), doing(t.Context(), b, "bad")
	queued(t, b, 2)
	r.goOn <- struct{}{}
	if err := <-first; err != nil {
		t.Error(err)
	}
	if next := <-r.began; len(next) != 2 {
		t.Errorf("the next batch is %v", next)
	}
	r.goOn <- struct{}{}
	if err := <-second; err != nil {
		t.Errorf("the error of another was given to this one: %v", err)
	}
	if err := <-bad; err == nil {
		t.Error("the one that failed was told nothing")
	}
}

func TestBatcher_Window_GathersWhatComesInIt(t *testing.T) {
	r := newRecorder()
	c := clocktesting.NewFakeClock(time.Now())
	b := newBatcher(c, DefaultWindow, 0, r.run)
	defer b.close()
	first, second := doing(t.Context(), b, "first"), doing(t.Context(), b, "second")
	queued(t, b, 2)
	eventually(t, "the window is open", c.HasWaiters)
	c.Step(DefaultWindow)
	if batch := <-r.began; len(batch) != 2 {
		t.Errorf("the batch is %v", batch)
	}
	r.goOn <- struct{}{}
	<-first
	<-second
}

func TestBatcher_WhoIsExpected_IsWaitedForAWhile(t *testing.T) {
	r := newRecorder()
	c := clocktesting.NewFakeClock(time.Now())
	b := newBatcher(c, -1, linger, r.run)
	defer b.close()
	slow := b.expect()
	first := doing(t.Context(), b, "first")
	eventually(t, "the slow one is waited for", c.HasWaiters)
	c.Step(linger)
	if batch := <-r.began; len(batch) != 1 {
		t.Errorf("the batch is %v", batch)
	}
	r.goOn <- struct{}{}
	if err := <-first; err != nil {
		t.Error(err)
	}

	// The next comes together with the slow one, although the clock stands still.
	second := doing(t.Context(), b, "second")
	queued(t, b, 1)
	third := make(chan error, 1)
	go func() { third <- b.do(t.Context(), "slow", slow) }()
	if batch := <-r.began; len(batch) != 2 {
		t.Errorf("the batch is %v", batch)
	}
	r.goOn <- struct{}{}
	<-second
	<-third
}

func TestBatcher_CallerGivesUp_DoesNotHoldUpTheOthers(t *testing.T) {
	r := newRecorder()
	b := newBatcher(clock.RealClock{}, -1, 0, r.run)
	defer b.close()
	first := doing(t.Context(), b, "first")
	<-r.began

	// One that is still queued is not done at all.
	ctx, giveUp := context.WithCancel(t.Context())
	leaving, staying := doing(ctx, b, "leaving"), doing(t.Context(), b, "staying")
	queued(t, b, 2)
	giveUp()
	if err := <-leaving; !errors.Is(err, context.Canceled) {
		t.Errorf("who gave up gets %v", err)
	}
	r.goOn <- struct{}{}
	<-first
	if batch := <-r.began; len(batch) != 1 || batch[0] != "staying" {
		t.Errorf("the batch is %v", batch)
	}
	r.goOn <- struct{}{}
	if err := <-staying; err != nil {
		t.Errorf("who stayed gets %v", err)
	}
}

func TestBatcher_AllCallersGiveUp_TheBatchIsCancelled(t *testing.T) {
	r := newRecorder()
	b := newBatcher(clock.RealClock{}, -1, 0, r.run)
	ctx, giveUp := context.WithCancel(t.Context())
	only := doing(ctx, b, "only")
	<-r.began
	giveUp()
	<-only
	// Nothing lets the batch go on: only its cancellation ends the worker.
	b.worker.Wait()
	b.close()
}

func TestBatcher_Close_CancelsAndRefuses(t *testing.T) {
	r := newRecorder()
	b := newBatcher(clock.RealClock{}, -1, 0, r.run)
	running := doing(t.Context(), b, "running")
	<-r.began
	waiting := doing(t.Context(), b, "waiting")
	queued(t, b, 1)
	b.close()
	for _, done := range []<-chan error{running, waiting} {
		if err := <-done; !errors.Is(err, context.Canceled) {
			t.Errorf("the answer is %v", err)
		}
	}
	if err := b.do(t.Context(), "late", func() {}); !errors.Is(err, errClosed) {
		t.Errorf("after the end the answer is %v", err)
	}
	b.close()
}

func TestKeyedLocks_KeepOneKeyApart_AndForgetIt(t *testing.T) {
	k := keyedLocks{held: map[string]*keyedLock{}}
	inside := map[string]int{}
	var callers sync.WaitGroup
	for i := range 100 {
		key := string(rune('a' + i%3))
		callers.Go(func() {
			unlock, err := k.lock(t.Context(), key)
			if err != nil {
				t.Error(err)
				return
			}
			defer unlock()
			k.mu.Lock()
			inside[key]++
			if inside[key] > 1 {
				t.Errorf("two hold %s", key)
			}
			k.mu.Unlock()
			k.mu.Lock()
			inside[key]--
			k.mu.Unlock()
		})
	}
	callers.Wait()
	unlock, err := k.lock(t.Context(), "a")
	if err != nil {
		t.Fatal(err)
	}
	ctx, giveUp := context.WithCancel(t.Context())
	giveUp()
	if _, err := k.lock(ctx, "a"); !errors.Is(err, context.Canceled) {
		t.Errorf("who gave up gets %v", err)
	}
	unlock()
	if len(k.held) != 0 {
		t.Errorf("%d locks are left behind", len(k.held))
	}
}

// A batch runs on a goroutine of its own, on which nobody else is to catch a panic.
func TestBatcher_BatchThatPanics_IsAnErrorOfItsCallers(t *testing.T) {
	b := newBatcher(clock.RealClock{}, -1, 0, func(_ context.Context, calls []*call[string]) {
		if calls[0].value == "bad" {
			panic("boom")
		}
	})
	defer b.close()
	if err := <-doing(t.Context(), b, "bad"); err == nil || !strings.Contains(err.Error(), "boom") {
		t.Errorf("of a panic: %v", err)
	}
	if err := <-doing(t.Context(), b, "good"); err != nil {
		t.Errorf("after it: %v", err)
	}
}
