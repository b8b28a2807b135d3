// Package capability caches properties of a cloud.
//
// A property is yes, no or unknown. If the cloud does not respond, the property is unknown, and
// later calls read it again. So a cloud that is down while the provider starts only causes a delay.
package capability

import (
	"context"
	"errors"
	"sync"
	"time"

	"k8s.io/utils/clock"

	"github.com/fxccm/fxccm/provider/openstack/internal/sharing"
)

// ErrUnknown is, besides the cause, each error of [Fact.Get] after a failed request to the cloud.
var ErrUnknown = errors.New("the capabilities of the cloud are unknown")

// Defaults of [Options].
const (
	DefaultLife  = time.Hour
	DefaultRetry = time.Second
)

// Options control the cache. The zero value has the defaults.
type Options struct {
	// Clock defaults to the real clock.
	Clock clock.PassiveClock
	// Life is how long a response is valid; the cloud may be upgraded. An expired response stays in
	// use until a new one arrives. 0: [DefaultLife].
	Life time.Duration
	// Retry is how long a failure is cached, so that concurrent callers do not each query a cloud
	// that is down. 0: [DefaultRetry].
	Retry time.Duration
	// Share shares the fact, under the name Key, with other clusters of the project. It may be nil.
	Share sharing.Read
	Key   string
}

// Fact is a property of a cloud that changes rarely, such as its extensions or API versions. It is
// safe for concurrent use.
type Fact[T any] struct {
	ask     func(context.Context) (T, error)
	options Options

	// asking holds a token while a request is in flight. Unlike a mutex, a context can end the
	// wait.
	asking chan struct{}

	mu      sync.Mutex
	known   bool
	value   T
	failure error
	// answered is the time of value, failed that of failure.
	answered, failed time.Time
}

// New returns a fact that ask reads on first use. At most one ask runs at a time, with the context
// of one caller.
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
	return &Fact[T]{ask: share(ask, options), options: options, asking: make(chan struct{}, 1)}
}

// shareAge limits the age of another cluster's result.
const shareAge = 10 * time.Minute

// share lets the clusters of one project share their reads.
func share[T any](
	ask func(context.Context) (T, error), options Options,
) func(context.Context) (T, error) {
	return func(ctx context.Context) (T, error) {
		newer := options.Clock.Now().Add(-shareAge)
		value, _, err := sharing.Of(ctx, options.Share, options.Clock, options.Key, newer, ask)
		return value, err
	}
}

// Get returns the fact, and reads it if needed. The error is that of the context, or is
// [ErrUnknown] with the text of the cause, which it wraps.
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
	// Another caller may have read it in the meantime.
	if value, err, ok := f.remembered(); ok {
		return value, err
	}
	value, err := f.ask(ctx)
	return f.learn(ctx, value, err)
}

// remembered returns a valid cached result.
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

// unknownError marks the error of a request, whose text is enough for people.
type unknownError struct{ error }

func (e *unknownError) Is(target error) bool { return target == ErrUnknown }

func (e *unknownError) Unwrap() error { return e.error }

func (f *Fact[T]) learn(ctx context.Context, value T, err error) (T, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if err == nil {
		f.known, f.value, f.failure = true, value, nil
		f.answered = f.options.Clock.Now()
		return value, nil
	}
	err = &unknownError{err}
	// A canceled request says nothing about the cloud.
	if ctx.Err() == nil {
		f.failure, f.failed = err, f.options.Clock.Now()
	}
	if f.known {
		return f.value, nil
	}
	return value, err
}
