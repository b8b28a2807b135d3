package client

import (
	"context"
	"net/http"
	"net/url"
	"time"
)

type flightKey struct{}

// flightOf returns the generation that sends the requests of a shared read, or nil.
func flightOf(ctx context.Context) *generation {
	g, _ := ctx.Value(flightKey{}).(*generation)
	return g
}

// Read carries out a read that is the same for all clusters with the same access. A result that was
// begun at newer or later is reused; begun is its time. read gets a context that ends when no
// caller waits any more. Neither read nor the callers may change the result later.
//
// The term of each caller guards its own wait, so the end of one term does not cancel a read for
// which other clusters wait. No result is older than the Clients, because another process may have
// acted for their cluster before. Clients that share nothing call read directly.
func (c *Clients) Read(
	ctx context.Context, key string, newer time.Time, read func(context.Context) (any, error),
) (value any, begun time.Time, err error) {
	g := c.acquire()
	defer c.release(g)
	// A read within another shared read is shared with that.
	if isPart := flightOf(ctx) != nil; isPart || !g.isShared() {
		begun = c.options.Clock.Now()
		value, err = read(ctx)
		return value, begun, err
	}
	ctx, done, err := c.enter(ctx)
	if err != nil {
		return nil, time.Time{}, err
	}
	defer done()
	if newer.Before(c.opened) {
		newer = c.opened
	}
	var found any
	var at time.Time
	err = c.pass(ctx, http.MethodGet, g.authURL().JoinPath("..", key),
		func(ctx context.Context) (err error) {
			found, at, err = g.reads.Read(ctx, key, newer,
				func(ctx context.Context) (any, error) {
					return read(context.WithValue(ctx, flightKey{}, g))
				})
			return err
		})
	if err != nil {
		return nil, time.Time{}, err
	}
	return found, at, nil
}

// pass runs a function as a request of the term, which the fence can refuse or cancel.
func (c *Clients) pass(
	ctx context.Context, method string, address *url.URL, do func(context.Context) error,
) error {
	req, err := http.NewRequestWithContext(ctx, method, address.String(), nil)
	if err != nil {
		return err
	}
	resp, err := c.options.Transport(doing(do)).RoundTrip(req)
	if err != nil {
		return err
	}
	return resp.Body.Close()
}

// doing is a function as an http.RoundTripper.
type doing func(context.Context) error

// RoundTrip implements http.RoundTripper.
func (d doing) RoundTrip(req *http.Request) (*http.Response, error) {
	if err := d(req.Context()); err != nil {
		return nil, err
	}
	return &http.Response{
		StatusCode: http.StatusNoContent, Body: http.NoBody, Header: http.Header{}, Request: req,
	}, nil
}
