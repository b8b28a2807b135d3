// Package sharing carries out reads whose results several callers share: concurrent ones, and the
// clusters of one project.
package sharing

import (
	"context"
	"time"

	"k8s.io/utils/clock"
)

// Read carries out a read that has the same result for all clusters of a project. key names it in
// the project. The result may be another cluster's, if that was begun at newer or later; begun is
// its time. It must not be changed. A nil Read shares nothing.
type Read func(
	ctx context.Context, key string, newer time.Time, read func(context.Context) (any, error),
) (value any, begun time.Time, err error)

// Of is a read of one type. clock is used for a read that is not shared.
func Of[T any](
	ctx context.Context, share Read, c clock.PassiveClock, key string, newer time.Time,
	read func(context.Context) (T, error),
) (value T, begun time.Time, err error) {
	if share == nil {
		begun = c.Now()
		value, err = read(ctx)
		return value, begun, err
	}
	found, begun, err := share(ctx, key, newer, func(ctx context.Context) (any, error) {
		return read(ctx)
	})
	if err != nil {
		return value, begun, err
	}
	// A key always has a result of the same type.
	value, _ = found.(T)
	return value, begun, nil
}

// AfterNow is the time newer of a read that must begin after the call.
func AfterNow(c clock.PassiveClock) time.Time { return c.Now().Add(1) }
