package neutron

import (
	"context"
	"slices"
	"sync"
	"time"

	"k8s.io/utils/clock"

	"github.com/fxccm/fxccm/provider/kit/batch"
)

// A lookup reads objects of one kind by their keys. Concurrent calls share a request, and earlier
// answers are cached for a while.
//
// An answer that is not cached was begun after the call.
type lookup[T any] struct {
	// read looks up distinct, sorted keys. Its result lacks keys of objects that do not exist.
	read func(ctx context.Context, keys []string) (map[string]T, error)
	// age is how long an answer is cached; 0: not at all.
	age time.Duration
	// keeps reports which answers are cached. Nil: all.
	keeps func(T) bool
	clock clock.PassiveClock
	asked *batch.Batches[*question[T]]

	mu    sync.Mutex
	known map[string]memory[T]
}

type memory[T any] struct {
	value T
	at    time.Time
}

type question[T any] struct {
	keys  []string
	found map[string]T
	err   error
}

func newLookup[T any](
	a *API, age time.Duration, read func(context.Context, []string) (map[string]T, error),
) *lookup[T] {
	l := &lookup[T]{read: read, age: age, clock: a.config.Clock, known: map[string]memory[T]{}}
	l.asked = batch.New(ErrClosed, l.answer)
	a.closing = append(a.closing, l.asked.Close)
	return l
}

// get returns the values of the keys. They are shared, and must not be changed.
func (l *lookup[T]) get(ctx context.Context, keys ...string) (map[string]T, error) {
	found, open := l.recall(keys)
	if len(open) == 0 {
		return found, nil
	}
	q := &question[T]{keys: keys}
	if err := l.asked.Ask(ctx, q); err != nil {
		return nil, err
	}
	return q.found, q.err
}

// one is get for a single key.
func (l *lookup[T]) one(ctx context.Context, key string) (value T, found bool, err error) {
	all, err := l.get(ctx, key)
	value, found = all[key]
	return value, found, err
}

func (l *lookup[T]) answer(ctx context.Context, questions []*question[T]) {
	var keys []string
	for _, q := range questions {
		keys = append(keys, q.keys...)
	}
	slices.Sort(keys)
	known, open := l.recall(slices.Compact(keys))
	var found map[string]T
	var err error
	if len(open) > 0 {
		at := l.clock.Now()
		if found, err = l.read(ctx, open); err == nil {
			l.remember(found, at)
		}
	}
	for _, q := range questions {
		q.found = map[string]T{}
		for _, key := range q.keys {
			if value, ok := known[key]; ok {
				q.found[key] = value
			} else if value, ok := found[key]; ok {
				q.found[key] = value
			}
			if err != nil && slices.Contains(open, key) {
				q.err = err
			}
		}
	}
}

// recall returns the cached values, and the keys that are not cached.
func (l *lookup[T]) recall(keys []string) (known map[string]T, open []string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	now := l.clock.Now()
	known = map[string]T{}
	for _, key := range keys {
		if m, ok := l.known[key]; ok && now.Sub(m.at) < l.age {
			known[key] = m.value
		} else {
			open = append(open, key)
		}
	}
	return known, open
}

func (l *lookup[T]) remember(found map[string]T, at time.Time) {
	if l.age == 0 {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	for key, m := range l.known {
		if at.Sub(m.at) >= l.age {
			delete(l.known, key)
		}
	}
	for key, value := range found {
		if l.keeps == nil || l.keeps(value) {
			l.known[key] = memory[T]{value, at}
		}
	}
}
