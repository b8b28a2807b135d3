package batch

import (
	"context"
	"errors"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

var errClosed = errors.New("closed")

func TestAsk_ServePanics_AllCallersGetAnError(t *testing.T) {
	b := New(errClosed, func(context.Context, []int) { panic("oops") })
	defer b.Close()
	for range 2 {
		if err := b.Ask(t.Context(), 1); err == nil || !strings.Contains(err.Error(), "oops") {
			t.Errorf("error %v, want one that names the panic", err)
		}
	}
}

func TestAsk_LastCallerLeaves_CancelsTheBatch(t *testing.T) {
	began, ended := make(chan struct{}), make(chan struct{})
	b := New(errClosed, func(ctx context.Context, _ []int) {
		close(began)
		<-ctx.Done()
		close(ended)
	})
	defer b.Close()
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- b.Ask(ctx, 1) }()
	<-began
	cancel()
	if err := <-done; !errors.Is(err, context.Canceled) {
		t.Errorf("error %v", err)
	}
	<-ended
}

func TestAsk_CanceledContext_IsNotServed(t *testing.T) {
	b := New(errClosed, func(context.Context, []int) { t.Error("a batch was served") })
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := b.Ask(ctx, 1); !errors.Is(err, context.Canceled) {
		t.Errorf("error %v", err)
	}
	b.Close()
}

func TestAsk_BatchInFlight_NewCallsFormTheNextBatch(t *testing.T) {
	began, goOn := make(chan []int, 3), make(chan struct{})
	b := New(errClosed, func(_ context.Context, asked []int) {
		began <- asked
		<-goOn
	})
	defer b.Close()
	first := make(chan error, 1)
	go func() { first <- b.Ask(t.Context(), 0) }()
	<-began
	var next *batch[int]
	for n := range 10 {
		var err error
		if next, err = b.join(t.Context(), n); err != nil {
			t.Fatal(err)
		}
	}
	close(goOn)
	if err := <-first; err != nil {
		t.Error(err)
	}
	<-next.done
	if asked := <-began; len(asked) != 10 || next.err != nil {
		t.Errorf("the next batch has %d calls and error %v, want 10 and none", len(asked), next.err)
	}
}

func TestClose_BatchInFlight_CancelsItAndRefusesNewCalls(t *testing.T) {
	began := make(chan struct{})
	b := New(errClosed, func(ctx context.Context, _ []int) {
		close(began)
		<-ctx.Done()
	})
	done := make(chan error, 1)
	go func() { done <- b.Ask(t.Context(), 1) }()
	<-began
	b.Close()
	<-done
	if err := b.Ask(t.Context(), 2); !errors.Is(err, errClosed) {
		t.Errorf("a call after Close returned %v", err)
	}
	b.Close()
}

func TestAsk_ContextValue_ReachesServeWithoutTheDeadline(t *testing.T) {
	type key struct{}
	got := make(chan any, 1)
	b := New(errClosed, func(ctx context.Context, _ []int) {
		_, limited := ctx.Deadline()
		got <- []any{ctx.Value(key{}), limited}[0]
		if limited {
			t.Error("the batch has the deadline of its first caller")
		}
	})
	defer b.Close()
	ctx, cancel := context.WithTimeout(context.WithValue(t.Context(), key{}, "value"), time.Minute)
	defer cancel()
	if err := b.Ask(ctx, 1); err != nil || <-got != "value" {
		t.Errorf("error %v, or another value", err)
	}
}

func TestInParallel_FunctionPanics_OnlyItsItemFails(t *testing.T) {
	errs := InParallel([]int{1, 2, 3}, 2, func(n int) error {
		if n == 2 {
			panic("oops")
		}
		return nil
	})
	if errs[0] != nil || errs[1] == nil || errs[2] != nil {
		t.Errorf("errors %v", errs)
	}
}

func TestAsk_ExpectedCall_IsServedInTheSameBatch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		served := make(chan []int, 2)
		b := NewSerial(errClosed, func(_ context.Context, calls []int) { served <- calls })
		defer b.Close()
		arrived := b.Expect()
		first := make(chan error, 1)
		go func() { first <- b.Ask(t.Context(), 1) }()
		// The announced call comes long after the window, but before the timeout for announced
		// calls.
		select {
		case calls := <-served:
			t.Fatalf("the batch %v did not wait for the announced call", calls)
		case <-time.After(10 * window):
		}
		if err := b.AskExpected(t.Context(), 2, arrived); err != nil {
			t.Error(err)
		}
		if err := <-first; err != nil {
			t.Error(err)
		}
		if calls := <-served; len(calls) != 2 {
			t.Errorf("the first batch has the calls %v, want both", calls)
		}
	})
}

func TestAsk_SerialBatchInFlight_NoOtherBatchStarts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const callers = 50
		var inFlight, peak atomic.Int32
		b := NewSerial(errClosed, func(context.Context, []int) {
			peak.Store(max(peak.Load(), inFlight.Add(1)))
			runtime.Gosched()
			inFlight.Add(-1)
		})
		defer b.Close()
		var all sync.WaitGroup
		for n := range callers {
			all.Go(func() {
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				if n%3 == 0 { // callers that leave at any moment
					go cancel()
				}
				time.Sleep(time.Duration(n) * time.Millisecond)
				_ = b.Ask(ctx, n)
			})
		}
		all.Wait()
		if peak.Load() != 1 {
			t.Errorf("%d batches ran at the same time", peak.Load())
		}
	})
}

func TestAsk_SerialBatchIsAbandonedWhileItWaits_TheNextStillWaitsForTheFirst(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		began, goOn := make(chan []int, 3), make(chan struct{})
		b := NewSerial(errClosed, func(_ context.Context, calls []int) {
			began <- calls
			<-goOn
		})
		first := make(chan error, 1)
		go func() { first <- b.Ask(t.Context(), 1) }()
		<-began
		abandoned, err := b.join(t.Context(), 2)
		if err != nil {
			t.Fatal(err)
		}
		b.leave(abandoned)
		<-abandoned.done
		third := make(chan error, 1)
		go func() { third <- b.Ask(t.Context(), 3) }()
		select {
		case calls := <-began:
			t.Errorf("the batch %v started while the first was in flight", calls)
		case <-time.After(10 * window):
		}
		close(goOn)
		for _, done := range []chan error{first, third} {
			if err := <-done; err != nil {
				t.Error(err)
			}
		}
		b.Close()
	})
}
