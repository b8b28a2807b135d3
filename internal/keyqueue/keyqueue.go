// Package keyqueue runs the workers of a controller that handles objects by name.
package keyqueue

import (
	"context"
	"sync"
	"time"

	"k8s.io/client-go/util/workqueue"
)

// Queue holds names: a name that is added twice is handled once, with what is known then.
type Queue = workqueue.TypedRateLimitingInterface[string]

// New returns the queue of a controller, whose name its metrics have. A name that fails is handled
// again after first, then after twice as long each time, up to last. The queue has a goroutine,
// which [Run] or ShutDown ends.
func New(controller string, first, last time.Duration) Queue {
	return workqueue.NewTypedRateLimitingQueueWithConfig(
		workqueue.NewTypedItemExponentialFailureRateLimiter[string](first, last),
		workqueue.TypedRateLimitingQueueConfig[string]{Name: controller})
}

// Run lets workers handle the names of the queue until ctx ends, and waits for them. A name for
// which handle returns an error is handled again.
func Run(
	ctx context.Context, queue Queue, workers int, handle func(context.Context, string) error,
) {
	var running sync.WaitGroup
	for range workers {
		running.Go(func() {
			for next(ctx, queue, handle) {
			}
		})
	}
	<-ctx.Done()
	// Wakes the workers that wait for work. The others are in a call that ends with ctx.
	queue.ShutDown()
	running.Wait()
}

// next handles one name. It returns false when ctx has ended.
func next(
	ctx context.Context, queue Queue, handle func(context.Context, string) error,
) bool {
	name, shutdown := queue.Get()
	if shutdown {
		return false
	}
	defer queue.Done(name)
	// A queue that is shut down first returns all its items. The next term sees them again.
	if ctx.Err() != nil {
		return false
	}
	if handle(ctx, name) == nil {
		queue.Forget(name)
	} else {
		queue.AddRateLimited(name)
	}
	return true
}
