package octavia

import (
	"net/http"

	"github.com/fxccm/fxccm/provider/openstack/openstacktest/internal/api"
)

// The texts of the refusals are those of octavia/common/exceptions.py, and of WSME for invalid
// bodies.

func notFound(kind, id string) error {
	return api.Refuse(http.StatusNotFound, "%s %s not found.", kind, id)
}

// missing refuses an unknown ID in a body: InvalidSubresource, a 400.
func missing(kind, id string) error {
	return api.Refuse(http.StatusBadRequest, "%s %s not found.", kind, id)
}

func invalid(format string, arguments ...any) error {
	return api.Refuse(http.StatusBadRequest, "Validation failure: "+format, arguments...)
}

func badOption(value any, option string) error {
	return api.Refuse(http.StatusBadRequest, "%v is not a valid option for %s", value, option)
}

// badInput is WSME's InvalidInput.
func badInput(field, value, why string) error {
	return api.Refuse(http.StatusBadRequest,
		"Invalid input for field/attribute %s. Value: '%s'. %s", field, value, why)
}

func forbidden() error {
	return api.Refuse(http.StatusForbidden, "Policy does not allow this request to be performed.")
}

// immutable refuses a change below a load balancer (or a pool) that is not ACTIVE.
func immutable(kind, id string) error {
	return api.Refuse(http.StatusConflict, "%s %s is immutable and cannot be updated.", kind, id)
}
