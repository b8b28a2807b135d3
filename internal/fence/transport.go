package fence

import (
	"cmp"
	"context"
	"io"
	"net/http"
	"sync"

	"github.com/fxccm/fxccm/internal/inflight"
)

// Transport is a [Fence.Door] that does not report refused requests.
func (f *Fence) Transport(next http.RoundTripper) http.RoundTripper {
	return f.Door(func() {})(next)
}

// Door returns a door for HTTP. Requests that may change something are checked by the fence, and
// count as in flight until their response body is closed or read to its end. GET, HEAD and OPTIONS
// are reads, which continue until [Fence.EndReads]. refused is called for each request that is
// refused.
func (f *Fence) Door(refused func()) func(http.RoundTripper) http.RoundTripper {
	return func(next http.RoundTripper) http.RoundTripper {
		return &transport{fence: f, next: next, refused: refused}
	}
}

type transport struct {
	fence   *Fence
	next    http.RoundTripper
	refused func()
}

// RoundTrip implements http.RoundTripper.
func (t *transport) RoundTrip(req *http.Request) (*http.Response, error) {
	ctx, over, done, err := t.enter(req)
	if err != nil {
		t.refused()
		if req.Body != nil {
			_ = req.Body.Close()
		}
		return nil, err
	}
	resp, err := t.next.RoundTrip(req.WithContext(ctx))
	if err != nil {
		// The transport reports "context canceled", or, if the end of the term was faster than
		// the cancellation, that its connection is closed. The caller gets the reason.
		done()
		return nil, cmp.Or(context.Cause(over), err)
	}
	ended := body{ReadCloser: resp.Body, over: over, done: sync.OnceFunc(done)}
	if duplex, ok := resp.Body.(io.Writer); ok { // the connection of an upgraded request
		resp.Body = struct {
			*body
			io.Writer
		}{&ended, duplex}
	} else {
		resp.Body = &ended
	}
	return resp, nil
}

// enter also returns the context with whose end the fence cancels the request.
func (t *transport) enter(
	req *http.Request,
) (ctx, over context.Context, done func(), _ error) {
	method := req.Method
	if method == "" {
		method = http.MethodGet
	}
	name := method + " " + req.URL.Path
	switch method {
	case http.MethodGet, http.MethodHead, http.MethodOptions:
		ctx, done, err := t.fence.Read(req.Context(), name)
		return ctx, t.fence.over, done, err
	}
	ctx, done, err := t.fence.Enter(req.Context(), inflight.Activity{Name: name, MayAct: true})
	return ctx, t.fence.closed, done, err
}

// WrappedRoundTripper lets client-go find the transport below.
func (t *transport) WrappedRoundTripper() http.RoundTripper { return t.next }

type body struct {
	io.ReadCloser
	over context.Context
	done func()
}

// Read implements io.Reader.
func (b *body) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	if err != nil {
		b.done()
	}
	if err != nil && err != io.EOF {
		err = cmp.Or(context.Cause(b.over), err)
	}
	return n, err
}

// Close implements io.Closer.
func (b *body) Close() error {
	defer b.done()
	return b.ReadCloser.Close()
}
