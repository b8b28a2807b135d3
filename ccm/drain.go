package ccm

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// StopBy returns a cause for canceling the context of [Manager.Run] that shortens the drain: the
// term ends by deadline, or a [DrainTimeoutError] names the stuck activities.
//
//	ctx, cancel := context.WithCancelCause(ctx)
//	go manager.Run(ctx)
//	…
//	cancel(ccm.StopBy(deadline))
func StopBy(deadline time.Time) error { return &stopBy{deadline} }

type stopBy struct{ deadline time.Time }

func (s *stopBy) Error() string {
	return fmt.Sprintf("stop by %s", s.deadline.Format(time.TimeOnly))
}

// StopDeadline returns the deadline of an ended ctx whose cause was made by [StopBy], for parts of
// a host that end together with a [Manager].
func StopDeadline(ctx context.Context) (deadline time.Time, ok bool) {
	var by *stopBy
	if !errors.As(context.Cause(ctx), &by) {
		return time.Time{}, false
	}
	return by.deadline, true
}

// drainDeadline is timeout from now, or the earlier deadline of StopBy.
func drainDeadline(stop context.Context, timeout time.Duration) time.Time {
	deadline := time.Now().Add(timeout)
	if by, ok := StopDeadline(stop); ok && by.Before(deadline) {
		return by
	}
	return deadline
}
