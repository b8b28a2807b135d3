package ratelimit

import (
	"context"
	"net/http"
	"strconv"
	"strings"
	"time"
)

// maxPause limits the pause that the cloud requests, so that a wrong Retry-After does not stop
// clusters for longer. minPause is used for an answer without Retry-After.
const (
	minPause = time.Second
	maxPause = time.Minute
)

// Transport makes requests wait for their turn in a queue.
type Transport struct {
	Next  http.RoundTripper
	Queue *Queue
	// Pauses: the cloud may pause the queue with status 429, or 503 with Retry-After.
	Pauses bool
	// FlowOf returns the flow of a request. Nil: all requests are of one flow.
	FlowOf func(context.Context) Flow
	// Waited is called for each request that has waited. It may be nil.
	Waited func(time.Duration)
}

// RoundTrip implements http.RoundTripper.
func (t *Transport) RoundTrip(req *http.Request) (*http.Response, error) {
	var of Flow
	if t.FlowOf != nil {
		of = t.FlowOf(req.Context())
	}
	waited, err := t.Queue.wait(req.Context(), of)
	if waited > 0 && t.Waited != nil {
		t.Waited(waited)
	}
	if err != nil {
		if req.Body != nil {
			_ = req.Body.Close()
		}
		return nil, err
	}
	resp, err := t.Next.RoundTrip(req)
	if err == nil && t.Pauses {
		t.follow(resp)
	}
	return resp, err
}

// follow pauses the queue if the cloud requests it.
func (t *Transport) follow(resp *http.Response) {
	wait := RetryAfter(resp, t.Queue.clock.Now())
	switch {
	case resp.StatusCode == http.StatusTooManyRequests:
	case resp.StatusCode == http.StatusServiceUnavailable && wait > 0:
	default:
		return
	}
	t.Queue.pause(min(max(wait, minPause), maxPause))
}

// RetryAfter returns the value of Retry-After (RFC 9110, 10.2.3): seconds, or a date.
func RetryAfter(resp *http.Response, now time.Time) time.Duration {
	if resp == nil {
		return 0
	}
	value := strings.TrimSpace(resp.Header.Get("Retry-After"))
	if seconds, err := strconv.ParseUint(value, 10, 31); err == nil {
		return time.Duration(seconds) * time.Second
	}
	if date, err := http.ParseTime(value); err == nil {
		return max(0, date.Sub(now))
	}
	return 0
}
