package neutron

import (
	"fmt"
	"net/http"

	"github.com/fxccm/fxccm/provider/openstack/openstacktest/internal/api"
)

// refuse returns an error of Neutron. The kind is the name of the exception, which the API shows as
// the error's type.
func refuse(status int, kind, format string, arguments ...any) error {
	return &api.RefusedError{Status: status, Kind: kind, Text: fmt.Sprintf(format, arguments...)}
}

func neutronBadRequest(kind, format string, arguments ...any) error {
	return refuse(http.StatusBadRequest, kind, format, arguments...)
}

// neutronForbidden has the text of oslo.policy for a rule, or for several: "(rule:a and rule:b)".
func neutronForbidden(rule string) error {
	return refuse(http.StatusForbidden, "PolicyNotAuthorized", "%s is disallowed by policy", rule)
}

func neutronNotFound(kind, format string, arguments ...any) error {
	return refuse(http.StatusNotFound, kind, format, arguments...)
}

// notFound is the error for unknown ids.
func notFound(kind, format string) func(id string) error {
	return func(id string) error { return neutronNotFound(kind, format, id) }
}

func neutronConflict(kind, format string, arguments ...any) error {
	return refuse(http.StatusConflict, kind, format, arguments...)
}

// noSuchPath is Neutron's answer for a path that no extension serves.
func noSuchPath() error {
	return neutronNotFound("HTTPNotFound", "The resource could not be found.")
}

// invalidInput is the refusal of an attribute's value.
func invalidInput(attribute, reason string) error {
	return neutronBadRequest("HTTPBadRequest", "Invalid input for %s. Reason: %s.", attribute,
		reason)
}
