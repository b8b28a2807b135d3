package octavia

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/fxccm/fxccm/internal/waittest"
	"github.com/fxccm/fxccm/provider/openstack/openstacktest"
)

// settling is a wait for a load balancer.
type settling struct {
	lb   LoadBalancer
	err  error
	done chan struct{}
}

func (w *world) settle(ctx context.Context, id string, limit time.Duration) *settling {
	s := &settling{done: make(chan struct{})}
	go func() {
		defer close(s.done)
		s.lb, s.err = w.Settled(ctx, id, PendingUpdate, limit)
	}()
	return s
}

// result fails the test if the wait does not end.
func (s *settling) result(t *testing.T) (LoadBalancer, error) {
	t.Helper()
	select {
	case <-s.done:
	case <-within(t).Done():
		t.Fatal("the wait does not end")
	}
	return s.lb, s.err
}

// setStatus changes the status of load balancers in the cloud.
func (w *world) setStatus(status Status, ids ...string) {
	w.t.Helper()
	for _, id := range ids {
		if err := w.cloud.SetProvisioningStatus(id, string(status)); err != nil {
			w.t.Fatal(err)
		}
	}
}

// pausing waits until n callers wait for the clock.
func (w *world) pausing(n int) {
	w.t.Helper()
	waittest.Until(w.t, fmt.Sprintf("%d waits pause", n),
		func() bool { return w.clock.Waiters() == n })
}

func TestSettled_NotPending_ReturnsAtOnce(t *testing.T) {
	for _, status := range []Status{Active, InError} {
		w := newWorld(t)
		id := w.add("lb", 0, 0)
		w.setStatus(status, id)
		lb, err := w.Settled(within(t), id, PendingUpdate, 0)
		if lb.Status != status || lb.ID != id || err != nil {
			t.Errorf("%+v, %v; want %s", lb, err, status)
		}
		w.calls(map[string]int{"loadbalancer_get": 1})
	}
}

func TestSettled_SingleCaller_ReadsOneLoadBalancer(t *testing.T) {
	w := newWorld(t)
	id := w.add("lb", 0, 0)
	w.setStatus(PendingUpdate, id)
	s := w.settle(t.Context(), id, time.Minute)
	for range 3 {
		w.pausing(1)
		w.clock.Step(maxPause)
	}
	w.pausing(1)
	w.setStatus(Active, id)
	w.clock.Step(maxPause)
	if lb, err := s.result(t); lb.Status != Active || err != nil {
		t.Errorf("%+v, %v", lb, err)
	}
	w.calls(map[string]int{"loadbalancer_get": 5})
}

func TestSettled_ManyWaits_ShareOneListATick(t *testing.T) {
	const many = 100
	w := newWorld(t)
	var ids []string
	for n := range many {
		ids = append(ids, w.add(fmt.Sprintf("lb-%d", n), 0, 0))
	}
	w.setStatus(PendingCreate, ids...)
	var waits []*settling
	for _, id := range ids {
		waits = append(waits, w.settle(t.Context(), id, time.Hour))
	}
	w.pausing(many)
	for n := range 5 {
		w.cloud.ForgetCalls()
		w.clock.Step(maxPause)
		w.pausing(many)
		if t.Failed() {
			t.Fatalf("at step %d", n)
		}
		w.calls(map[string]int{"loadbalancer_list": 1})
	}
	// Half of the load balancers are ready, one of them in ERROR.
	w.setStatus(Active, ids[:49]...)
	w.setStatus(InError, ids[49])
	w.clock.Step(maxPause)
	w.pausing(many / 2)
	w.setStatus(Active, ids[50:]...)
	w.clock.Step(maxPause)
	for n, s := range waits {
		want := Active
		if n == 49 {
			want = InError
		}
		if lb, err := s.result(t); lb.ID != ids[n] || lb.Status != want || err != nil {
			t.Errorf("%s: %+v, %v", ids[n], lb, err)
		}
	}
}

// Calls that begin at different times look at different times, but reuse the list of the last look.
func TestSettled_WaitsThatBeganAtOtherTimes_ShareOneListATick(t *testing.T) {
	const many = 10
	w := newWorld(t)
	var waits []*settling
	for n := range many {
		id := w.add(fmt.Sprintf("lb-%d", n), 0, 0)
		w.setStatus(PendingCreate, id)
		waits = append(waits, w.settle(t.Context(), id, time.Hour))
		w.pausing(n + 1)
		w.clock.Step(listMaxAge / many)
		w.pausing(n + 1)
	}
	const ticks = 5
	w.cloud.ForgetCalls()
	for range ticks * many {
		w.clock.Step(listMaxAge / many)
		w.pausing(many)
	}
	if calls := w.cloud.Counts(); calls["loadbalancer_list"] > ticks+1 || len(calls) != 1 {
		t.Errorf("calls %v in %d ticks, want one list in each", calls, ticks)
	}
	w.Close()
	for _, s := range waits {
		if _, err := s.result(t); !errors.Is(err, ErrClosed) {
			t.Errorf("after the end: %v", err)
		}
	}
}

func TestSettled_PendingThatNeverEnds_IsErrPendingAfterTheLimit(t *testing.T) {
	for _, limit := range []time.Duration{0, time.Second, 5 * time.Second} {
		w := newWorld(t)
		id := w.add("lb", 0, 0)
		w.setStatus(PendingUpdate, id)
		began := w.clock.Now()
		s := w.settle(t.Context(), id, limit)
		waittest.Until(w.t, "the wait ends", func() bool {
			if w.clock.HasWaiters() {
				w.clock.Step(minPause)
			}
			select {
			case <-s.done:
				return true
			default:
				return false
			}
		})
		lb, err := s.result(t)
		if !errors.Is(err, ErrPending) || lb.ID != id || lb.Status != PendingUpdate {
			t.Errorf("after %v: %+v, %v", limit, lb, err)
		}
		// Another request would come after the limit, so the call ends before it.
		if took := w.clock.Since(began); took > limit || took < limit/2 {
			t.Errorf("the call took %v, the limit is %v", took, limit)
		}
	}
}

func TestSettled_CallerGivesUp_EndsAtOnce(t *testing.T) {
	w := newWorld(t)
	first, second := w.add("first", 0, 0), w.add("second", 0, 0)
	w.setStatus(PendingUpdate, first, second)
	why := errors.New("over")
	ctx, cancel := context.WithCancelCause(t.Context())
	leaving, staying := w.settle(ctx, first, time.Hour), w.settle(t.Context(), second, time.Hour)
	w.pausing(2)
	cancel(why)
	// The clock stands still.
	if _, err := leaving.result(t); !errors.Is(err, why) {
		t.Errorf("the canceled call returned %v", err)
	}
	w.pausing(1)
	w.setStatus(Active, second)
	w.clock.Step(maxPause)
	if lb, err := staying.result(t); lb.ID != second || err != nil {
		t.Errorf("the other call returned %+v, %v", lb, err)
	}
	if _, err := w.Settled(ctx, first, PendingUpdate, time.Hour); !errors.Is(err, why) {
		t.Errorf("with a context that has ended: %v", err)
	}
}

func TestSettled_CallerGivesUpDuringTheRequest_EndsAtOnce(t *testing.T) {
	w := newWorld(t)
	id := w.add("lb", 0, 0)
	open := w.gate.close()
	defer open()
	ctx, cancel := context.WithCancel(t.Context())
	s := w.settle(ctx, id, time.Hour)
	w.called("loadbalancer_get")
	cancel()
	if _, err := s.result(t); !errors.Is(err, context.Canceled) {
		t.Errorf("error %v", err)
	}
}

func TestSettled_LoadBalancerIsDeletedMeanwhile_IsErrNotFound(t *testing.T) {
	w := newWorld(t)
	var ids []string
	var waits []*settling
	for n := range 3 {
		ids = append(ids, w.add(fmt.Sprintf("lb-%d", n), 0, 0))
	}
	w.setStatus(PendingDelete, ids...)
	for _, id := range ids {
		waits = append(waits, w.settle(t.Context(), id, time.Hour))
	}
	w.pausing(3)
	// One load balancer is gone, the other is shown as DELETED.
	if err := w.cloud.DeleteLoadBalancer(ids[0]); err != nil {
		t.Fatal(err)
	}
	w.setStatus(Deleted, ids[1])
	w.clock.Step(maxPause)
	for _, s := range waits[:2] {
		if lb, err := s.result(t); !errors.Is(err, ErrNotFound) {
			t.Errorf("%+v, %v; want %v", lb, err, ErrNotFound)
		}
	}
	w.pausing(1)
	if err := w.cloud.DeleteLoadBalancer(ids[2]); err != nil {
		t.Fatal(err)
	}
	w.clock.Step(maxPause)
	if _, err := waits[2].result(t); !errors.Is(err, ErrNotFound) {
		t.Errorf("the single caller gets %v", err)
	}
	if _, err := w.Settled(within(t), ids[2], PendingDelete,
		time.Hour); !errors.Is(err, ErrNotFound) {
		t.Errorf("a load balancer that was gone before the call: %v", err)
	}
}

func TestSettled_ListOfBeforeTheCall_IsNoAnswer(t *testing.T) {
	w := newWorld(t)
	first, second := w.add("first", 0, 0), w.add("second", 0, 0)
	w.list(0)
	w.setStatus(PendingUpdate, first, second)
	waits := []*settling{
		w.settle(t.Context(), first, time.Hour),
		w.settle(t.Context(), second, time.Hour),
	}
	w.pausing(2)
	w.clock.Step(maxPause)
	// In the list from before the calls both are ACTIVE.
	w.pausing(2)
	w.setStatus(Active, first, second)
	w.clock.Step(maxPause)
	for _, s := range waits {
		if lb, err := s.result(t); lb.Status != Active || err != nil {
			t.Errorf("%+v, %v", lb, err)
		}
	}
}

// An administrator may use load balancers of projects whose list is not read.
func TestSettled_AnotherProjects_IsReadAlone(t *testing.T) {
	w := newWorld(t)
	theirs := w.add("theirs", 0, 0)
	admin := w.open(w.cloud.AddProject(openstacktest.Project{Name: "admin", Admin: true}))
	w.API = admin
	w.setStatus(PendingUpdate, theirs)
	waits := []*settling{
		w.settle(t.Context(), theirs, time.Hour),
		w.settle(t.Context(), theirs, time.Hour),
	}
	w.pausing(2)
	w.clock.Step(maxPause)
	w.pausing(2)
	w.setStatus(Active, theirs)
	w.clock.Step(maxPause)
	for _, s := range waits {
		if lb, err := s.result(t); lb.Status != Active || err != nil {
			t.Errorf("%+v, %v", lb, err)
		}
	}
}

func TestSettled_Failure_IsReturned(t *testing.T) {
	w := newWorld(t)
	id := w.add("lb", 0, 0)
	w.cloud.Inject(openstacktest.Fault{Operation: "loadbalancer_get", Status: 500, Times: 1})
	_, err := w.Settled(within(t), id, PendingUpdate, time.Hour)
	if err == nil || errors.Is(err, ErrNotFound) ||
		errors.Is(err, ErrPending) {
		t.Errorf("error %v", err)
	}
	stranger := w.open(w.cloud.AddProject(openstacktest.Project{Name: "stranger"}))
	if _, err := stranger.Settled(within(t), id, PendingUpdate,
		time.Hour); !errors.Is(err, ErrForbidden) {
		t.Errorf("another project's: %v", err)
	}
}
