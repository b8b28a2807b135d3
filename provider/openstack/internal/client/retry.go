package client

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/utils/clock"

	"github.com/fxccm/fxccm/internal/fence"
)

const (
	// The pause before the n-th repetition is a random part of firstPause * 2^n, at most longestPause. It is fully random, so that those
	// who were refused together do not come back together.
	firstPause   = 200 * time.Millisecond
	longestPause = 10 * time.Second
	// retryTime bounds all attempts of a request: none begins later than that after the first one.
	retryTime = time.Minute
)

// retries makes requests again that OpenStack could not carry out for the moment; see [retryReason].
type retries struct {
	next     http.RoundTripper
	max      int
	clock    clock.Clock
	random   func() float64
	observer Observer
	logger   logr.Logger
}

// RoundTrip implements http.RoundTripper.
func (r *retries) RoundTrip(req *http.Request) (*http.Response, error) {
	ctx := req.Context()
	end := r.clock.Now().Add(retryTime)
	attempt := req
	for n := 0; ; n++ {
		resp, err := r.next.RoundTrip(attempt)
		reason := retryReason(req, resp, err)
		if reason == "" || n >= r.max || ctx.Err() != nil || !replayable(req) {
			return resp, err
		}
		now := r.clock.Now()
		wait := backoff(firstPause, longestPause, n, r.random()) + retryAfter(resp, now)
		if now.Add(wait).After(end) {
			return resp, err
		}
		r.logger.V(2).Info("request to OpenStack is made again", "operation", callOf(ctx).operation, "reason", reason, "after", wait)
		if ended := pause(ctx, r.clock, wait); ended != nil {
			return nil, fmt.Errorf("wait to make the request again, which ended with %s: %w", outcome(resp, err), ended)
		}
		r.observer.RequestRetried(reason)
		if attempt, err = replay(req); err != nil {
			return nil, err
		}
	}
}

// retryReason tells why a request may be made again; "" if it must not, or if there is no use in it.
//
//   - 429 and 503 say that the request was not carried out. So does 409 if it is for an immutable resource: that is how Octavia, and
//     Neutron's drivers, refuse to change what they are changing already. Other conflicts are the caller's to resolve.
//   - No answer, 502 and 504 do not say whether it was carried out. It is made again if that does no harm: all reads, and PUT
//     and DELETE, which OpenStack's services carry out twice with the same result (a DELETE is answered with 404 then, which every
//     caller takes for success). A POST would make two things. A failover is a PUT that does its work each time. Of two DELETEs at once of
//     what is in a load balancer, Octavia's worker fails at the second, and the load balancer stays PENDING_UPDATE for good; the caller
//     waits for the first.
//   - 500 is more often a defect than a passing state. A read is worth another try, a change is not.
//   - A connection that could not be made has not carried anything.
//
// What the fence has refused, or the caller has given up, is over.
func retryReason(req *http.Request, resp *http.Response, err error) string {
	read := req.Method == http.MethodGet || req.Method == http.MethodHead
	repeatable := read || req.Method == http.MethodDelete && callOf(req.Context()).service != serviceLoadBalancer ||
		req.Method == http.MethodPut && !strings.HasSuffix(strings.TrimSuffix(req.URL.Path, "/"), "/failover")
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
		broken      *brokenAnswer
		certificate *tls.CertificateVerificationError
		dial        *net.OpError
	)
	switch {
	case errors.Is(err, fence.ErrClosed), errors.Is(err, ErrClosed),
		errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded),
		errors.As(err, &broken), errors.As(err, &certificate):
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

// immutable tells whether a conflict is with a change that is being made: "Load Balancer ... is immutable and cannot be updated."
// (octavia/common/exceptions.py, ImmutableObject).
func immutable(body []byte) bool {
	const most = 64 << 10
	return strings.Contains(strings.ToLower(string(body[:min(len(body), most)])), "immutable")
}

// retryAfter is how long the answer asks to wait (RFC 9110, 10.2.3): seconds, or a date.
func retryAfter(resp *http.Response, now time.Time) time.Duration {
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

// backoff is a random part of first * 2^n, at most longest.
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
