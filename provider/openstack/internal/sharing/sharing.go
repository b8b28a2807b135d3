// Package sharing types the reads that the clusters of one project share.
package sharing

import (
	"context"
	"time"

	"k8s.io/utils/clock"
)

// Read carries out a read that has the same result for all clusters of a project. key names it in
// the project. The result may be that of another cluster, if that was begun at newer or later;
// begun is when it was. It must not be changed. Nil: nothing is shared.
type Read func(
	ctx context.Context, key string, newer time.Time, read func(context.Context) (any, error),
) (value any, begun time.Time, err error)

// Of is a read of one type. The clock is that of a read that is not shared.
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
	// The key stands for one type.
	value, _ = found.(T)
	return value, begun, nil
}
