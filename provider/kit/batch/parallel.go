package batch

import (
	"golang.org/x/sync/errgroup"

	"github.com/fxccm/fxccm/internal/rescue"
)

// InParallel calls f for each item, at most limit at a time, and waits for all calls. The errors
// are in the order of the items. A panic in f is the error of its item.
func InParallel[T any](items []T, limit int, f func(T) error) []error {
	errs := make([]error, len(items))
	var group errgroup.Group
	group.SetLimit(limit)
	for i, item := range items {
		group.Go(func() error {
			errs[i] = rescue.Panic(func() error { return f(item) })
			return nil
		})
	}
	_ = group.Wait() // the errors are in errs
	return errs
}
