package routes

import (
	"context"
	"sync"
	"time"

	"golang.org/x/sync/semaphore"
	"k8s.io/utils/clock"
)

// snapshot is an immutable state of the router.
type snapshot struct {
	*router
	entries []entry
	// read is when the request was sent.
	read time.Time
}

// routerCache keeps the latest snapshot of the router. It is no sharing.Lookup, because it also
// takes the router from the responses to writes, discards reads that a write has overtaken, and
// keeps failures. It is safe for concurrent use.
type routerCache struct {
	api   *api
	clock clock.PassiveClock
	// failureLife is how long a failed read is cached, so that concurrent callers do not each query
	// a cloud that is down.
	failureLife time.Duration

	// reading is held while a read is in flight.
	reading *semaphore.Weighted

	mu     sync.Mutex
	latest *snapshot
	// writes counts writes, so that a read detects a concurrent one.
	writes  uint64
	failure error
	failed  time.Time
}

func newRouterCache(a *api, c clock.PassiveClock) *routerCache {
	return &routerCache{
		api: a, clock: c, failureLife: time.Second, reading: semaphore.NewWeighted(1),
	}
}

// get returns a snapshot younger than age; 0 always reads.
func (r *routerCache) get(ctx context.Context, age time.Duration) (*snapshot, error) {
	if s, err := r.remembered(age); s != nil || err != nil {
		return s, err
	}
	if err := r.reading.Acquire(ctx, 1); err != nil {
		return nil, err
	}
	defer r.reading.Release(1)
	// Another caller may have read the router in the meantime.
	if s, err := r.remembered(age); s != nil || err != nil {
		return s, err
	}
	before, now := r.writesSoFar(), r.clock.Now()
	found, err := r.api.router(ctx)
	if err != nil {
		r.learnFailure(ctx, err)
		return nil, err
	}
	return r.learnRead(before, &snapshot{router: found, entries: entries(found.Routes), read: now}),
		nil
}

func (r *routerCache) remembered(age time.Duration) (*snapshot, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	now := r.clock.Now()
	if r.latest != nil && now.Sub(r.latest.read) < age {
		return r.latest, nil
	}
	if r.failure != nil && now.Sub(r.failed) < r.failureLife {
		return nil, r.failure
	}
	return nil, nil
}

// newest is the latest snapshot of any age, or nil.
func (r *routerCache) newest() *snapshot {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.latest
}

func (r *routerCache) writesSoFar() uint64 {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.writes
}

func (r *routerCache) learnFailure(ctx context.Context, err error) {
	// A canceled read says nothing about the cloud.
	if ctx.Err() != nil {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.failure, r.failed = err, r.clock.Now()
}

// learnRead discards a read during which there was a write, because it may be older.
func (r *routerCache) learnRead(writesBefore uint64, s *snapshot) *snapshot {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.failure = nil
	switch {
	case r.writes == writesBefore:
		r.latest = s
	case r.latest != nil:
		return r.latest
	}
	return s
}

// learn caches the response of a write.
func (r *routerCache) learn(changed *router) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.failure = nil
	r.writes++
	r.latest = &snapshot{router: changed, entries: entries(changed.Routes), read: r.clock.Now()}
}

// forget is called when the result of a write is unknown.
func (r *routerCache) forget() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.writes++
	r.latest = nil
}
