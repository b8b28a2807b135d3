package client

import (
	"context"
	"net/http"
	"time"

	"golang.org/x/time/rate"
	"k8s.io/utils/clock"

	"github.com/fxccm/fxccm/provider/openstack/cloudconf"
)

// maxSharedPause limits the pause of a project, so that a wrong Retry-After does not stop clusters
// for longer. minSharedPause is for an answer without one.
const (
	minSharedPause = time.Second
	maxSharedPause = time.Minute
)

// limits has requests wait for their turn in a queue.
type limits struct {
	next  http.RoundTripper
	queue *fairQueue
	// isShared: the queue is that of a project, which the cloud may pause.
	isShared bool
	// flowOf says whose turn a request takes. Nil: all requests are of one flow.
	flowOf   func(context.Context) flow
	observer Observer
}

// limitOf returns no limit for a rate of 0.
func limitOf(c cloudconf.Client) rate.Limit {
	if c.RequestRate <= 0 {
		return rate.Inf
	}
	return rate.Limit(c.RequestRate)
}

// RoundTrip implements http.RoundTripper.
func (l *limits) RoundTrip(req *http.Request) (*http.Response, error) {
	var of flow
	if l.flowOf != nil {
		of = l.flowOf(req.Context())
	}
	waited, err := l.queue.wait(req.Context(), of)
	if waited > 0 {
		l.observer.RateLimitWaited(waited)
	}
	if err != nil {
		closeBody(req)
		return nil, err
	}
	resp, err := l.next.RoundTrip(req)
	if err == nil && l.isShared {
		l.follow(resp)
	}
	return resp, err
}

// follow pauses the project if the cloud asks for it.
func (l *limits) follow(resp *http.Response) {
	wait := retryAfter(resp, l.queue.clock.Now())
	switch {
	case resp.StatusCode == http.StatusTooManyRequests:
	case resp.StatusCode == http.StatusServiceUnavailable && wait > 0:
	default:
		return
	}
	l.queue.pause(min(max(wait, minSharedPause), maxSharedPause))
}

// pause waits for d, or until ctx ends, and then returns its cause.
func pause(ctx context.Context, c clock.Clock, d time.Duration) error {
	if d <= 0 {
		return context.Cause(ctx)
	}
	timer := c.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C():
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
