package ccm

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// StopBy returns a cause for cancelling the context of [Manager.Run] that shortens the drain: the
// term ends by deadline, or a [DrainTimeoutError] says what goes on.
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

// StopDeadline returns the deadline that a cause made by [StopBy] has put on the end of ctx, for what ends together with a
// [Manager]. There is none before ctx has ended.
func StopDeadline(ctx context.Context) (deadline time.Time, ok bool) {
	var by *stopBy
	if !errors.As(context.Cause(ctx), &by) {
		return time.Time{}, false
	}
	return by.deadline, true
}

// drainDeadline is timeout from now, or earlier if stop was cancelled with StopBy.
func drainDeadline(stop context.Context, timeout time.Duration) time.Time {
	deadline := time.Now().Add(timeout)
	if by, ok := StopDeadline(stop); ok && by.Before(deadline) {
		return by
	}
	return deadline
}
