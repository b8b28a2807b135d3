package openstacktest

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"time"
)

// operation is one thing that a service can be asked for.
type operation struct {
	service string
	// name is <resource>_<verb>, such as server_list: what [Call] and [Fault] know it by.
	name string
	// pattern is that of http.ServeMux, with the method.
	pattern string
	// open needs no token.
	open   bool
	handle func(*request) answer
}

// request is a request as a handler sees it. The cloud's lock is held.
type request struct {
	*http.Request
	server *Server
	query  url.Values
	body   []byte
	// token is the caller's; nil for operations that need none.
	token *token
	// version is the microversion that the caller asked for, and the service has; {2, 1} without one.
	version microversion
}

// decode reads the JSON body into v. The answer is not zero if it cannot.
func (r *request) decode(v any) error {
	if err := json.Unmarshal(r.body, v); err != nil {
		return fmt.Errorf("malformed request body: %w", err)
	}
	return nil
}

// answer is what a handler answers.
type answer struct {
	status int
	header http.Header
	// body is marshalled to JSON; nil: no body.
	body any
}

func ok(body any) answer { return answer{status: http.StatusOK, body: body} }

func created(body any) answer { return answer{status: http.StatusCreated, body: body} }

func noContent() answer { return answer{status: http.StatusNoContent} }

// object is a JSON object.
type object = map[string]any

// register adds the operations of a service to the mux.
func (s *Server) register(mux *http.ServeMux, operations ...operation) {
	for _, op := range operations {
		mux.HandleFunc(op.pattern, func(w http.ResponseWriter, r *http.Request) { s.serve(op, w, r) })
	}
}

// serve carries out one request: fault, handler, record, latency, answer.
func (s *Server) serve(op operation, w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return
	}
	call := Call{
		Time: s.clock.Now(), Service: op.service, Operation: op.name,
		Method: r.Method, Path: r.URL.Path, Query: r.URL.RawQuery, Body: string(redactBody(op, body)),
		UserAgent: r.UserAgent(), Microversion: requestedMicroversion(r),
	}

	s.mu.Lock()
	latency := s.latency
	fault := s.takeFault(call)
	var result rendered
	if fault.replaces() {
		result = fault.answer(op.service)
	} else {
		result = render(s.carryOut(op, r, body))
		result = fault.change(call, result)
	}
	call.Status = result.status
	s.calls = append(s.calls, call)
	s.mu.Unlock()

	ctx, cancel := s.untilClosed(r.Context())
	defer cancel()
	if !pause(ctx, latency+fault.Delay) {
		return
	}
	fault.send(ctx, w, result)
}

// carryOut is called with the lock held.
func (s *Server) carryOut(op operation, r *http.Request, body []byte) answer {
	s.settle()
	req := &request{Request: r, server: s, query: r.URL.Query(), body: body}
	if !op.open {
		token, refusal := s.authenticate(op.service, r)
		if token == nil {
			return refusal
		}
		req.token = token
	}
	version, refusal := s.negotiate(op.service, r)
	if refusal != nil {
		return *refusal
	}
	req.version = version
	result := op.handle(req)
	return s.withMicroversion(op.service, version, result)
}

// untilClosed is a context that also ends with the server.
func (s *Server) untilClosed(ctx context.Context) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancel(ctx)
	go func() {
		select {
		case <-s.closing:
			cancel()
		case <-ctx.Done():
		}
	}()
	return ctx, cancel
}

func pause(ctx context.Context, d time.Duration) bool {
	if d <= 0 {
		return ctx.Err() == nil
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}

// rendered is an answer as it goes over the wire.
type rendered struct {
	status int
	header http.Header
	body   []byte
}

func render(a answer) rendered {
	r := rendered{status: a.status, header: a.header.Clone()}
	if r.header == nil {
		r.header = http.Header{}
	}
	if a.body != nil {
		var buffer bytes.Buffer
		if err := json.NewEncoder(&buffer).Encode(a.body); err != nil {
			return rendered{status: http.StatusInternalServerError, header: http.Header{}, body: []byte(err.Error())}
		}
		r.body = bytes.TrimSpace(buffer.Bytes())
		r.header.Set("Content-Type", "application/json")
	}
	return r
}

// newID makes an id that looks like Nova's and Neutron's, and is the same in each run. It is called with the lock held.
func (s *Server) newID() string {
	s.ids++
	return fmt.Sprintf("%08x-0000-4000-8000-%012x", uint32(s.ids), s.ids)
}
