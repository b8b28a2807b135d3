package waittest_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/fxccm/fxccm/internal/waittest"
)

func TestUntil_EachKindOfCondition_IsCalledUntilItHolds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		calls := 0
		isThird := func() bool { calls++; return calls%3 == 0 }
		waittest.Until(t, "the third call is made", isThird)
		third := func() error {
			if !isThird() {
				return errors.New("too early")
			}
			return nil
		}
		waittest.Until(t, "the third call is made", third)
		waittest.Until(t, "the third call is made", func(context.Context) error { return third() })
		if calls != 9 {
			t.Errorf("the conditions were called %d times, want 9", calls)
		}
	})
}

func TestPoll_ContextEnds_ReturnsTheErrorFromBefore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		observed, began := errors.New("one walks"), time.Now()
		err := waittest.Poll(ctx, func(ctx context.Context) error {
			if time.Since(began) < 30*time.Second {
				return observed
			}
			<-ctx.Done() // a request that hangs
			return ctx.Err()
		})
		if !errors.Is(err, observed) || time.Since(began) != time.Minute {
			t.Errorf("after %s: %v, want %v after a minute", time.Since(began), err, observed)
		}
		if err := waittest.Poll(ctx, func() bool { return false }); err == nil {
			t.Error("a condition that never holds was reported as met")
		}
	})
}
