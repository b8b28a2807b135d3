package conformance

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"
)

// errFailing is the error of requests while [Gate.Fail] is in force.
var errFailing = errors.New("the cloud fails by order of the test")

// Gate records the requests to a stub, and can hold them or let them fail. The zero value is ready,
// and safe for concurrent use. A [Cloud] embeds one.
type Gate struct {
	mu       sync.Mutex
	requests []*Request
	holds    []*hold
	failing  int
}

type hold struct {
	operation string
	released  chan struct{}
}

// Requests implements [Cloud].
func (g *Gate) Requests() []Request {
	g.mu.Lock()
	defer g.mu.Unlock()
	all := make([]Request, 0, len(g.requests))
	for _, r := range g.requests {
		all = append(all, *r)
	}
	return all
}

// Hold implements [Cloud].
func (g *Gate) Hold(operation string) (release func()) {
	h := &hold{operation, make(chan struct{})}
	g.mu.Lock()
	defer g.mu.Unlock()
	g.holds = append(g.holds, h)
	return sync.OnceFunc(func() {
		g.mu.Lock()
		defer g.mu.Unlock()
		g.holds = slices.DeleteFunc(g.holds, func(other *hold) bool { return other == h })
		close(h.released)
	})
}

// Fail implements [Cloud].
func (g *Gate) Fail() (end func()) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.failing++
	return sync.OnceFunc(func() {
		g.mu.Lock()
		defer g.mu.Unlock()
		g.failing--
	})
}

// Pass records a request, waits while its operation is held, and calls answer. ctx ends when the
// client disconnects. The request has ended when Pass returns. If the request shall fail, Pass
// returns an error, with which the caller answers, without a call of answer.
func (g *Gate) Pass(
	ctx context.Context, operation string, mutating bool, answer func() error,
) error {
	r := g.begin(operation, mutating)
	defer g.finish(r)
	if err := g.admit(ctx, operation); err != nil {
		return err
	}
	return answer()
}

func (g *Gate) begin(operation string, mutating bool) *Request {
	r := &Request{Operation: operation, Mutating: mutating, Began: time.Now()}
	g.mu.Lock()
	defer g.mu.Unlock()
	g.requests = append(g.requests, r)
	return r
}

func (g *Gate) finish(r *Request) {
	g.mu.Lock()
	defer g.mu.Unlock()
	r.Ended = time.Now()
}

// admit waits while the operation is held.
func (g *Gate) admit(ctx context.Context, operation string) error {
	for {
		h, err := g.holdOf(operation)
		if h == nil {
			return cmp.Or(ctx.Err(), err)
		}
		select {
		case <-h.released:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// holdOf returns what holds an operation, or else whether it fails.
func (g *Gate) holdOf(operation string) (*hold, error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if at := slices.IndexFunc(g.holds, func(h *hold) bool {
		return h.operation == operation
	}); at >= 0 {
		return g.holds[at], nil
	}
	if g.failing > 0 {
		return nil, errFailing
	}
	return nil, nil
}

// Handler puts the gate before a stub that speaks HTTP. classify names the operation of a request.
// Nil: the operation is the method and the path, in which names with digits become "*" and versions
// such as v2.1 stay, and all methods but GET, HEAD and OPTIONS are mutating. A failed request gets
// the status 500. A request whose client has disconnected does not reach the stub.
func (g *Gate) Handler(
	next http.Handler, classify func(*http.Request) (operation string, mutating bool),
) http.Handler {
	if classify == nil {
		classify = byMethodAndPath
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		// The server sees that a client has disconnected only after it has read the body.
		body, err := io.ReadAll(r.Body)
		if err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		r.Body = io.NopCloser(bytes.NewReader(body))
		operation, mutating := classify(r)
		err = g.Pass(r.Context(), operation, mutating, func() error {
			next.ServeHTTP(w, r)
			return nil
		})
		if err != nil {
			http.Error(w, err.Error(), http.StatusInternalServerError)
		}
	})
}

const digits = "0123456789"

// byMethodAndPath names the operation of a request.
func byMethodAndPath(r *http.Request) (operation string, mutating bool) {
	switch r.Method {
	case http.MethodGet, http.MethodHead, http.MethodOptions:
	default:
		mutating = true
	}
	parts := strings.Split(r.URL.Path, "/")
	for i, part := range parts {
		version, isVersion := strings.CutPrefix(part, "v")
		isVersion = isVersion && strings.Trim(version, digits+".") == ""
		if strings.ContainsAny(part, digits) && !isVersion {
			parts[i] = "*"
		}
	}
	return r.Method + " " + strings.Join(parts, "/"), mutating
}
