package client

import (
	"context"
	"errors"
	"net/http"
	"net/url"

	"github.com/gophercloud/gophercloud/v2"

	"github.com/fxccm/fxccm/internal/fence"
	"github.com/fxccm/fxccm/provider/openstack/internal/failure"
)

// authenticated sends requests to one service with a valid token.
type authenticated struct {
	clients *Clients
	service string
}

// RoundTrip implements http.RoundTripper. It returns when the whole response is in memory.
func (a *authenticated) RoundTrip(req *http.Request) (*http.Response, error) {
	ctx, done, err := a.clients.enter(req.Context())
	if err != nil {
		closeBody(req)
		return nil, err
	}
	defer done()
	ctx = withCall(ctx, call{a.service, operation(a.service, req.Method, req.URL.Path)})
	req = req.WithContext(ctx)

	resp, used, err := a.clients.send(req, nil)
	if err != nil || resp.StatusCode != http.StatusUnauthorized {
		return resp, err
	}
	again, err := replay(req)
	if err != nil {
		// The body cannot be sent again; return the response of the service.
		return resp, nil
	}
	_ = resp.Body.Close() // the login and the next response may wait for that
	renewed, _, err := a.clients.send(again, used)
	if errors.Is(err, errRenewalLimit) {
		return resp, nil // its body is in memory
	}
	return renewed, err
}

// send sends a request with a token other than the stale one, and returns the identity that it
// used.
func (c *Clients) send(req *http.Request, stale *identity) (*http.Response, *identity, error) {
	g, who, err := c.login(req.Context(), stale)
	if err != nil {
		closeBody(req)
		return nil, nil, err
	}
	defer c.release(g)
	signed := req.Clone(req.Context())
	signed.Header.Set("X-Auth-Token", who.token)
	pipeline := g.http
	if flightOf(req.Context()) != nil {
		pipeline = g.detached
	}
	resp, err := pipeline.RoundTrip(signed)
	if req.Context().Err() == nil {
		g.noteAnswer(callOf(req.Context()).service, resp, err)
	}
	return resp, who, err
}

// noteAnswer notes whether the service answers, with any status but that of its own failure. A
// request that the caller or the fence has ended shows neither.
func (a *access) noteAnswer(service string, resp *http.Response, err error) {
	name := serviceName(service)
	switch {
	case err != nil && isEnded(err):
		return
	case err != nil:
		err = failure.New(name, "", &url.Error{Err: err})
	case resp.StatusCode >= http.StatusInternalServerError:
		err = failure.New(name, "", gophercloud.ErrUnexpectedResponseCode{
			Actual: resp.StatusCode, Body: peek(resp),
		})
	}
	a.answers.Note(name, err)
}

// isEnded reports whether an error only means that the request was canceled or not sent.
func isEnded(err error) bool {
	return errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) ||
		errors.Is(err, fence.ErrClosed) || errors.Is(err, ErrClosed)
}
