package apply

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/fxccm/fxccm/provider/openstack/internal/loadbalancer/octavia"
	"github.com/fxccm/fxccm/provider/openstack/internal/loadbalancer/plan"
)

// slowOctavia answers a creation when it is told to.
type slowOctavia struct {
	Octavia
	asked  chan string
	answer chan error
}

func (o *slowOctavia) CreateLoadBalancer(
	_ context.Context, lb octavia.LoadBalancer, _ []octavia.Port,
) (octavia.LoadBalancer, error) {
	o.asked <- lb.Name
	lb.ID = "id of " + lb.Name
	return lb, <-o.answer
}

// queued are runs that each make a load balancer.
type queued struct {
	*slowOctavia
	executor *Executor
	ended    chan error
}

func newQueued() *queued {
	o := &slowOctavia{asked: make(chan string, 100), answer: make(chan error)}
	return &queued{o, New(Config{Octavia: o}), make(chan error, 100)}
}

func (q *queued) begin(ctx context.Context, name string, timeout time.Duration) {
	go func() {
		step := plan.CreateLoadBalancer{LoadBalancer: octavia.LoadBalancer{Name: name}}
		_, err := q.executor.Run(ctx, plan.Plan{Steps: []plan.Step{step}}, State{Timeout: timeout})
		q.ended <- err
	}()
}

// fill has as many load balancers made as may be made at a time.
func (q *queued) fill(t *testing.T) {
	t.Helper()
	for i := range maxMaking {
		q.begin(t.Context(), fmt.Sprint("first-", i), 0)
	}
	for range maxMaking {
		<-q.asked
	}
}

// finish has as many answered.
func (q *queued) finish(t *testing.T, n int) {
	t.Helper()
	for range n {
		q.answer <- nil
	}
	for range n {
		if err := <-q.ended; err != nil {
			t.Error(err)
		}
	}
}

func TestCreateLoadBalancer_WhileManyAreMade_MakesNoRequest(t *testing.T) {
	q := newQueued()
	q.fill(t)
	q.begin(t.Context(), "late", 0)
	if err := <-q.ended; !errors.Is(err, ErrQueued) || len(q.asked) > 0 {
		t.Errorf("%v, and %d requests", err, len(q.asked))
	}
	q.begin(t.Context(), "less late", time.Millisecond)
	if err := <-q.ended; !errors.Is(err, ErrQueued) || len(q.asked) > 0 {
		t.Errorf("%v, and %d requests", err, len(q.asked))
	}
	ctx, cancel := context.WithCancel(t.Context())
	q.begin(ctx, "its caller stops waiting", time.Hour)
	cancel()
	if err := <-q.ended; !errors.Is(err, context.Canceled) || len(q.asked) > 0 {
		t.Errorf("%v, and %d requests", err, len(q.asked))
	}
	q.finish(t, maxMaking)
}

func TestCreateLoadBalancer_WhenOneIsMade_TheNextIsBegun(t *testing.T) {
	q := newQueued()
	q.fill(t)
	q.begin(t.Context(), "next", time.Hour)
	failed := errors.New("Octavia has failed")
	q.answer <- failed
	if err := <-q.ended; !errors.Is(err, failed) {
		t.Errorf("%v; want %v", err, failed)
	}
	if name := <-q.asked; name != "next" {
		t.Errorf("%s was made", name)
	}
	q.finish(t, maxMaking)
}
