package routes

import (
	"context"
	"sync"
	"time"

	"k8s.io/utils/clock"
)

// snapshot is a router at a time. It is not changed once it is made.
type snapshot struct {
	*router
	entries []entry
	// read is when it was asked for.
	read time.Time
}

// routerCache keeps the latest snapshot of the router. It is safe for concurrent use.
type routerCache struct {
	api   *api
	clock clock.PassiveClock
	// failureLife is how long a failure to read is remembered, so that hundreds of callers at once do not each ask a cloud that is down.
	failureLife time.Duration

	// reading holds one token, which who reads has taken.
	reading chan struct{}

	mu     sync.Mutex
	latest *snapshot
	// writes counts what was learned of writes, so that a read knows whether there was one meanwhile.
	writes  uint64
	failure error
	failed  time.Time
}

func newRouterCache(a *api, c clock.PassiveClock) *routerCache {
	return &routerCache{api: a, clock: c, failureLife: time.Second, reading: make(chan struct{}, 1)}
}

// get returns a snapshot that is younger than age; with 0, one that is read now.
func (r *routerCache) get(ctx context.Context, age time.Duration) (*snapshot, error) {
	if s, err := r.remembered(age); s != nil || err != nil {
		return s, err
	}
	select {
	case r.reading <- struct{}{}:
		defer func() { <-r.reading }()
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	// Somebody else may have read while this caller waited.
	if s, err := r.remembered(age); s != nil || err != nil {
		return s, err
	}
	before, now := r.writesSoFar(), r.clock.Now()
	found, err := r.api.router(ctx)
	if err != nil {
		r.learnFailure(ctx, err)
		return nil, err
	}
	return r.learnRead(before, &snapshot{router: found, entries: entries(found.Routes), read: now}), nil
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

// newest is the latest snapshot, however old. It may be nil.
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
	// That a caller gave up says nothing about the cloud.
	if ctx.Err() != nil {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.failure, r.failed = err, r.clock.Now()
}

// learnRead does not keep what was read when there was a write meanwhile: it may be from before that.
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

// learn takes the router as a write has left it.
func (r *routerCache) learn(changed *router) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.failure = nil
	r.writes++
	r.latest = &snapshot{router: changed, entries: entries(changed.Routes), read: r.clock.Now()}
}

// forget is called when it is not known what a write has done.
func (r *routerCache) forget() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.writes++
	r.latest = nil
}
