package openstacktest

import (
	"net/http"
	"strings"
)

// failure is an error in the form of the service.
func failure(service string, status int, message string) answer {
	// An invalid token is refused by keystonemiddleware, in front of the service and in Keystone's form.
	if status == http.StatusUnauthorized {
		return identityFailure(status, message)
	}
	switch service {
	case ServiceCompute:
		return computeFailure(status, message)
	case ServiceNetwork:
		return networkFailure(status, "HTTP"+strings.ReplaceAll(http.StatusText(status), " ", ""), message)
	case ServiceLoadBalancer:
		return loadBalancerFailure(status, message)
	case ServiceKeyManager:
		return answer{status: status, body: object{
			"code": status, "title": http.StatusText(status), "description": message,
		}}
	}
	return identityFailure(status, message)
}

func identityFailure(status int, message string) answer {
	return answer{status: status, body: object{"error": object{
		"code": status, "title": http.StatusText(status), "message": message,
	}}}
}

// computeFailure is in Nova's form, whose only key tells the kind (nova/api/openstack/wsgi.py, Fault).
func computeFailure(status int, message string) answer {
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
	return answer{status: status, body: object{kind: object{"code": status, "message": message}}}
}

// networkFailure is in Neutron's form; kind is the name of Neutron's exception.
func networkFailure(status int, kind, message string) answer {
	return answer{status: status, body: object{"NeutronError": object{"type": kind, "message": message, "detail": ""}}}
}

// loadBalancerFailure is in Octavia's form, which it has from WSME.
func loadBalancerFailure(status int, message string) answer {
	code := "Client"
	if status >= http.StatusInternalServerError {
		code = "Server"
	}
	return answer{status: status, body: object{"faultcode": code, "faultstring": message, "debuginfo": nil}}
}
