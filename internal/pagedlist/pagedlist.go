// Package pagedlist tells the transport of a client which requests are for pages of one list. A
// server can send pages without an end, so a limit of a response must count them together.
package pagedlist

import (
	"context"
	"sync/atomic"
)

type key struct{}

// Begin returns a context for the requests of one list. It is ctx if that is of a list already.
func Begin(ctx context.Context) context.Context {
	if Of(ctx) != nil {
		return ctx
	}
	return context.WithValue(ctx, key{}, new(atomic.Int64))
}

// Of returns the size of the pages so far, for the transport to increase; nil if the request is not
// of a list.
func Of(ctx context.Context) *atomic.Int64 {
	size, _ := ctx.Value(key{}).(*atomic.Int64)
	return size
}
