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
	"strings"
	"sync"

	utilnet "k8s.io/apimachinery/pkg/util/net"
	cloudprovider "k8s.io/cloud-provider"

	"github.com/fxccm/fxccm/internal/rescue"
	"github.com/fxccm/fxccm/internal/wireerror"
)

// Handler serves the cloud to other processes; see [Dial] for the client. It has neither
// authentication nor encryption: serve it on a loopback address.
//
// A call whose client disconnects is canceled. A call that hangs and ignores its context holds its
// connection until it is released: call ClearFaults before closing the server.
func (c *Cloud) Handler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /v1/cloud", func(w http.ResponseWriter, _ *http.Request) {
		writeJSON(w, c.info())
	})
	mux.HandleFunc("GET /v1/call/{method}", func(w http.ResponseWriter, r *http.Request) {
		c.serveCall(w, r, strings.NewReader(r.URL.Query().Get("args")))
	})
	mux.HandleFunc("POST /v1/call/{method}", func(w http.ResponseWriter, r *http.Request) {
		c.serveCall(w, r, r.Body)
	})
	return mux
}

// serveCall makes a provider's call. The answer to an invalid call has status 400; the provider's
// own errors and panics have status 200.
func (c *Cloud) serveCall(w http.ResponseWriter, r *http.Request, body io.Reader) {
	method := Method(r.PathValue("method"))
	var args arguments
	err := json.NewDecoder(body).Decode(&args)
	if err == nil {
		_, err = operationFor(method, args)
	}
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	var answer reply
	_ = rescue.Call(func() error {
		res, err := c.call(r.Context(), r.URL.Query().Get("caller"), method, args)
		answer = reply{results: res, Error: wireerror.Encode(err)}
		return nil
	}, func(value any) error {
		// An injected panic belongs to the caller's process.
		text := fmt.Sprint(value)
		answer = reply{Panic: &text}
		return nil
	})
	writeJSON(w, answer)
}

func writeJSON(w http.ResponseWriter, value any) {
	w.Header().Set("Content-Type", "application/json")
	// A disconnected client cannot receive the answer.
	_ = json.NewEncoder(w).Encode(value)
}

// reply is the answer to a provider's call: its results, its error, or the value of its panic.
type reply struct {
	results
	Error *wireerror.Error `json:"error,omitempty"`
	Panic *string          `json:"panic,omitempty"`
}

var errClientClosed = errors.New("the client of the fake cloud is closed")

// A Client opens providers on a cloud in another process; see [Cloud.Handler]. All methods are safe
// for concurrent use.
//
// The end of a call's context cancels the call in the cloud. A call with a fault that ignores the
// context continues in the cloud, while the provider's caller gets the context's error.
type Client struct {
	base      *url.URL
	transport http.RoundTripper
	info      info

	// requests is held for reading by each request, so that Close can wait for all.
	requests sync.RWMutex
	// closed ends at Close.
	closed context.Context
	close  context.CancelFunc
}

// A DialOption configures a [Client]; see [Dial].
type DialOption func(*Client)

// WithTransport sends all requests through rt. Calls that change the cloud are POST requests, all
// other requests are GET. The default is a transport of the client alone, without a proxy.
func WithTransport(rt http.RoundTripper) DialOption { return func(c *Client) { c.transport = rt } }

// Dial connects to the cloud that is served at address, such as "http://127.0.0.1:8080". It reads
// the cloud's name and interfaces once; ctx bounds only that. The client must be closed.
func Dial(ctx context.Context, address string, opts ...DialOption) (*Client, error) {
	base, err := url.Parse(address)
	if err != nil || base.Host == "" || base.Scheme != "http" && base.Scheme != "https" {
		return nil, errors.New( // the address may have a password
			"dial the fake cloud: the endpoint is not an address such as http://127.0.0.1:8080")
	}
	c := &Client{base: base}
	c.closed, c.close = context.WithCancel(context.Background())
	for _, opt := range opts {
		opt(c)
	}
	if c.transport == nil {
		// A term has many workers. With the default of two idle connections, most requests would
		// open a new one.
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
// fail. It is idempotent.
func (c *Client) Close() {
	c.close()
	c.requests.Lock()
	defer c.requests.Unlock()
	utilnet.CloseIdleConnectionsFor(c.transport)
}

// call implements backend.
func (c *Client) call(
	ctx context.Context, caller string, method Method, args arguments,
) (results, error) {
	// Checked here, too, so that the error does not depend on the cloud's process.
	op, err := operationFor(method, args)
	if err != nil {
		return results{}, err
	}
	data, err := json.Marshal(args)
	if err != nil {
		return results{}, fmt.Errorf("%s: write the arguments: %w", method, err)
	}
	verb, query := http.MethodPost, url.Values{"caller": {caller}}
	if !op.mutating {
		verb = http.MethodGet
		query.Set("args", string(data))
		data = nil
	}
	var answer reply
	if err := c.do(ctx, verb, "call/"+string(method), query, data, &answer); err != nil {
		return results{}, fmt.Errorf("%s: %w", method, err)
	}
	if answer.Panic != nil {
		panic(*answer.Panic)
	}
	if answer.Error != nil {
		return results{}, answer.Error.Decode()
	}
	return answer.results, nil
}

// do makes one request below /v1/ and reads the answer into out.
func (c *Client) do(
	ctx context.Context, verb, path string, query url.Values, body []byte, out any,
) error {
	c.requests.RLock()
	defer c.requests.RUnlock()
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	defer context.AfterFunc(c.closed, func() { cancel(errClientClosed) })()
	if c.closed.Err() != nil {
		return errClientClosed
	}
	err := c.roundTrip(ctx, verb, path, query, body, out)
	if err != nil && errors.Is(context.Cause(ctx), errClientClosed) {
		return errClientClosed
	}
	return err
}

func (c *Client) roundTrip(
	ctx context.Context, verb, path string, query url.Values, body []byte, out any,
) error {
	target := c.base.JoinPath("v1", path)
	target.RawQuery = query.Encode()
	req, err := http.NewRequestWithContext(ctx, verb, target.String(), bytes.NewReader(body))
	if err != nil {
		return err
	}
	resp, err := (&http.Client{
		Transport: c.transport,
		// The cloud redirects no client; another server may, to any address.
		CheckRedirect: func(*http.Request, []*http.Request) error {
			return http.ErrUseLastResponse
		},
	}).Do(req)
	if err != nil {
		return err
	}
	defer func() { _ = resp.Body.Close() }()
	data, err := io.ReadAll(resp.Body)
	if err != nil {
		return fmt.Errorf("read the answer: %w", err)
	}
	if resp.StatusCode != http.StatusOK {
		return fmt.Errorf("the answer of %s is %d %s", c.base.Redacted(), resp.StatusCode,
			http.StatusText(resp.StatusCode))
	}
	if err := json.Unmarshal(data, out); err != nil {
		return fmt.Errorf("the answer of %s is not that of a fake cloud: %w", c.base.Redacted(),
			err)
	}
	return nil
}
