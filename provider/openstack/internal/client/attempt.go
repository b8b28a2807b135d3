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

	"github.com/fxccm/fxccm/internal/fence"
	"github.com/fxccm/fxccm/provider/openstack/internal/recent"
)

// maxBody limits a response body, in bytes. Nova's longest page, a thousand servers, needs less
// than a tenth of it.
const maxBody = 128 << 20

// call is the service and operation of a request.
type call struct{ service, operation string }

type callKey struct{}

func withCall(ctx context.Context, c call) context.Context {
	return context.WithValue(ctx, callKey{}, c)
}

func callOf(ctx context.Context) call {
	c, _ := ctx.Value(callKey{}).(call)
	return c
}

// attempts sends a request once and returns when the whole response is in memory. So the timeout
// includes a slow body, a truncated body is an error that can be retried, and an unclosed body
// holds no connection.
type attempts struct {
	next http.RoundTripper
	// timeout is 0 for none.
	timeout time.Duration
	options Options
}

// RoundTrip implements http.RoundTripper.
func (a *attempts) RoundTrip(req *http.Request) (*http.Response, error) {
	what := callOf(req.Context())
	ctx := req.Context()
	if a.timeout > 0 {
		var stop context.CancelFunc
		ctx, stop = context.WithTimeoutCause(ctx, a.timeout, &timeoutError{after: a.timeout})
		defer stop()
	}
	a.options.Observer.RequestStarted(what.service)
	start := a.options.Clock.Now()
	resp, err := roundTrip(a.next, req.WithContext(ctx))
	if err != nil && ctx.Err() != nil {
		// The transport reports only that the context ended; return the cause.
		err = context.Cause(ctx)
	}
	code, duration := codeOf(resp, err), a.options.Clock.Since(start)
	a.options.Observer.RequestEnded(what.service, what.operation, code, duration)
	// The query is left out, because it may be long. Only bodies and headers have secrets.
	recent.Add(req.Context(), recent.Request{
		Method: req.Method, Path: req.URL.Path, Code: code, Ended: start.Add(duration),
		Duration: duration,
	})
	a.options.Logger.V(6).Info("Request to OpenStack", "operation", what.operation,
		"method", req.Method, "url", req.URL.Redacted(), "code", code, "duration",
		duration.String())
	return resp, err
}

// timeoutError is the timeout of one attempt. It differs from context.DeadlineExceeded, the
// deadline of the caller.
type timeoutError struct{ after time.Duration }

func (e *timeoutError) Error() string {
	return fmt.Sprintf("no complete response within %s", e.after)
}

// Timeout implements net.Error.
func (e *timeoutError) Timeout() bool { return true }

func roundTrip(next http.RoundTripper, req *http.Request) (*http.Response, error) {
	resp, err := next.RoundTrip(req)
	if err != nil {
		return nil, err
	}
	body, err := readAll(resp, maxBody)
	if err == nil {
		err = checkJSON(req, resp, body)
	}
	if err != nil {
		_ = resp.Body.Close()
		return nil, err
	}
	setBody(resp, body)
	return resp, nil
}

// invalidResponse is a complete but unusable response. It is not retried, because its source, for
// example a proxy with its own error page, would send it again.
type invalidResponse struct{ what string }

func (e *invalidResponse) Error() string { return e.what }

// readAll takes memory for what arrives, whatever length the header announces.
func readAll(resp *http.Response, limit int64) ([]byte, error) {
	body, err := io.ReadAll(io.LimitReader(resp.Body, limit+1))
	if err != nil {
		return nil, fmt.Errorf("the response (%s) is truncated: %w", resp.Status, err)
	}
	if int64(len(body)) > limit {
		return nil, &invalidResponse{fmt.Sprintf("the response (%s) is larger than %d MiB",
			resp.Status, limit>>20)}
	}
	return body, nil
}

// checkJSON refuses a body that cannot be JSON where JSON was requested. gophercloud would only
// report an invalid character. The error does not quote the body, which may contain anything.
func checkJSON(req *http.Request, resp *http.Response, body []byte) error {
	if resp.StatusCode >= http.StatusBadRequest || req.Header.Get("Accept") != "application/json" {
		return nil
	}
	trimmed := bytes.TrimSpace(body)
	if len(trimmed) == 0 || trimmed[0] == '{' || trimmed[0] == '[' {
		return nil
	}
	if req.Method == http.MethodPut && string(trimmed) == "null" {
		return nil // some Neutrons answer so to new tags
	}
	if resp.StatusCode >= http.StatusMultipleChoices && resp.Header.Get("Location") != "" {
		return nil
	}
	kind := resp.Header.Get("Content-Type")
	if kind == "" {
		kind = "of unknown type"
	}
	return &invalidResponse{fmt.Sprintf("the response (%s) is not JSON but %s: a proxy may have "+
		"sent it, or the endpoint is wrong",
		resp.Status, kind)}
}

// bodyInMemory can be read after it is closed.
type bodyInMemory struct {
	io.Reader
	io.Closer
}

// setBody replaces a body that was read to its end. The body is closed with its replacement: until
// then, a guard may count the response as being decoded.
func setBody(resp *http.Response, body []byte) {
	resp.Body = bodyInMemory{bytes.NewReader(body), resp.Body}
	resp.ContentLength = int64(len(body))
}

// peek returns the body and keeps it readable.
func peek(resp *http.Response) []byte {
	// The body is in memory, so this cannot fail.
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
	case errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded),
		errors.Is(err, ErrClosed):
		return codeCanceled
	}
	return codeError
}

// sameService restricts redirects to the same service, so that the token does not leak.
// gophercloud's client would follow a redirect to any host and turn a POST into a GET.
func sameService(req *http.Request, via []*http.Request) error {
	first := via[0]
	read := first.Method == http.MethodGet || first.Method == http.MethodHead
	if !read || len(via) >= 5 || req.URL.Scheme != first.URL.Scheme ||
		!strings.EqualFold(req.URL.Host, first.URL.Host) {
		return http.ErrUseLastResponse
	}
	return nil
}
