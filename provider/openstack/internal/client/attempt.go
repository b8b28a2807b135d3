package client

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/utils/clock"

	"github.com/fxccm/fxccm/internal/fence"
)

// maxAnswer bounds an answer, in bytes: a thousand servers, which is Nova's longest page, are less than a tenth of it.
const maxAnswer = 128 << 20

// call is what a request is for.
type call struct{ service, operation string }

type callKey struct{}

func withCall(ctx context.Context, c call) context.Context {
	return context.WithValue(ctx, callKey{}, c)
}

func callOf(ctx context.Context) call {
	c, _ := ctx.Value(callKey{}).(call)
	return c
}

// attempts sends a request once, and returns when the whole answer is in memory. So the time limit covers a slow body too, a
// body that breaks off is an error of this attempt and can be tried again, and no answer that somebody forgets to close holds
// a connection.
type attempts struct {
	next     http.RoundTripper
	timeout  time.Duration
	clock    clock.Clock
	observer Observer
	logger   logr.Logger
}

// RoundTrip implements http.RoundTripper.
func (a *attempts) RoundTrip(req *http.Request) (*http.Response, error) {
	what := callOf(req.Context())
	ctx, stop := withTimeout(req.Context(), a.clock, a.timeout)
	defer stop()
	a.observer.RequestStarted(what.service)
	start := a.clock.Now()
	resp, err := answer(a.next, req.WithContext(ctx))
	if err != nil && ctx.Err() != nil {
		// The transport tells that the context ended; the caller is told why.
		err = context.Cause(ctx)
	}
	code, duration := codeOf(resp, err), a.clock.Since(start)
	a.observer.RequestEnded(what.service, what.operation, code, duration)
	a.logger.V(6).Info("request to OpenStack", "operation", what.operation, "method", req.Method, "url", req.URL.Redacted(),
		"code", code, "duration", duration)
	return resp, err
}

// timeoutError tells that an attempt took too long. It is not context.DeadlineExceeded, which would be the caller's own limit.
type timeoutError struct{ after time.Duration }

func (e *timeoutError) Error() string { return fmt.Sprintf("no complete answer within %s", e.after) }

// Timeout makes it a net.Error's.
func (e *timeoutError) Timeout() bool { return true }

// withTimeout is context.WithTimeout with a clock of one's own. stop ends the context and waits for what looks at the clock.
// 0 is no limit.
func withTimeout(parent context.Context, c clock.Clock, limit time.Duration) (_ context.Context, stop func()) {
	ctx, cancel := context.WithCancelCause(parent)
	if limit <= 0 {
		return ctx, func() { cancel(nil) }
	}
	timer := c.NewTimer(limit)
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		select {
		case <-timer.C():
			cancel(&timeoutError{after: limit})
		case <-ctx.Done():
		}
	}()
	return ctx, func() {
		cancel(nil)
		timer.Stop()
		<-ended
	}
}

func answer(next http.RoundTripper, req *http.Request) (*http.Response, error) {
	resp, err := next.RoundTrip(req)
	if err != nil {
		return nil, err
	}
	body, err := readAll(resp, maxAnswer)
	if err != nil {
		return nil, err
	}
	if err := checkJSON(req, resp, body); err != nil {
		return nil, err
	}
	setBody(resp, body)
	return resp, nil
}

// brokenAnswer is an answer that is there, and of no use. It is not asked for again: what makes such an answer, a proxy that shows a
// page of its own for instance, will do so again.
type brokenAnswer struct{ what string }

func (e *brokenAnswer) Error() string { return e.what }

func readAll(resp *http.Response, limit int64) ([]byte, error) {
	defer func() { _ = resp.Body.Close() }()
	var body bytes.Buffer
	if resp.ContentLength > 0 && resp.ContentLength <= limit {
		body.Grow(int(resp.ContentLength) + bytes.MinRead)
	}
	n, err := io.Copy(&body, io.LimitReader(resp.Body, limit+1))
	if err != nil {
		return nil, fmt.Errorf("the answer (%s) broke off: %w", resp.Status, err)
	}
	if n > limit {
		return nil, &brokenAnswer{fmt.Sprintf("the answer (%s) has more than %d MiB", resp.Status, limit>>20)}
	}
	return body.Bytes(), nil
}

// checkJSON refuses what cannot be JSON where JSON was asked for. gophercloud would only say that it met a strange character. The
// answer itself is not told: it may be anything.
func checkJSON(req *http.Request, resp *http.Response, body []byte) error {
	if resp.StatusCode >= http.StatusBadRequest || req.Header.Get("Accept") != "application/json" {
		return nil
	}
	trimmed := bytes.TrimSpace(body)
	if len(trimmed) == 0 || trimmed[0] == '{' || trimmed[0] == '[' {
		return nil
	}
	if resp.StatusCode >= http.StatusMultipleChoices && resp.Header.Get("Location") != "" {
		return nil
	}
	kind := resp.Header.Get("Content-Type")
	if kind == "" {
		kind = "of no known kind"
	}
	return &brokenAnswer{fmt.Sprintf("the answer (%s) is not JSON but %s: it may be a proxy's, or the address is not the service's",
		resp.Status, kind)}
}

func setBody(resp *http.Response, body []byte) {
	resp.Body = io.NopCloser(bytes.NewReader(body))
	resp.ContentLength = int64(len(body))
}

// peek returns the body, and leaves it in the answer.
func peek(resp *http.Response) []byte {
	// The body is in memory: this cannot fail.
	body, _ := io.ReadAll(resp.Body)
	setBody(resp, body)
	return body
}

func codeOf(resp *http.Response, err error) string {
	var timeout *timeoutError
	switch {
	case err == nil:
		return strconv.Itoa(resp.StatusCode)
	case errors.As(err, &timeout):
		return codeTimeout
	case errors.Is(err, fence.ErrClosed):
		return codeRefused
	case errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded), errors.Is(err, ErrClosed):
		return codeCancelled
	}
	return codeError
}

// sameService keeps requests, and the token in them, with the service that they are meant for: gophercloud's client would follow
// a redirect to anywhere, and make a GET of a POST.
func sameService(req *http.Request, via []*http.Request) error {
	first := via[0]
	read := first.Method == http.MethodGet || first.Method == http.MethodHead
	if !read || len(via) >= 5 || req.URL.Scheme != first.URL.Scheme || !strings.EqualFold(req.URL.Host, first.URL.Host) {
		return http.ErrUseLastResponse
	}
	return nil
}
