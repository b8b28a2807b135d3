// Package recent keeps the last requests to OpenStack that were sent for one object.
package recent

import (
	"context"
	"slices"
	"sync"
	"time"
)

// maxRequests bounds the requests that are kept for one object.
const maxRequests = 10

// Request is a request with its result. Equal requests with the same result are one.
type Request struct {
	Method, Path string
	// Code is the status of the response, or why no response came.
	Code string
	// Count is how often it was sent. Ended and Duration are of the last time.
	Count    int
	Ended    time.Time
	Duration time.Duration
}

// Requests are the last requests of one object. The zero value is empty and ready to use. It is
// safe for concurrent use.
type Requests struct {
	mu  sync.Mutex
	all []Request
}

// List returns the requests, the last one first.
func (r *Requests) List() []Request {
	r.mu.Lock()
	defer r.mu.Unlock()
	all := slices.Clone(r.all)
	slices.Reverse(all)
	return all
}

// add keeps a request in place of an equal one, so that polling does not displace the others.
func (r *Requests) add(request Request) {
	r.mu.Lock()
	defer r.mu.Unlock()
	request.Count = 1
	isEqual := func(o Request) bool {
		return o.Method == request.Method && o.Path == request.Path && o.Code == request.Code
	}
	if i := slices.IndexFunc(r.all, isEqual); i >= 0 {
		request.Count += r.all[i].Count
		r.all = slices.Delete(r.all, i, i+1)
	}
	r.all = append(r.all, request)
	if len(r.all) > maxRequests {
		r.all = slices.Delete(r.all, 0, len(r.all)-maxRequests)
	}
}

type key struct{}

// With returns a context whose requests are kept in r.
func With(ctx context.Context, r *Requests) context.Context {
	return context.WithValue(ctx, key{}, r)
}

// Add keeps a request if its context comes from [With].
func Add(ctx context.Context, request Request) {
	if r, ok := ctx.Value(key{}).(*Requests); ok {
		r.add(request)
	}
}
