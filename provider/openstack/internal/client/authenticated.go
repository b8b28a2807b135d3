package client

import (
	"errors"
	"net/http"
)

// authenticated sends the requests to one service, with a token that is valid.
type authenticated struct {
	clients *Clients
	service string
}

// RoundTrip implements http.RoundTripper. The answer is in memory when it returns.
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
		// The caller is told what the service said.
		return resp, nil
	}
	renewed, _, err := a.clients.send(again, used)
	if errors.Is(err, errRenewedEnough) {
		return resp, nil
	}
	return renewed, err
}

// send sends a request with a token that is not the stale one, and tells which it was.
func (c *Clients) send(req *http.Request, stale *identity) (*http.Response, *identity, error) {
	g, who, err := c.login(req.Context(), stale)
	if err != nil {
		closeBody(req)
		return nil, nil, err
	}
	defer c.release(g)
	signed := req.Clone(req.Context())
	signed.Header.Set("X-Auth-Token", who.token)
	resp, err := g.http.RoundTrip(signed)
	return resp, who, err
}
