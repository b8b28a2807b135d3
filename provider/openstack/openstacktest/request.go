package openstacktest

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"runtime/debug"
	"strings"
	"time"
)

// operation is one thing that a service can be asked for.
type operation struct {
	service string
	// name is <resource>_<verb>, such as server_list: what [Call] and [Fault] know it by.
	name string
	// pattern is that of http.ServeMux, with the method; without one it is for all methods.
	pattern string
	// open needs no token.
	open   bool
	handle func(*request) answer
}

// request is a request as a handler sees it. The cloud's lock is held.
type request struct {
	*http.Request
	server *Cloud
	query  url.Values
	body   []byte
	// token is the caller's; nil for operations that need none.
	token *token
	// version is the microversion that the caller asked for, and the service has; {2, 1} without one.
	version microversion
}

// decode reads the JSON body into v.
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

// register adds the operations of a service to the mux, at each of its interfaces.
func (s *Cloud) register(mux *http.ServeMux, operations ...operation) {
	for _, op := range operations {
		method, path, found := strings.Cut(op.pattern, " ")
		if !found {
			method, path = "", op.pattern
		}
		for _, kind := range []string{InterfacePublic, InterfaceInternal, InterfaceAdmin} {
			pattern := strings.TrimSpace(method + " " + interfacePrefix(kind) + path)
			mux.HandleFunc(pattern, func(w http.ResponseWriter, r *http.Request) { s.serve(op, kind, w, r) })
		}
	}
}

// interfacePrefix is what the addresses of the interface begin with that the caller uses.
func (r *request) interfacePrefix() string {
	for _, kind := range []string{InterfaceInternal, InterfaceAdmin} {
		if prefix := interfacePrefix(kind); strings.HasPrefix(r.URL.Path, prefix+"/") {
			return prefix
		}
	}
	return ""
}

// setUpRest answers what no service has, so that it is recorded too.
func (s *Cloud) setUpRest(mux *http.ServeMux) {
	mux.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) {
		s.serve(operation{service: serviceOf(r.URL.Path), name: "unknown", open: true, handle: notServed}, InterfacePublic, w, r)
	})
}

func notServed(r *request) answer {
	return failure(serviceOf(r.URL.Path), http.StatusNotFound, "The resource could not be found.")
}

// serviceOf guesses whose path it is; "" for nobody's.
func serviceOf(path string) string {
	for _, entry := range (settings{}).catalogPaths() {
		if strings.Contains(path, "/"+strings.Split(entry.path, "/")[1]) {
			return entry.service
		}
	}
	return ""
}

// serve carries out one request: fault, handler, record, latency, answer.
func (s *Cloud) serve(op operation, kind string, w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		hangUp()
	}
	call := Call{
		Time: s.clock.Now(), Service: op.service, Operation: op.name,
		Method: r.Method, Path: strings.TrimPrefix(r.URL.Path, interfacePrefix(kind)), Interface: kind,
		Query: r.URL.RawQuery, Body: string(redactBody(op, body)),
		UserAgent: r.UserAgent(), Microversion: requestedMicroversion(r),
	}
	if op.name == "loadbalancer_create" && s.settings.creation > 0 {
		s.creating.Lock()
		made := pause(s.alive, s.settings.creation)
		s.creating.Unlock()
		if !made {
			hangUp()
		}
	}
	call, result, fault, latency := s.decide(call, op, r, body)
	if s.settings.observe != nil {
		s.settings.observe(call)
	}
	if !pause(r.Context(), latency+fault.Delay) {
		hangUp()
	}
	fault.send(r.Context(), w, result)
}

// decide is the part of a request that is one step of the cloud.
func (s *Cloud) decide(call Call, op operation, r *http.Request, body []byte) (Call, rendered, Fault, time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	fault := s.takeFault(call)
	var result rendered
	if fault.replaces() {
		result = fault.answer(op.service)
	} else {
		result = fault.change(call, render(s.carryOut(op, r, body)))
	}
	s.requests++
	result.header.Set("X-Openstack-Request-Id", fmt.Sprintf("req-%08x-0000-4000-8000-%012x", uint32(s.requests), s.requests))
	if !fault.Hang && !fault.Drop {
		call.Status = result.status
	}
	s.record.add(call)
	return call, result, fault, s.latency
}

// carryOut is called with the lock held. A mistake in a handler is answered with 500, and told, instead of hiding in a connection
// that is closed.
func (s *Cloud) carryOut(op operation, r *http.Request, body []byte) (result answer) {
	defer func() {
		if mistake := recover(); mistake != nil {
			result = failure(op.service, http.StatusInternalServerError, fmt.Sprintf("openstacktest: %v\n%s", mistake, debug.Stack()))
		}
	}()
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
	return s.withMicroversion(op.service, version, op.handle(req))
}

// pause tells whether the time has passed; not if ctx has ended before.
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
func (s *Cloud) newID() string {
	s.ids++
	return fmt.Sprintf("%08x-0000-4000-8000-%012x", uint32(s.ids), s.ids)
}

// hangUp closes the connection instead of answering: net/http's way for a handler to do so.
func hangUp() { panic(http.ErrAbortHandler) }
