package sharing

import (
	"context"
	"slices"
	"sync"
	"time"

	"k8s.io/utils/clock"

	"github.com/fxccm/fxccm/provider/kit/batch"
)

// A Lookup reads objects of one kind by their keys. Concurrent calls share a request, and earlier
// answers are reused for a while. Callers share the values, and must not change them. It is safe
// for concurrent use. [Lookup.Close] ends it.
type Lookup[T any] struct {
	// Keeps reports which answers are reused. Nil: all. It is set before the first use.
	Keeps func(T) bool

	read  func(ctx context.Context, keys []string) (map[string]T, error)
	age   time.Duration
	clock clock.PassiveClock
	calls *batch.Batches[*lookupCall[T]]

	mu    sync.Mutex
	known map[string]answer[T]
}

// answer is a value, and when its read was begun.
type answer[T any] struct {
	value T
	begun time.Time
}

type lookupCall[T any] struct {
	keys  []string
	newer time.Time

	// The result, valid when the batch is done.
	found map[string]T
	err   error
	// open are the keys that need a request.
	open []string
}

// NewLookup starts no goroutine. An answer that was begun less than age ago is reused; with 0, none
// is. read gets distinct, sorted keys. Its result lacks keys of objects that do not exist, and may
// have others. After Close, calls fail with errClosed.
func NewLookup[T any](
	errClosed error, c clock.PassiveClock, age time.Duration,
	read func(ctx context.Context, keys []string) (map[string]T, error),
) *Lookup[T] {
	l := &Lookup[T]{read: read, age: age, clock: c, known: map[string]answer[T]{}}
	l.calls = batch.New(errClosed, l.answer)
	return l
}

// Close cancels reads in flight and waits for their end. It is idempotent.
func (l *Lookup[T]) Close() { l.calls.Close() }

// Get returns the values of the keys. It lacks those of objects that do not exist.
func (l *Lookup[T]) Get(ctx context.Context, keys ...string) (map[string]T, error) {
	return l.get(ctx, l.clock.Now().Add(1-l.age), keys)
}

// One is Get for a single key.
func (l *Lookup[T]) One(ctx context.Context, key string) (value T, found bool, err error) {
	all, err := l.Get(ctx, key)
	value, found = all[key]
	return value, found, err
}

// Renew is One with a read that is begun after the call.
func (l *Lookup[T]) Renew(ctx context.Context, key string) (value T, found bool, err error) {
	all, err := l.get(ctx, AfterNow(l.clock), []string{key})
	value, found = all[key]
	return value, found, err
}

// Recall returns the value that One would reuse.
func (l *Lookup[T]) Recall(key string) (value T, found bool) {
	all, _ := l.recall(l.clock.Now().Add(1-l.age), []string{key})
	value, found = all[key]
	return value, found
}

func (l *Lookup[T]) get(
	ctx context.Context, newer time.Time, keys []string,
) (map[string]T, error) {
	found, open := l.recall(newer, keys)
	if len(open) == 0 {
		return found, nil
	}
	call := &lookupCall[T]{keys: keys, newer: newer}
	if err := l.calls.Ask(ctx, call); err != nil {
		return nil, err
	}
	return call.found, call.err
}

func (l *Lookup[T]) answer(ctx context.Context, calls []*lookupCall[T]) {
	begun := l.clock.Now()
	var open []string
	for _, call := range calls {
		// The previous batch may have read them.
		call.found, call.open = l.recall(call.newer, call.keys)
		open = append(open, call.open...)
	}
	if len(open) == 0 {
		return
	}
	slices.Sort(open)
	found, err := l.read(ctx, slices.Compact(open))
	if err == nil {
		l.keep(found, begun)
	}
	for _, call := range calls {
		for _, key := range call.open {
			call.err = err
			if value, ok := found[key]; ok {
				call.found[key] = value
			}
		}
	}
}

// recall returns the values that were begun at newer or later, and the other keys.
func (l *Lookup[T]) recall(newer time.Time, keys []string) (found map[string]T, open []string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	found = map[string]T{}
	for _, key := range keys {
		if known, ok := l.known[key]; ok && !known.begun.Before(newer) {
			found[key] = known.value
		} else {
			open = append(open, key)
		}
	}
	return found, open
}

// keep keeps the newest values. A slow read may end after a newer one.
func (l *Lookup[T]) keep(found map[string]T, begun time.Time) {
	if l.age == 0 {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	for key, known := range l.known {
		if begun.Sub(known.begun) >= l.age {
			delete(l.known, key)
		}
	}
	for key, value := range found {
		if !begun.Before(l.known[key].begun) && (l.Keeps == nil || l.Keeps(value)) {
			l.known[key] = answer[T]{value, begun}
		}
	}
}
