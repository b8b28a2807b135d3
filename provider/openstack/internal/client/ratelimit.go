package client

import (
	"context"
	"net/http"
	"time"

	"golang.org/x/time/rate"
	"k8s.io/utils/clock"

	"github.com/fxccm/fxccm/provider/openstack/cloudconf"
)

// limits delays requests to the rate limit.
type limits struct {
	next     http.RoundTripper
	limiter  *rate.Limiter
	clock    clock.Clock
	observer Observer
}

// newLimiter returns a limiter without a limit for a rate of 0.
func newLimiter(c cloudconf.Client) *rate.Limiter {
	if c.RequestRate <= 0 {
		return rate.NewLimiter(rate.Inf, 0)
	}
	return rate.NewLimiter(rate.Limit(c.RequestRate), max(1, c.RequestBurst))
}

// RoundTrip implements http.RoundTripper.
func (l *limits) RoundTrip(req *http.Request) (*http.Response, error) {
	if err := l.wait(req.Context()); err != nil {
		closeBody(req)
		return nil, err
	}
	return l.next.RoundTrip(req)
}

func (l *limits) wait(ctx context.Context) error {
	now := l.clock.Now()
	turn := l.limiter.ReserveN(now, 1)
	delay := turn.DelayFrom(now)
	if delay <= 0 {
		return nil
	}
	defer func() { l.observer.RateLimitWaited(l.clock.Since(now)) }()
	if err := pause(ctx, l.clock, delay); err != nil {
		// Give the slot to another request.
		turn.CancelAt(l.clock.Now())
		return err
	}
	return nil
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
