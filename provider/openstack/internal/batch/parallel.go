package batch

import (
	"sync"

	"github.com/fxccm/fxccm/internal/rescue"
)

// InParallel calls f for each item, width of them at a time, and waits for all. The errors are in the order of the items; a panic is one.
func InParallel[T any](items []T, width int, f func(T) error) []error {
	errs := make([]error, len(items))
	var wg sync.WaitGroup
	slots := make(chan struct{}, width)
	for i, item := range items {
		slots <- struct{}{}
		wg.Go(func() {
			defer func() { <-slots }()
			errs[i] = rescue.Panic(func() error { return f(item) })
		})
	}
	wg.Wait()
	return errs
}
