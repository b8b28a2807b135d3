package fence

import (
	"context"
	"errors"
	"io"
	"net/http"
	"sync"
)

// Transport is a [Fence.Door] that tells nobody of what it refuses.
func (f *Fence) Transport(next http.RoundTripper) http.RoundTripper { return f.Door(func() {})(next) }

// Door returns a door for HTTP: requests that may change something pass the fence, and count as
// in flight until their response body is closed or read to its end. GET, HEAD and OPTIONS pass freely: they change
// nothing, and watches must outlive single calls. refused is called for each request that is refused.
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
	switch req.Method {
	case http.MethodGet, http.MethodHead, http.MethodOptions, "":
		return t.next.RoundTrip(req)
	}
	ctx, done, err := t.fence.Enter(req.Context(), req.Method+" "+req.URL.Path)
	if err != nil {
		t.refused()
		if req.Body != nil {
			_ = req.Body.Close()
		}
		return nil, err
	}
	resp, err := t.next.RoundTrip(req.WithContext(ctx))
	if err != nil {
		// The transport reports only "context canceled"; the caller is told why.
		if cause := context.Cause(ctx); errors.Is(cause, ErrClosed) {
			err = cause
		}
		done()
		return nil, err
	}
	resp.Body = &body{ReadCloser: resp.Body, done: sync.OnceFunc(done)}
	return resp, nil
}

// WrappedRoundTripper lets client-go find the transport below.
func (t *transport) WrappedRoundTripper() http.RoundTripper { return t.next }

type body struct {
	io.ReadCloser
	done func()
}

func (b *body) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	if err != nil {
		b.done()
	}
	return n, err
}

func (b *body) Close() error {
	defer b.done()
	return b.ReadCloser.Close()
}
