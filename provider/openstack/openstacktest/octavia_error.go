package openstacktest

import (
	"errors"
	"fmt"
	"net/http"

	"github.com/fxccm/fxccm/provider/openstack/openstacktest/internal/api"
)

// octaviaError is a refusal of Octavia's. The texts are those of octavia/common/exceptions.py, and
// of WSME for what is wrong with a body.
type octaviaError struct {
	status int
	text   string
	// early is for what fails before WSME has the request: the way to a pool's members, and the
	// query of a list. The answer has another form then, that of oslo.middleware.
	early bool
}

func (e *octaviaError) Error() string { return e.text }

func octaviaRefusal(status int, format string, arguments ...any) error {
	return &octaviaError{status: status, text: fmt.Sprintf(format, arguments...)}
}

func octaviaNotFound(resource, id string) error {
	return octaviaRefusal(http.StatusNotFound, "%s %s not found.", resource, id)
}

// octaviaEarly is a refusal of what WSME does not see.
func octaviaEarly(status int, format string, arguments ...any) error {
	return &octaviaError{status: status, text: fmt.Sprintf(format, arguments...), early: true}
}

// octaviaMissing is the answer to an id in a body that leads nowhere: InvalidSubresource, which is
// a 400.
func octaviaMissing(resource, id string) error {
	return octaviaRefusal(http.StatusBadRequest, "%s %s not found.", resource, id)
}

func octaviaInvalid(format string, arguments ...any) error {
	return octaviaRefusal(http.StatusBadRequest, "Validation failure: "+format, arguments...)
}

func octaviaBadOption(value any, option string) error {
	return octaviaRefusal(http.StatusBadRequest, "%v is not a valid option for %s", value, option)
}

// octaviaBadInput is WSME's InvalidInput.
func octaviaBadInput(field, value, why string) error {
	return octaviaRefusal(http.StatusBadRequest,
		"Invalid input for field/attribute %s. Value: '%s'. %s", field, value, why)
}

func octaviaForbidden() error {
	return octaviaRefusal(http.StatusForbidden,
		"Policy does not allow this request to be performed.")
}

func octaviaQuotaMet(resource string) error {
	return octaviaRefusal(http.StatusForbidden, "Quota has been met for resources: %s", resource)
}

// octaviaImmutable refuses a change below a load balancer (or a pool) that is not ACTIVE.
func octaviaImmutable(resource, id string) error {
	return octaviaRefusal(http.StatusConflict, "%s %s is immutable and cannot be updated.",
		resource, id)
}

// octaviaPending refuses a change of a load balancer itself in a state that does not allow it.
func octaviaPending(state, id string) error {
	return octaviaRefusal(http.StatusConflict, "Invalid state %s of loadbalancer resource %s",
		state, id)
}

// octaviaHandler answers with the error, if there is one.
func octaviaHandler(handle func(*request) (answer, error)) func(*request) answer {
	return func(r *request) answer {
		result, err := handle(r)
		var refusal *octaviaError
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
