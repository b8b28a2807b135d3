package instances

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/fxccm/fxccm/provider/openstack/openstacktest"
)

func TestBatches_PanicIsAnErrorOfAllWhoAsked(t *testing.T) {
	b := batches[int]{answer: func(context.Context, []int) { panic("oops") }}
	defer b.close()
	for range 2 {
		if err := b.ask(t.Context(), 1); err == nil || !strings.Contains(err.Error(), "oops") {
			t.Errorf("error %v, want one that tells of the panic", err)
		}
	}
}

func TestBatches_EndWithTheLastWhoAsked(t *testing.T) {
	began, ended := make(chan struct{}), make(chan struct{})
	b := batches[int]{answer: func(ctx context.Context, _ []int) {
		close(began)
		<-ctx.Done()
		close(ended)
	}}
	defer b.close()
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- b.ask(ctx, 1) }()
	<-began
	cancel()
	if err := <-done; !errors.Is(err, context.Canceled) {
		t.Errorf("error %v", err)
	}
	<-ended
}

func TestBatches_EndedContext_IsNotAskedFor(t *testing.T) {
	b := batches[int]{answer: func(context.Context, []int) { t.Error("asked") }}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := b.ask(ctx, 1); !errors.Is(err, context.Canceled) {
		t.Errorf("error %v", err)
	}
	b.close()
}

func TestBatches_CarryWhatTheCallersContextDoes(t *testing.T) {
	type key struct{}
	got := make(chan any, 1)
	b := batches[int]{answer: func(ctx context.Context, _ []int) {
		_, limited := ctx.Deadline()
		got <- []any{ctx.Value(key{}), limited}[0]
		if limited {
			t.Error("the batch has the deadline of the first who asked")
		}
	}}
	defer b.close()
	ctx, cancel := context.WithTimeout(context.WithValue(t.Context(), key{}, "value"), time.Minute)
	defer cancel()
	if err := b.ask(ctx, 1); err != nil || <-got != "value" {
		t.Errorf("error %v, or another value", err)
	}
}

func TestInParallel_PanicIsAnErrorOfItsItem(t *testing.T) {
	errs := inParallel([]int{1, 2, 3}, 2, func(n int) error {
		if n == 2 {
			panic("oops")
		}
		return nil
	})
	if errs[0] != nil || errs[1] == nil || errs[2] != nil {
		t.Errorf("errors %v", errs)
	}
}

func TestRequestThatHangs_HoldsUpNobodyElse(t *testing.T) {
	w := newWorld(t)
	nodes := w.addNodes(2)
	hanging, cancel := context.WithCancel(t.Context())
	w.cloud.Inject(openstacktest.Fault{Hang: true, Match: func(c openstacktest.Call) bool { return strings.HasSuffix(c.Path, idOf(nodes[0])) }})
	done := make(chan error, 1)
	go func() { _, err := w.V2().InstanceExists(hanging, nodes[0]); done <- err }()
	if _, err := w.cloud.WaitForCall(within(t), func(c openstacktest.Call) bool { return c.Operation == "server_get" }); err != nil {
		t.Fatal(err)
	}
	if !w.exists(nodes[1]) {
		t.Error("the other instance does not exist")
	}
	select {
	case err := <-done:
		t.Errorf("the request did not hang: %v", err)
	default:
	}
	cancel()
	<-done
}
