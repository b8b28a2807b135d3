package api

import (
	"net/http"
	"strings"
)

// Failure is an error in the form of the service.
func Failure(service string, status int, message string) Answer {
	// An invalid token is refused by keystonemiddleware, in front of the service and in Keystone's
	// form.
	if status == http.StatusUnauthorized {
		return IdentityFailure(status, message)
	}
	switch service {
	case ServiceCompute:
		return computeFailure(status, message)
	case ServiceNetwork:
		return NetworkFailure(status, "HTTP"+strings.ReplaceAll(http.StatusText(status), " ", ""),
			message)
	case ServiceLoadBalancer:
		return LoadBalancerFailure(status, message)
	case ServiceKeyManager:
		return Answer{Status: status, Body: Object{
			"code": status, "title": http.StatusText(status), "description": message,
		}}
	}
	return IdentityFailure(status, message)
}

// IdentityFailure is an error in the form of Keystone.
func IdentityFailure(status int, message string) Answer {
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

// NetworkFailure is in Neutron's form; kind is the name of Neutron's exception.
func NetworkFailure(status int, kind, message string) Answer {
	return Answer{
		Status: status,
		Body:   Object{"NeutronError": Object{"type": kind, "message": message, "detail": ""}},
	}
}

// LoadBalancerFailure is in Octavia's form, which comes from WSME.
func LoadBalancerFailure(status int, message string) Answer {
	code := "Client"
	if status >= http.StatusInternalServerError {
		code = "Server"
	}
	return Answer{
		Status: status,
		Body:   Object{"faultcode": code, "faultstring": message, "debuginfo": nil},
	}
}
