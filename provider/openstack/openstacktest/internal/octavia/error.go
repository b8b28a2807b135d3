package octavia

import (
	"errors"
	"fmt"
	"net/http"

	"github.com/fxccm/fxccm/provider/openstack/openstacktest/internal/api"
)

// refusalError is a refusal of Octavia. The texts are those of octavia/common/exceptions.py, and of
// WSME for invalid bodies.
type refusalError struct {
	status int
	text   string
}

func (e *refusalError) Error() string { return e.text }

func refuse(status int, format string, arguments ...any) error {
	return &refusalError{status: status, text: fmt.Sprintf(format, arguments...)}
}

func notFound(kind, id string) error {
	return refuse(http.StatusNotFound, "%s %s not found.", kind, id)
}

// missing refuses an unknown ID in a body: InvalidSubresource, a 400.
func missing(kind, id string) error {
	return refuse(http.StatusBadRequest, "%s %s not found.", kind, id)
}

func invalid(format string, arguments ...any) error {
	return refuse(http.StatusBadRequest, "Validation failure: "+format, arguments...)
}

func badOption(value any, option string) error {
	return refuse(http.StatusBadRequest, "%v is not a valid option for %s", value, option)
}

// badInput is WSME's InvalidInput.
func badInput(field, value, why string) error {
	return refuse(http.StatusBadRequest, "Invalid input for field/attribute %s. Value: '%s'. %s",
		field, value, why)
}

func malformed(err error) error {
	return refuse(http.StatusBadRequest, "Request is not in valid JSON format: %s", err)
}

func forbidden() error {
	return refuse(http.StatusForbidden, "Policy does not allow this request to be performed.")
}

// immutable refuses a change below a load balancer (or a pool) that is not ACTIVE.
func immutable(kind, id string) error {
	return refuse(http.StatusConflict, "%s %s is immutable and cannot be updated.", kind, id)
}

// handler converts an error to an answer.
func handler(handle func(*request) (answer, error)) func(*request) answer {
	return func(r *request) answer {
		result, err := handle(r)
		if err == nil {
			return result
		}
		refusal := &refusalError{http.StatusInternalServerError, err.Error()}
		errors.As(err, &refusal)
		return api.LoadBalancerFailure(refusal.status, refusal.text)
	}
}
