package batch

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"
)

var errClosed = errors.New("closed")

func TestBatches_PanicIsAnErrorOfAllWhoAsked(t *testing.T) {
	b := New(errClosed, func(context.Context, []int) { panic("oops") })
	defer b.Close()
	for range 2 {
		if err := b.Ask(t.Context(), 1); err == nil || !strings.Contains(err.Error(), "oops") {
			t.Errorf("error %v, want one that tells of the panic", err)
		}
	}
}

func TestBatches_EndWithTheLastWhoAsked(t *testing.T) {
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

func TestBatches_EndedContext_IsNotAskedFor(t *testing.T) {
	b := New(errClosed, func(context.Context, []int) { t.Error("asked") })
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := b.Ask(ctx, 1); !errors.Is(err, context.Canceled) {
		t.Errorf("error %v", err)
	}
	b.Close()
}

func TestBatches_WhatIsAskedMeanwhile_IsAnsweredTogether(t *testing.T) {
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
		t.Errorf("the next batch has %d questions, and the error %v; want 10 and none", len(asked), next.err)
	}
}

func TestBatches_Close_CancelsAndRefuses(t *testing.T) {
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
		t.Errorf("what is asked after the end gets %v", err)
	}
	b.Close()
}

func TestBatches_CarryWhatTheCallersContextDoes(t *testing.T) {
	type key struct{}
	got := make(chan any, 1)
	b := New(errClosed, func(ctx context.Context, _ []int) {
		_, limited := ctx.Deadline()
		got <- []any{ctx.Value(key{}), limited}[0]
		if limited {
			t.Error("the batch has the deadline of the first who asked")
		}
	})
	defer b.Close()
	ctx, cancel := context.WithTimeout(context.WithValue(t.Context(), key{}, "value"), time.Minute)
	defer cancel()
	if err := b.Ask(ctx, 1); err != nil || <-got != "value" {
		t.Errorf("error %v, or another value", err)
	}
}

func TestInParallel_PanicIsAnErrorOfItsItem(t *testing.T) {
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
