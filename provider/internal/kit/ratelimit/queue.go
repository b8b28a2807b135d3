// Package ratelimit limits the requests to a cloud to one rate.
package ratelimit

import (
	"cmp"
	"context"
	"slices"
	"sync"
	"time"

	"golang.org/x/time/rate"
	"k8s.io/utils/clock"
)

// Queue limits requests to one rate. The flows that wait take turns, so a cluster with a thousand
// waiting requests delays a request of another by one turn. It is safe for concurrent use.
type Queue struct {
	clock   clock.Clock
	limiter *rate.Limiter

	mu      sync.Mutex
	waiting turns
	// resumes is the end of the pause that the cloud has requested.
	resumes time.Time
	// granting: a goroutine grants turns. It ends when no request waits.
	granting bool
	grants   sync.WaitGroup
	// left has an element when a request has left the queue.
	left chan struct{}
}

// Flow is a source of requests: a cluster, or one kind of request for all clusters.
type Flow struct{ Cluster, Operation string }

// ticket is a waiting request. granted is closed when its turn comes.
type ticket struct{ granted chan struct{} }

// New returns a queue for limit requests per second on average, and burst at once. rate.Inf, or 0,
// means no limit.
func New(limit rate.Limit, burst int, c clock.Clock) *Queue {
	limit = cmp.Or(limit, rate.Inf)
	return &Queue{
		clock: c, limiter: rate.NewLimiter(limit, max(1, burst)), left: make(chan struct{}, 1),
	}
}

// Close waits until the queue has no goroutine. No request may be waiting.
func (q *Queue) Close() { q.grants.Wait() }

// Waiting returns the number of waiting requests of a flow.
func (q *Queue) Waiting(f Flow) int {
	q.mu.Lock()
	defer q.mu.Unlock()
	return len(q.waiting.by[f])
}

// wait returns when the request may be sent, or with the cause of the end of ctx, and the duration
// of the wait.
func (q *Queue) wait(ctx context.Context, f Flow) (waited time.Duration, err error) {
	begun := q.clock.Now()
	t := q.join(f)
	if t == nil {
		return 0, nil
	}
	select {
	case <-t.granted:
	case <-ctx.Done():
		q.leave(f, t)
		err = context.Cause(ctx)
	}
	return q.clock.Since(begun), err
}

// join returns nil if the request need not wait.
func (q *Queue) join(f Flow) *ticket {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.waiting.isEmpty() && q.delay() <= 0 {
		return nil
	}
	t := &ticket{granted: make(chan struct{})}
	q.waiting.push(f, t)
	if !q.granting {
		q.granting = true
		q.grants.Go(q.grant)
	}
	return t
}

// delay takes a turn if it is due, and otherwise returns the time until it is. The lock is held.
func (q *Queue) delay() time.Duration {
	now := q.clock.Now()
	if pause := q.resumes.Sub(now); pause > 0 {
		return pause
	}
	turn := q.limiter.ReserveN(now, 1)
	delay := turn.DelayFrom(now)
	if delay > 0 {
		turn.CancelAt(now)
	}
	return delay
}

// leave removes a request whose caller has left. If its turn was just granted, the next request
// gets it.
func (q *Queue) leave(f Flow, t *ticket) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if !q.waiting.remove(f, t) {
		q.waiting.pop()
	}
	select {
	case q.left <- struct{}{}:
	default:
	}
}

// grant grants turns until no request waits.
func (q *Queue) grant() {
	for {
		delay, isEmpty := q.grantDue()
		if isEmpty {
			return
		}
		timer := q.clock.NewTimer(delay)
		select {
		case <-timer.C():
		case <-q.left:
		}
		timer.Stop()
	}
}

// grantDue grants the turns that are due, and returns the time until the next one.
func (q *Queue) grantDue() (delay time.Duration, isEmpty bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for !q.waiting.isEmpty() {
		if delay = q.delay(); delay > 0 {
			return delay, false
		}
		q.waiting.pop()
	}
	q.granting = false
	return 0, true
}

// pause grants no turn for a while, because the cloud refuses requests.
func (q *Queue) pause(d time.Duration) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if until := q.clock.Now().Add(d); until.After(q.resumes) {
		q.resumes = until
	}
}

// turns are the waiting requests, by flow. The flows take turns; each flow is first in, first out.
// The zero value is empty.
type turns struct {
	// order holds the waiting flows, the next one first.
	order []Flow
	by    map[Flow][]*ticket
}

func (t *turns) isEmpty() bool { return len(t.order) == 0 }

func (t *turns) push(f Flow, waiting *ticket) {
	if t.by == nil {
		t.by = map[Flow][]*ticket{}
	}
	if len(t.by[f]) == 0 {
		t.order = append(t.order, f)
	}
	t.by[f] = append(t.by[f], waiting)
}

// pop grants the next turn, if a request waits.
func (t *turns) pop() {
	if t.isEmpty() {
		return
	}
	f := t.order[0]
	close(t.by[f][0].granted)
	t.order = slices.Delete(t.order, 0, 1)
	t.by[f] = slices.Delete(t.by[f], 0, 1)
	if len(t.by[f]) > 0 {
		t.order = append(t.order, f)
	} else {
		delete(t.by, f)
	}
}

// remove returns false if the request no longer waits.
func (t *turns) remove(f Flow, waiting *ticket) bool {
	at := slices.Index(t.by[f], waiting)
	if at < 0 {
		return false
	}
	if t.by[f] = slices.Delete(t.by[f], at, at+1); len(t.by[f]) == 0 {
		delete(t.by, f)
		t.order = slices.DeleteFunc(t.order, func(other Flow) bool { return other == f })
	}
	return true
}
