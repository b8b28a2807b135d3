package initfunc

import (
	"context"
	"io"
	"net/http"
	"sync"

	"k8s.io/client-go/transport"
)

// endingWith makes requests end with ctx, in addition to their own context.
func endingWith(ctx context.Context) transport.WrapperFunc {
	return func(next http.RoundTripper) http.RoundTripper {
		return roundTripper(func(req *http.Request) (*http.Response, error) {
			merged, cancel := context.WithCancelCause(req.Context())
			stop := context.AfterFunc(ctx, func() { cancel(context.Cause(ctx)) })
			done := func() {
				stop()
				cancel(nil)
			}
			resp, err := next.RoundTrip(req.WithContext(merged))
			if err != nil {
				done()
				return nil, err
			}
			resp.Body = &endingBody{ReadCloser: resp.Body, done: sync.OnceFunc(done)}
			return resp, nil
		})
	}
}

// endingBody is a response's body. The request is over when the body is closed.
type endingBody struct {
	io.ReadCloser
	done func()
}

// Close implements io.Closer.
func (b *endingBody) Close() error {
	defer b.done()
	return b.ReadCloser.Close()
}
