package openstacktest

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"runtime/debug"
	"strings"
	"time"

	"github.com/fxccm/fxccm/provider/openstack/openstacktest/internal/api"
	"github.com/fxccm/fxccm/provider/openstack/openstacktest/internal/keystone"
)

type (
	answer = api.Answer
	object = api.Object
)

// register adds the operations of a service to the mux, at each of its interfaces.
func (s *Cloud) register(mux *http.ServeMux, operations ...api.Operation) {
	for _, op := range operations {
		method, path, found := strings.Cut(op.Pattern, " ")
		if !found {
			method, path = "", op.Pattern
		}
		for _, kind := range api.Interfaces() {
			pattern := strings.TrimSpace(method + " " + api.InterfacePrefix(kind) + path)
			mux.HandleFunc(pattern,
				func(w http.ResponseWriter, r *http.Request) { s.serve(op, kind, w, r) })
		}
	}
}

// registerUnknown answers and records requests that no service handles.
func (s *Cloud) registerUnknown(mux *http.ServeMux) {
	mux.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) {
		service := keystone.ServiceOf(r.URL.Path)
		s.serve(api.Operation{
			Service: service, Name: "unknown", Open: true,
			Handle: func(*api.Request) (answer, error) {
				return answer{}, api.Refuse(http.StatusNotFound, "The resource could not be found.")
			},
		}, api.InterfacePublic, w, r)
	})
}

// serve handles one request: fault, handler, record, latency, answer.
func (s *Cloud) serve(op api.Operation, kind string, w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		hangUp()
	}
	call := Call{
		Time: s.state.Clock.Now(), Service: op.Service, Operation: op.Name,
		Method: r.Method, Path: strings.TrimPrefix(r.URL.Path, api.InterfacePrefix(kind)),
		Interface: kind,
		Query:     r.URL.RawQuery, Body: string(redactBody(op, body)),
		UserAgent: r.UserAgent(), Microversion: api.RequestedMicroversion(r),
	}
	if op.Name == "loadbalancer_create" && s.settings.creation > 0 {
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

// decide is the part of a request that runs under the cloud's lock.
func (s *Cloud) decide(
	call Call, op api.Operation, r *http.Request, body []byte,
) (Call, api.Rendered, Fault, time.Duration) {
	s.state.Mu.Lock()
	defer s.state.Mu.Unlock()
	fault := s.takeFault(call)
	var result api.Rendered
	if fault.replaces() {
		result = fault.answer(op.Service)
	} else {
		result = fault.change(call, api.Render(s.carryOut(op, r, body)))
	}
	s.requests++
	result.Header.Set("X-Openstack-Request-Id",
		fmt.Sprintf("req-%08x-0000-4000-8000-%012x", uint32(s.requests), s.requests))
	if !fault.Hang && !fault.Drop {
		call.Status = result.Status
	}
	s.record.add(call)
	return call, result, fault, s.latency
}

// carryOut runs the handler with the lock held. A panic is answered with 500 and its text, because
// net/http would only close the connection.
func (s *Cloud) carryOut(op api.Operation, r *http.Request, body []byte) (result answer) {
	defer func() {
		if mistake := recover(); mistake != nil {
			result = api.Failure(op.Service, http.StatusInternalServerError,
				fmt.Sprintf("openstacktest: %v\n%s", mistake, debug.Stack()))
		}
	}()
	result, version, err := s.execute(op, r, body)
	if err != nil {
		result = api.Refused(op.Service, err)
	}
	return api.WithMicroversion(op.Service, version, result)
}

func (s *Cloud) execute(
	op api.Operation, r *http.Request, body []byte,
) (result answer, version api.Microversion, err error) {
	s.settle()
	req := &api.Request{Request: r, State: &s.state, Query: r.URL.Query(), Body: body}
	if !op.Open {
		if req.Caller, err = s.keystone.Authenticate(op.Service, r); err != nil {
			return answer{}, version, err
		}
	}
	req.Version, err = api.Negotiate(op.Service, r, s.settings.compute.Minor)
	if err == nil {
		result, err = op.Handle(req)
	}
	return result, req.Version, err
}

// pause reports whether the time has passed before ctx ended.
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

// hangUp closes the connection instead of answering, in net/http's way for handlers.
func hangUp() { panic(http.ErrAbortHandler) }
