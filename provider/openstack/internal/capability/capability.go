// Package capability remembers what a cloud can do.
//
// Whether it can is yes, no or unknown. A cloud that did not answer has not said no: who asked is told that it is unknown, and asks
// again later. So a cloud that is down while a provider starts costs nothing but time.
package capability

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"k8s.io/utils/clock"
)

// ErrUnknown is in the chain of the errors that [Fact.Get] returns when the cloud was asked and has not answered.
var ErrUnknown = errors.New("what the cloud can do is not known yet")

// Defaults of [Options].
const (
	DefaultLife  = time.Hour
	DefaultRetry = time.Second
)

// Options are how long answers are remembered. The zero value is of use.
type Options struct {
	// Clock tells the time. Nil: the real one.
	Clock clock.PassiveClock
	// Life is after how long the cloud is asked again about what it has answered, yes or no: an operator may have upgraded it. Until there is a
	// newer answer the old one holds, whatever happens. 0: [DefaultLife].
	Life time.Duration
	// Retry is how long a failure is remembered, so that hundreds of callers at once do not each ask a cloud that is down.
	// 0: [DefaultRetry].
	Retry time.Duration
}

// A Fact is something about a cloud that changes only when somebody works on it: whether it has an extension, the versions of an API. It is
// safe for concurrent use.
type Fact[T any] struct {
	ask     func(context.Context) (T, error)
	options Options

	// asking holds one token, which who asks the cloud has taken. Unlike a mutex, it can be waited for with a context.
	asking chan struct{}

	mu      sync.Mutex
	known   bool
	value   T
	failure error
	// answered is when value was learned, failed is when failure was.
	answered, failed time.Time
}

// New returns a fact that is learned by ask, when somebody wants it for the first time. At most one ask runs at a time, with the context of
// one of the callers.
func New[T any](ask func(context.Context) (T, error), options Options) *Fact[T] {
	if options.Clock == nil {
		options.Clock = clock.RealClock{}
	}
	if options.Life <= 0 {
		options.Life = DefaultLife
	}
	if options.Retry <= 0 {
		options.Retry = DefaultRetry
	}
	return &Fact[T]{ask: ask, options: options, asking: make(chan struct{}, 1)}
}

// Get returns the fact, and asks the cloud for it if need be. The error is the context's, or has [ErrUnknown] and what the cloud said in
// its chain.
func (f *Fact[T]) Get(ctx context.Context) (T, error) {
	if value, err, ok := f.remembered(); ok {
		return value, err
	}
	select {
	case f.asking <- struct{}{}:
		defer func() { <-f.asking }()
	case <-ctx.Done():
		var none T
		return none, ctx.Err()
	}
	// Somebody else may have asked while this caller waited.
	if value, err, ok := f.remembered(); ok {
		return value, err
	}
	value, err := f.ask(ctx)
	return f.learn(ctx, value, err)
}

// remembered is what can be answered without asking the cloud.
func (f *Fact[T]) remembered() (value T, err error, ok bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	now := f.options.Clock.Now()
	failedLately := f.failure != nil && now.Sub(f.failed) < f.options.Retry
	switch {
	case f.known && (failedLately || now.Sub(f.answered) < f.options.Life):
		return f.value, nil, true
	case failedLately:
		return value, f.failure, true
	}
	return value, nil, false
}

func (f *Fact[T]) learn(ctx context.Context, value T, err error) (T, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if err == nil {
		f.known, f.value, f.failure = true, value, nil
		f.answered = f.options.Clock.Now()
		return value, nil
	}
	err = fmt.Errorf("%w: %w", ErrUnknown, err)
	// That a caller gave up says nothing about the cloud.
	if ctx.Err() == nil {
		f.failure, f.failed = err, f.options.Clock.Now()
	}
	if f.known {
		return f.value, nil
	}
	return value, err
}
