package octavia

import (
	"errors"
	"fmt"
	"net/http"

	"github.com/fxccm/fxccm/provider/openstack/openstacktest/internal/api"
)

// refusalError is a refusal of Octavia's. The texts are those of octavia/common/exceptions.py, and
// of WSME for what is wrong with a body.
type refusalError struct {
	status int
	text   string
	// early is for what fails before WSME has the request: the way to a pool's members, and the
	// query of a list. The answer has another form then, that of oslo.middleware.
	early bool
}

func (e *refusalError) Error() string { return e.text }

func refuse(status int, format string, arguments ...any) error {
	return &refusalError{status: status, text: fmt.Sprintf(format, arguments...)}
}

func notFound(resource, id string) error {
	return refuse(http.StatusNotFound, "%s %s not found.", resource, id)
}

// refuseEarly is a refusal of what WSME does not see.
func refuseEarly(status int, format string, arguments ...any) error {
	return &refusalError{status: status, text: fmt.Sprintf(format, arguments...), early: true}
}

// missing is the answer to an id in a body that leads nowhere: InvalidSubresource, which is
// a 400.
func missing(resource, id string) error {
	return refuse(http.StatusBadRequest, "%s %s not found.", resource, id)
}

func invalid(format string, arguments ...any) error {
	return refuse(http.StatusBadRequest, "Validation failure: "+format, arguments...)
}

func badOption(value any, option string) error {
	return refuse(http.StatusBadRequest, "%v is not a valid option for %s", value, option)
}

// badInput is WSME's InvalidInput.
func badInput(field, value, why string) error {
	return refuse(http.StatusBadRequest,
		"Invalid input for field/attribute %s. Value: '%s'. %s", field, value, why)
}

func forbidden() error {
	return refuse(http.StatusForbidden,
		"Policy does not allow this request to be performed.")
}

func quotaMet(resource string) error {
	return refuse(http.StatusForbidden, "Quota has been met for resources: %s", resource)
}

// immutable refuses a change below a load balancer (or a pool) that is not ACTIVE.
func immutable(resource, id string) error {
	return refuse(http.StatusConflict, "%s %s is immutable and cannot be updated.",
		resource, id)
}

// wrongState refuses a change of a load balancer itself in a state that does not allow it.
func wrongState(state, id string) error {
	return refuse(http.StatusConflict, "Invalid state %s of loadbalancer resource %s",
		state, id)
}

// handler answers with the error, if there is one.
func handler(handle func(*request) (answer, error)) func(*request) answer {
	return func(r *request) answer {
		result, err := handle(r)
		var refusal *refusalError
		switch {
		case err == nil:
			return result
		case errors.As(err, &refusal) && refusal.early:
			// The title is that of the exception that pecan falls back to, whatever the status is.
			return answer{
				Status: refusal.status,
				Body: object{
					"code": refusal.status, "title": "Bad Request",
					"description": refusal.text,
				},
			}
		case errors.As(err, &refusal):
			return api.LoadBalancerFailure(refusal.status, refusal.text)
		default:
			return api.LoadBalancerFailure(http.StatusInternalServerError, err.Error())
		}
	}
}
