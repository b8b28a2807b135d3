package api

import (
	"errors"
	"fmt"
	"net/http"
	"strings"
)

// RefusedError is why a service refuses a request.
type RefusedError struct {
	Status int
	// Kind is the name of Neutron's exception. Default: that of the status.
	Kind   string
	Text   string
	Header http.Header
}

func (e *RefusedError) Error() string { return e.Text }

// Refuse returns a [RefusedError].
func Refuse(status int, format string, arguments ...any) error {
	return &RefusedError{Status: status, Text: fmt.Sprintf(format, arguments...)}
}

// Refused is the answer of a service for an error.
func Refused(service string, err error) Answer {
	refusal := &RefusedError{Status: http.StatusInternalServerError, Text: err.Error()}
	errors.As(err, &refusal)
	if service == ServiceNetwork && refusal.Kind != "" {
		return networkFailure(refusal.Status, refusal.Kind, refusal.Text)
	}
	result := Failure(service, refusal.Status, refusal.Text)
	result.Header = refusal.Header
	return result
}

// Failure is an error in the form of the service.
func Failure(service string, status int, message string) Answer {
	// An invalid token is refused by keystonemiddleware, in front of the service and in Keystone's
	// form.
	if status == http.StatusUnauthorized {
		return identityFailure(status, message)
	}
	switch service {
	case ServiceCompute:
		return computeFailure(status, message)
	case ServiceNetwork:
		return networkFailure(status, "HTTP"+strings.ReplaceAll(http.StatusText(status), " ", ""),
			message)
	case ServiceLoadBalancer:
		return loadBalancerFailure(status, message)
	case ServiceKeyManager:
		return Answer{Status: status, Body: Object{
			"code": status, "title": http.StatusText(status), "description": message,
		}}
	}
	return identityFailure(status, message)
}

// identityFailure is an error in the form of Keystone.
func identityFailure(status int, message string) Answer {
	return Answer{Status: status, Body: Object{"error": Object{
		"code": status, "title": http.StatusText(status), "message": message,
	}}}
}

// computeFailure is in Nova's form, whose only key is the kind of the error
// (nova/api/openstack/wsgi.py, Fault).
func computeFailure(status int, message string) Answer {
	kind, known := map[int]string{
		http.StatusBadRequest:            "badRequest",
		http.StatusForbidden:             "forbidden",
		http.StatusNotFound:              "itemNotFound",
		http.StatusMethodNotAllowed:      "badMethod",
		http.StatusConflict:              "conflictingRequest",
		http.StatusRequestEntityTooLarge: "overLimit",
		http.StatusUnsupportedMediaType:  "badMediaType",
		http.StatusTooManyRequests:       "overLimit",
		http.StatusNotImplemented:        "notImplemented",
		http.StatusServiceUnavailable:    "serviceUnavailable",
	}[status]
	if !known {
		kind = "computeFault"
	}
	return Answer{Status: status, Body: Object{kind: Object{"code": status, "message": message}}}
}

// networkFailure is in Neutron's form; kind is the name of Neutron's exception.
func networkFailure(status int, kind, message string) Answer {
	return Answer{
		Status: status,
		Body:   Object{"NeutronError": Object{"type": kind, "message": message, "detail": ""}},
	}
}

// loadBalancerFailure is in Octavia's form, which comes from WSME.
func loadBalancerFailure(status int, message string) Answer {
	code := "Client"
	if status >= http.StatusInternalServerError {
		code = "Server"
	}
	return Answer{
		Status: status,
		Body:   Object{"faultcode": code, "faultstring": message, "debuginfo": nil},
	}
}
