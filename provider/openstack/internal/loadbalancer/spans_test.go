package loadbalancer

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/utils/clock"

	"github.com/fxccm/fxccm/internal/fence"
	"github.com/fxccm/fxccm/internal/rescue"
	"github.com/fxccm/fxccm/internal/tracing"
	"github.com/fxccm/fxccm/provider/openstack/internal/loadbalancer/desired"
	"github.com/fxccm/fxccm/provider/openstack/internal/loadbalancer/octavia"
	"github.com/fxccm/fxccm/provider/openstack/internal/loadbalancer/plan"
)

// spans records the spans that are open, and the errors of those that have ended.
type spans struct {
	mu     sync.Mutex
	open   []string
	failed map[string]error
}

func (s *spans) StartSpan(
	ctx context.Context, name string, _ []slog.Attr,
) (context.Context, func(error, []slog.Attr)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.open = append(s.open, name)
	return ctx, func(err error, _ []slog.Attr) {
		s.mu.Lock()
		defer s.mu.Unlock()
		if at := slices.Index(s.open, name); at >= 0 {
			s.open = slices.Delete(s.open, at, at+1)
		}
		if err != nil {
			s.failed[name] = err
		}
	}
}

// A panic becomes an error of the reconcile. Each span has ended by then.
func TestSpans_ReconcilePanics_AllHaveEnded(t *testing.T) {
	t.Parallel()
	for name, run := range map[string]func(context.Context, *reconciler) error{
		"observe": func(ctx context.Context, r *reconciler) error {
			r.found.balancer = &octavia.LoadBalancer{ID: "lb"}
			_, _, _, err := r.diff(ctx, desired.State{}, false)
			return err
		},
		"observe before a deletion": func(ctx context.Context, r *reconciler) error {
			return r.deleteRest(ctx, time.Time{})
		},
		"a step": func(ctx context.Context, r *reconciler) error {
			todo := plan.Plan{Steps: []plan.Step{plan.TagFloatingIP{Tags: []string{"a"}}}}
			_, err := r.of.runner.Run(ctx, todo, nil, 0)
			return err
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			// Without a cloud each request panics.
			l := &LoadBalancers{runner: plan.NewRunner(plan.Runner{Clock: clock.RealClock{}})}
			r := l.reconciler(request{service: &v1.Service{}}, newServiceState(), true)
			s := &spans{failed: map[string]error{}}
			began := false
			err := rescue.Panic(func() error {
				return tracing.Do(tracing.With(t.Context(), s), "call",
					func(ctx context.Context) error {
						began = tracing.IsInside(ctx)
						return run(ctx, r)
					})
			})
			if err == nil || !began {
				t.Fatalf("no panic: %v", err)
			}
			if len(s.open) > 0 || len(s.failed) != 2 {
				t.Errorf("after %v these spans are open: %q, and these have failed: %v", err, s.open,
					s.failed)
			}
		})
	}
}

// A repair that ends with the term, or with the Service, has not failed.
func TestSpans_RepairIsNoLongerNeeded_SpanHasNotFailed(t *testing.T) {
	t.Parallel()
	failure := errors.New("the cloud fails")
	for _, test := range []struct {
		err   error
		fails bool
	}{
		{nil, false},
		{fmt.Errorf("service a/b %w", errUnwanted), false},
		{fmt.Errorf("list: %w", fence.ErrClosed), false},
		{failure, true},
	} {
		s := &spans{failed: map[string]error{}}
		r := newRepairs(&LoadBalancers{})
		r.traced = tracing.With(r.ctx, s)
		err := r.inSpan(&v1.Service{}, func(context.Context) error { return test.err })
		if !errors.Is(err, test.err) || (len(s.failed) > 0) != test.fails {
			t.Errorf("%v: the error is %v, failed are %v", test.err, err, s.failed)
		}
		// The term ends.
		err = r.inSpan(&v1.Service{}, func(ctx context.Context) error {
			r.cancel()
			<-ctx.Done()
			return context.Cause(ctx)
		})
		if !errors.Is(err, context.Canceled) || len(s.failed) > 0 && !test.fails {
			t.Errorf("after the end the error is %v, failed are %v", err, s.failed)
		}
		r.close()
	}
}
