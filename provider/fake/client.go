package fake

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"sync"

	utilnet "k8s.io/apimachinery/pkg/util/net"
	cloudprovider "k8s.io/cloud-provider"
)

var errClientClosed = errors.New("the client of the fake cloud is closed")

// A Client is the other end of [Cloud.Handler]: it opens providers on a cloud in another process,
// and does to the cloud what a test there could do. All methods are safe for concurrent use.
//
// A call's context travels: when it ends, the connection is cut and the call in the cloud
// cancelled. A call that is scripted to ignore its context goes on in the cloud while the
// provider's caller gets the context's error.
type Client struct {
	base      *url.URL
	transport http.RoundTripper
	info      info

	mu sync.Mutex
	// inFlight holds what cancels the requests that have not ended; nil when the client is closed.
	inFlight map[*context.CancelCauseFunc]struct{}
	ended    sync.WaitGroup
}

// A DialOption configures a [Client]; see [Dial].
type DialOption func(*Client)

// WithTransport sends all requests through rt. Requests that change the cloud are POST, PUT and
// DELETE, those that only read are GET. The default is a transport of the client's own, without a
// proxy.
func WithTransport(rt http.RoundTripper) DialOption { return func(c *Client) { c.transport = rt } }

// Dial reaches the cloud that is served at address, such as "http://127.0.0.1:8080", and asks it
// once what it is called and which interfaces it serves. ctx bounds only that. The client must be
// closed.
func Dial(ctx context.Context, address string, opts ...DialOption) (*Client, error) {
	base, err := url.Parse(address)
	if err != nil || base.Host == "" || base.Scheme != "http" && base.Scheme != "https" {
		return nil, fmt.Errorf(
			"dial the fake cloud: %q is not an address such as http://127.0.0.1:8080", address)
	}
	c := &Client{base: base, inFlight: map[*context.CancelCauseFunc]struct{}{}}
	for _, opt := range opts {
		opt(c)
	}
	if c.transport == nil {
		// As many connections stay open as a term has workers; the default of two would make new
		// ones all the time.
		c.transport = &http.Transport{MaxIdleConnsPerHost: 256}
	}
	if err := c.do(ctx, http.MethodGet, "cloud", nil, nil, &c.info); err != nil {
		c.Close()
		return nil, fmt.Errorf("dial the fake cloud: %w", err)
	}
	return c, nil
}

// Provider opens a provider on the cloud, as [Cloud.Provider] does. Functions in the options run in
// this process.
func (c *Client) Provider(opts ...ProviderOption) cloudprovider.Interface {
	return newProvider(c, c.info, opts)
}

// Close cancels the requests in flight, waits for them, and closes idle connections. Later requests
// fail. It may be called more than once.
func (c *Client) Close() {
	c.mu.Lock()
	for cancel := range c.inFlight {
		(*cancel)(errClientClosed)
	}
	c.inFlight = nil
	c.mu.Unlock()
	c.ended.Wait()
	closeIdleConnections(c.transport)
}

// closeIdleConnections finds the transport that has connections below those that wrap it.
func closeIdleConnections(rt http.RoundTripper) {
	for {
		switch t := rt.(type) {
		case interface{ CloseIdleConnections() }:
			t.CloseIdleConnections()
			return
		case utilnet.RoundTripperWrapper:
			rt = t.WrappedRoundTripper()
		default:
			return
		}
	}
}

// call implements backend.
func (c *Client) call(
	ctx context.Context, caller string, method Method, args arguments,
) (results, error) {
	// Asked here, too, so that the error does not depend on where the cloud is.
	if _, err := operationFor(method, args); err != nil {
		return results{}, err
	}
	query, body := url.Values{"caller": {caller}}, any(args)
	if verbOf(method) == http.MethodGet {
		text, err := json.Marshal(args)
		if err != nil {
			return results{}, fmt.Errorf("%s: write the arguments: %w", method, err)
		}
		query.Set("args", string(text))
		body = nil
	}
	var answer reply
	if err := c.do(ctx, verbOf(method), "call/"+string(method), query, body, &answer); err != nil {
		return results{}, fmt.Errorf("%s: %w", method, err)
	}
	if answer.Panic != nil {
		panic(*answer.Panic)
	}
	if answer.Error != nil {
		err, malformed := answer.Error.decode()
		if malformed != nil {
			return results{}, fmt.Errorf("%s: %w", method, malformed)
		}
		return results{}, err
	}
	return answer.results, nil
}

// do makes one request below /v1/ and reads the answer into out, if there is to be one.
func (c *Client) do(ctx context.Context, verb, path string, query url.Values, in, out any) error {
	ctx, leave, err := c.enter(ctx)
	if err != nil {
		return err
	}
	defer leave()
	err = c.roundTrip(ctx, verb, path, query, in, out)
	if err != nil && errors.Is(context.Cause(ctx), errClientClosed) {
		return errClientClosed
	}
	return err
}

// enter makes sure that Close ends the request and waits for it.
func (c *Client) enter(ctx context.Context) (context.Context, func(), error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.inFlight == nil {
		return nil, nil, errClientClosed
	}
	ctx, cancel := context.WithCancelCause(ctx)
	c.inFlight[&cancel] = struct{}{}
	c.ended.Add(1)
	return ctx, func() {
		cancel(nil)
		c.mu.Lock()
		delete(c.inFlight, &cancel)
		c.mu.Unlock()
		c.ended.Done()
	}, nil
}

func (c *Client) roundTrip(
	ctx context.Context, verb, path string, query url.Values, in, out any,
) error {
	target := c.base.JoinPath("v1", path)
	target.RawQuery = query.Encode()
	var body io.Reader
	if in != nil {
		data, err := json.Marshal(in)
		if err != nil {
			return fmt.Errorf("write the request: %w", err)
		}
		body = bytes.NewReader(data)
	}
	req, err := http.NewRequestWithContext(ctx, verb, target.String(), body)
	if err != nil {
		return err
	}
	resp, err := (&http.Client{Transport: c.transport}).Do(req)
	if err != nil {
		return err
	}
	defer func() { _ = resp.Body.Close() }()
	data, err := io.ReadAll(resp.Body)
	if err != nil {
		return fmt.Errorf("read the answer: %w", err)
	}
	if resp.StatusCode/100 != 2 {
		return refused(resp.Status, data)
	}
	if out == nil {
		return nil
	}
	if err := json.Unmarshal(data, out); err != nil {
		return fmt.Errorf("the answer of %s is not that of a fake cloud: %w", c.base.Redacted(),
			err)
	}
	return nil
}

func refused(status string, body []byte) error {
	var r refusal
	if json.Unmarshal(body, &r) != nil || r.Error == "" {
		return fmt.Errorf("the answer is %s and not that of a fake cloud", status)
	}
	return errors.New(r.Error)
}
