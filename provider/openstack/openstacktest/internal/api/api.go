// Package api is the HTTP part that the simulated OpenStack services share: requests, answers,
// errors, pages and microversions.
package api

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"

	"k8s.io/utils/clock"
)

// The services of the cloud by their type in the catalog.
const (
	ServiceIdentity     = "identity"
	ServiceCompute      = "compute"
	ServiceNetwork      = "network"
	ServiceLoadBalancer = "load-balancer"
	ServiceKeyManager   = "key-manager"
)

// The interfaces of a service, as the catalog and os-endpoint-type name them. The addresses of the
// internal and the admin interface begin with these words; all three lead to the same cloud.
const (
	InterfacePublic   = "public"
	InterfaceInternal = "internal"
	InterfaceAdmin    = "admin"
)

// Interfaces lists all interfaces.
func Interfaces() []string { return []string{InterfacePublic, InterfaceInternal, InterfaceAdmin} }

// InterfacePrefix is the first part of the path of an interface's addresses.
func InterfacePrefix(kind string) string {
	if kind == InterfacePublic {
		return ""
	}
	return "/" + kind
}

// State is the state that all services of a cloud share. Mu guards the state of all services; each
// request runs under it as one step of the cloud.
type State struct {
	Mu       sync.Mutex
	Clock    clock.PassiveClock
	URL      string
	PageSize int
	// DefaultProject is the ID of the project of resources that are added without one.
	DefaultProject string
	// Settle brings the cloud up to date with the clock. The caller holds Mu.
	Settle func()

	ids uint64
}

// Enter locks the cloud for a method of package openstacktest, and brings it up to date. The caller
// calls leave at the end.
func (s *State) Enter() (leave func()) {
	s.Mu.Lock()
	s.Settle()
	return s.Mu.Unlock
}

// NewID returns an ID in the form of Nova and Neutron. The same calls return the same IDs in each
// run. The caller holds Mu.
func (s *State) NewID() string {
	s.ids++
	return fmt.Sprintf("%08x-0000-4000-8000-%012x", uint32(s.ids), s.ids)
}

// Operation is one operation of a service.
type Operation struct {
	Service string
	// Name is <resource>_<verb>, such as server_list: calls and faults name operations so.
	Name string
	// Pattern is a pattern of http.ServeMux. Without a method it matches all methods.
	Pattern string
	// Open operations need no token.
	Open bool
	// Handle executes a request. An error is answered in the form of the service; see
	// [RefusedError].
	Handle func(*Request) (Answer, error)
}

// Caller is the user of a request.
type Caller struct {
	ProjectID string
	Admin     bool
}

// Request is a request as a handler sees it. The handler holds the lock of the cloud.
type Request struct {
	*http.Request
	State  *State
	Query  url.Values
	Body   []byte
	Caller Caller
	// Version is the negotiated microversion; 2.1 without one.
	Version Microversion
}

// ProjectID is the project of the caller's token; "" without one.
func (r *Request) ProjectID() string { return r.Caller.ProjectID }

// IsAdmin reports whether the caller may see and change resources of other projects.
func (r *Request) IsAdmin() bool { return r.Caller.Admin }

// MaySee reports whether the caller may see resources of a project.
func (r *Request) MaySee(project string) bool { return r.IsAdmin() || project == r.ProjectID() }

// Decode reads the JSON body into v.
func (r *Request) Decode(v any) error {
	if err := json.Unmarshal(r.Body, v); err != nil {
		return &RefusedError{
			Status: http.StatusBadRequest, Kind: "MalformedRequestBody",
			Text: "malformed request body: " + err.Error(),
		}
	}
	return nil
}

// InterfacePrefix is the prefix of the interface that the caller uses.
func (r *Request) InterfacePrefix() string {
	for _, kind := range []string{InterfaceInternal, InterfaceAdmin} {
		if prefix := InterfacePrefix(kind); strings.HasPrefix(r.URL.Path, prefix+"/") {
			return prefix
		}
	}
	return ""
}

// Object is a JSON object.
type Object = map[string]any

// Answer is the answer of a handler.
type Answer struct {
	Status int
	Header http.Header
	// Body is marshalled to JSON; nil means no body.
	Body any
}

// OK is an answer with status 200.
func OK(body any) Answer { return Answer{Status: http.StatusOK, Body: body} }

// Created is an answer with status 201.
func Created(body any) Answer { return Answer{Status: http.StatusCreated, Body: body} }

// NoContent is an answer with status 204.
func NoContent() Answer { return Answer{Status: http.StatusNoContent} }

// Rendered is an answer as it goes over the wire.
type Rendered struct {
	Status int
	Header http.Header
	Body   []byte
}

// Render marshals an answer.
func Render(a Answer) Rendered {
	r := Rendered{Status: a.Status, Header: a.Header.Clone()}
	if r.Header == nil {
		r.Header = http.Header{}
	}
	if a.Body != nil {
		var buffer bytes.Buffer
		if err := json.NewEncoder(&buffer).Encode(a.Body); err != nil {
			return Rendered{
				Status: http.StatusInternalServerError, Header: http.Header{},
				Body: []byte(err.Error()),
			}
		}
		r.Body = bytes.TrimSpace(buffer.Bytes())
		r.Header.Set("Content-Type", "application/json")
	}
	return r
}

// NonNil returns an empty list for nil, so that JSON never shows null.
func NonNil[V any](list []V) []V {
	if list == nil {
		return []V{}
	}
	return list
}

// SortedKeys returns the keys of a map in order.
func SortedKeys[V any](m map[string]V) []string {
	keys := make([]string, 0, len(m))
	for key := range m {
		keys = append(keys, key)
	}
	slices.Sort(keys)
	return keys
}
