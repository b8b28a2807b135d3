package ccmtest_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/fxccm/fxccm/ccm"
	"github.com/fxccm/fxccm/ccm/ccmtest"
	"github.com/fxccm/fxccm/ccm/election"
	"github.com/fxccm/fxccm/ccm/status"
	"github.com/fxccm/fxccm/internal/waittest"
)

// candidate campaigns once in the background and calls lead while it leads.
func candidate(
	ctx context.Context, e election.Elector, lead func(context.Context, election.Grant) error,
) <-chan error {
	result := make(chan error, 1)
	go func() { result <- e.Elect(ctx, lead) }()
	return result
}

// untilLost leads until leadership is lost or ctx ends, as a Manager's term does.
func untilLost(ctx context.Context) func(context.Context, election.Grant) error {
	return func(led context.Context, _ election.Grant) error {
		select {
		case <-led.Done():
			return context.Cause(led)
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

func receive[T any](t *testing.T, from <-chan T) T {
	t.Helper()
	return ccmtest.Eventually(t, "something is received", func(ctx context.Context) (T, error) {
		select {
		case value := <-from:
			return value, nil
		case <-ctx.Done():
			var none T
			return none, errors.New("nothing")
		}
	})
}

func TestManualElector_BeforeLead_HasNoLeader(t *testing.T) {
	e := ccmtest.NewManualElector()
	cause := errors.New("the host stops")
	ctx, cancel := context.WithCancelCause(t.Context())
	result := candidate(ctx, e, func(context.Context, election.Grant) error {
		t.Error("lead was called")
		return nil
	})
	cancel(cause)
	if err := receive(t, result); !errors.Is(err, cause) {
		t.Errorf("Elect returned %v, want the cause of the end of its context", err)
	}
	if e.Leading() {
		t.Error("leadership is held")
	}
}

func TestManualElector_WhenContextHasEnded_DoesNotLead(t *testing.T) {
	e := ccmtest.NewManualElector()
	e.Lead()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	err := e.Elect(ctx, func(context.Context, election.Grant) error {
		t.Error("lead was called")
		return nil
	})
	if !errors.Is(err, context.Canceled) {
		t.Errorf("Elect returned %v", err)
	}
}

func TestManualElector_Lose_PassesTheCauseAndWaitsForTheTerm(t *testing.T) {
	e := ccmtest.NewManualElector()
	e.Lead()
	partition := errors.New("a network partition")
	drain := make(chan struct{})
	causes := make(chan error, 1)
	result := candidate(t.Context(), e, func(led context.Context, _ election.Grant) error {
		<-led.Done()
		causes <- context.Cause(led)
		<-drain
		return context.Cause(led)
	})
	waitLeading(t, e)
	e.Lose(partition)
	if cause := receive(t, causes); !errors.Is(cause, election.ErrLost) ||
		!errors.Is(cause, partition) {
		t.Errorf("the cause of the term's end is %v", cause)
	}
	if !e.Leading() {
		t.Error("leadership was given back before the term had drained")
	}
	close(drain)
	release := e.WaitReleased(t)
	if !release.Drained || release.Number != 1 || !errors.Is(release.Err, partition) {
		t.Errorf("released with %+v", release)
	}
	if err := receive(t, result); !errors.Is(err, partition) {
		t.Errorf("Elect returned %v, want lead's error", err)
	}
}

func TestManualElector_WhenContextEnds_KeepsLeadershipUntilTheTermHasDrained(t *testing.T) {
	e := ccmtest.NewManualElector()
	e.Lead()
	ctx, stop := context.WithCancelCause(t.Context())
	drain := make(chan struct{})
	_ = candidate(ctx, e, func(led context.Context, _ election.Grant) error {
		<-ctx.Done()
		<-drain
		return led.Err()
	})
	waitLeading(t, e)
	stop(ccm.ErrStopped)
	if !e.Leading() {
		t.Error("leadership was given back before the term had drained")
	}
	close(drain)
	if release := e.WaitReleased(t); release.Err != nil {
		t.Errorf("the context of the term ended with %v; it ends only when leadership is lost",
			release.Err)
	}
}

func TestManualElector_AfterAStop_LeadsAgain(t *testing.T) {
	e := ccmtest.NewManualElector()
	e.Lead()
	for round := 1; round <= 3; round++ {
		ctx, stop := context.WithCancel(t.Context())
		result := candidate(ctx, e, untilLost(ctx))
		waitLeading(t, e)
		stop()
		_ = receive(t, result)
		if release := e.WaitReleased(t); release.Number != round {
			t.Errorf("round %d: released with %+v", round, release)
		}
	}
}

func TestManualElector_AfterALoss_LeadsOnlyAfterLead(t *testing.T) {
	e := ccmtest.NewManualElector()
	e.Lead()
	_ = receive(t, func() <-chan error {
		result := candidate(t.Context(), e, untilLost(t.Context()))
		waitLeading(t, e)
		e.Lose(nil)
		return result
	}())
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	again := candidate(ctx, e, untilLost(ctx))
	if e.Leading() {
		t.Error("it leads again without a call of Lead")
	}
	e.Lead()
	waitLeading(t, e)
	stop()
	_ = receive(t, again)
}

func TestManualElector_AfterADrainTimeout_LeadershipIsNotGivenBack(t *testing.T) {
	e := ccmtest.NewManualElector()
	e.Lead()
	timedOut := &ccm.DrainTimeoutError{Term: 1, Running: []status.Activity{{Name: "controller x"}}}
	lead := func(context.Context, election.Grant) error { return timedOut }
	if err := e.Elect(t.Context(), lead); !errors.Is(err, timedOut) {
		t.Errorf("Elect returned %v", err)
	}
	if release := e.WaitReleased(t); release.Drained || !errors.Is(release.Err, timedOut) {
		t.Errorf("released with %+v, want Drained false", release)
	}
	ctx, stop := context.WithCancel(t.Context())
	stop()
	if err := e.Elect(ctx, nil); !errors.Is(err, context.Canceled) {
		t.Errorf("Elect returned %v", err)
	}
}

func TestManualElector_SharedByTwo_OneLeadsAtATime(t *testing.T) {
	e := ccmtest.NewManualElector()
	e.Lead()
	leading := make(chan int, 2)
	var results []<-chan error
	var stops []context.CancelFunc
	for i := range 2 {
		ctx, stop := context.WithCancel(t.Context())
		defer stop()
		stops = append(stops, stop)
		lead := func(led context.Context, g election.Grant) error {
			leading <- i
			return untilLost(ctx)(led, g)
		}
		results = append(results, candidate(ctx, e, lead))
	}
	first := receive(t, leading)
	if len(leading) > 0 {
		t.Error("both lead")
	}
	stops[first]()
	_ = receive(t, results[first])
	if second := receive(t, leading); second == first {
		t.Error("the other does not take over")
	}
	stops[1-first]()
	_ = receive(t, results[1-first])
}

func TestManualElector_ExpireClock_EndsTheValidityOfThisStretchOnly(t *testing.T) {
	e := ccmtest.NewManualElector()
	e.ExpireClock() // a no-op, because leadership is not held
	for range 2 {
		e.Lead()
		ctx, stop := context.WithCancel(t.Context())
		grants := make(chan election.Grant, 1)
		result := candidate(ctx, e, func(led context.Context, g election.Grant) error {
			grants <- g
			return untilLost(ctx)(led, g)
		})
		grant := receive(t, grants)
		if !grant.ValidUntil().After(time.Now()) {
			t.Error("the new stretch is not valid")
		}
		e.ExpireClock()
		if grant.ValidUntil().After(time.Now()) {
			t.Error("the stretch is valid although its clock has expired")
		}
		stop()
		_ = receive(t, result)
	}
}

func TestManualElector_FailedWaits_ReportTheState(t *testing.T) {
	e := ccmtest.NewManualElector()
	wantFailure(t, func(t testing.TB) { e.WaitReleased(t) }, "leadership is given back",
		"Lead was not called")
	e.Lead()
	wantFailure(t, func(t testing.TB) { e.WaitReleased(t) }, "leadership is given back",
		"no Manager campaigns")
	ctx, stop := context.WithCancel(t.Context())
	result := candidate(ctx, e, untilLost(ctx))
	waitLeading(t, e)
	wantFailure(t, func(t testing.TB) { e.WaitReleased(t) }, "stretch 1 of leadership is held")
	stop()
	_ = receive(t, result)
}

func waitLeading(t testing.TB, e *ccmtest.ManualElector) {
	t.Helper()
	waittest.Until(t, "leadership is held", e.Leading)
}
