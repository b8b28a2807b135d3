package client

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"strconv"
	"strings"
	"time"

	"k8s.io/utils/clock"

	"github.com/fxccm/fxccm/internal/tracing"
	"github.com/fxccm/fxccm/provider/internal/kit/ratelimit"
)

const (
	// The pause before retry n is a random part of firstPause * 2^n, and at most maxPause. It is
	// fully random to spread the retries of concurrent requests.
	firstPause = 200 * time.Millisecond
	maxPause   = 10 * time.Second
	// retryTime limits all attempts of a request: no attempt starts later than this after the first
	// one.
	retryTime = time.Minute
)

// retries repeats requests after transient failures; see [retryReason].
type retries struct {
	next    http.RoundTripper
	max     int
	options Options
}

// RoundTrip implements http.RoundTripper. The span of a request includes its retries.
func (r *retries) RoundTrip(req *http.Request) (resp *http.Response, err error) {
	what := callOf(req.Context())
	req, span := tracing.StartRequest(req, what.operation,
		slog.String(tracing.Cloud, what.service))
	resends := 0
	err = errPanicked // until roundTrip returns
	defer func() { span.EndRequest(resp, err, resends) }()
	resp, resends, err = r.roundTrip(req)
	return resp, err
}

var errPanicked = errors.New("panic")

func (r *retries) roundTrip(req *http.Request) (_ *http.Response, resends int, _ error) {
	ctx, o := req.Context(), r.options
	end := o.Clock.Now().Add(retryTime)
	attempt := req
	for n := 0; ; n++ {
		resp, err := r.next.RoundTrip(attempt)
		reason := retryReason(req, resp, err)
		if reason == "" || n >= r.max || ctx.Err() != nil || !replayable(req) {
			return resp, n, err
		}
		now := o.Clock.Now()
		wait := backoff(firstPause, maxPause, n, o.random()) + ratelimit.RetryAfter(resp, now)
		if now.Add(wait).After(end) {
			return resp, n, err
		}
		if resp != nil {
			_ = resp.Body.Close() // the next response may wait for that
		}
		o.Logger.V(2).Info("Retrying request to OpenStack", "operation", callOf(ctx).operation,
			"reason", reason, "after", wait.String())
		if ended := pause(ctx, o.Clock, wait); ended != nil {
			return nil, n, fmt.Errorf("wait to retry after %s: %w", outcome(resp, err), ended)
		}
		o.Observer.RequestRetried(reason)
		if attempt, err = replay(req); err != nil {
			return nil, n, err
		}
	}
}

// retryReason returns why a request may be retried; "" if it must not be.
//
//   - 429 and 503 mean that the request was not executed. So does 409 for an immutable resource:
//     Octavia and Neutron's drivers send it while they change the object. Other conflicts are for
//     the caller.
//   - After no response, 502 or 504 it is unknown whether the request was executed. It is retried
//     if that is harmless: reads, PUT and DELETE, which OpenStack executes twice with the same
//     result (the second DELETE returns 404, which all callers accept). A POST would create two
//     objects. A failover is a PUT that does its work each time. After two concurrent DELETEs of a
//     child of a load balancer, Octavia's worker fails at the second and the load balancer stays
//     PENDING_UPDATE forever; the caller waits for the first.
//   - 500 is more often a defect than transient. Reads are retried, changes are not.
//   - A failed dial has executed nothing.
//
// Requests that the fence refused or the caller canceled are not retried.
func retryReason(req *http.Request, resp *http.Response, err error) string {
	read := req.Method == http.MethodGet || req.Method == http.MethodHead
	path := strings.TrimSuffix(req.URL.Path, "/")
	repeatable := read ||
		req.Method == http.MethodDelete && callOf(req.Context()).service != serviceLoadBalancer ||
		req.Method == http.MethodPut && !strings.HasSuffix(path, "/failover")
	if err != nil {
		return retryError(err, repeatable)
	}
	code := strconv.Itoa(resp.StatusCode)
	switch resp.StatusCode {
	case http.StatusTooManyRequests, http.StatusServiceUnavailable:
		return code
	case http.StatusConflict:
		if immutable(peek(resp)) {
			return code
		}
	case http.StatusBadGateway, http.StatusGatewayTimeout:
		if repeatable {
			return code
		}
	case http.StatusInternalServerError:
		if read {
			return code
		}
	}
	return ""
}

func retryError(err error, repeatable bool) string {
	var (
		timeout     *timeoutError
		broken      *invalidResponse
		certificate *tls.CertificateVerificationError
		dial        *net.OpError
	)
	switch {
	case isEnded(err), errors.As(err, &broken), errors.As(err, &certificate):
		return ""
	case errors.As(err, &timeout):
		if repeatable {
			return codeTimeout
		}
	case repeatable, errors.As(err, &dial) && dial.Op == "dial":
		return codeConnection
	}
	return ""
}

// immutable reports whether a conflict is caused by a change in progress: "Load Balancer ... is
// immutable and cannot be updated." (octavia/common/exceptions.py, ImmutableObject).
func immutable(body []byte) bool {
	const most = 64 << 10
	return strings.Contains(strings.ToLower(string(body[:min(len(body), most)])), "immutable")
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

// backoff is a random part of first * 2^n, and at most longest.
func backoff(first, longest time.Duration, n int, random float64) time.Duration {
	whole := longest
	if n < 30 && first<<n < longest {
		whole = first << n
	}
	return time.Duration(random * float64(whole))
}

func outcome(resp *http.Response, err error) string {
	if err != nil {
		return err.Error()
	}
	return resp.Status
}
