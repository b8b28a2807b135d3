package neutron

import (
	"errors"
	"fmt"
	"net/http"

	"github.com/fxccm/fxccm/provider/openstack/openstacktest/internal/api"
)

// neutronError is an error of Neutron: the status, and the name of the exception, which the API
// shows as the error's type.
type neutronError struct {
	status int
	kind   string
	text   string
}

func (e *neutronError) Error() string { return e.text }

func (e *neutronError) answer() answer {
	return api.NetworkFailure(e.status, e.kind, e.text)
}

func neutronBadRequest(kind, format string, arguments ...any) error {
	return &neutronError{http.StatusBadRequest, kind, fmt.Sprintf(format, arguments...)}
}

// neutronForbidden has the text of oslo.policy for a rule, or for several: "(rule:a and rule:b)".
func neutronForbidden(rule string) error {
	return &neutronError{
		http.StatusForbidden, "PolicyNotAuthorized",
		fmt.Sprintf("%s is disallowed by policy", rule),
	}
}

func neutronNotFound(kind, format string, arguments ...any) error {
	return &neutronError{http.StatusNotFound, kind, fmt.Sprintf(format, arguments...)}
}

// notFound is the error for unknown ids.
func notFound(kind, format string) func(id string) error {
	return func(id string) error { return neutronNotFound(kind, format, id) }
}

func neutronConflict(kind, format string, arguments ...any) error {
	return &neutronError{http.StatusConflict, kind, fmt.Sprintf(format, arguments...)}
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

// neutronHandler converts the errors of a function to Neutron's answers.
func neutronHandler(handle func(*request) (answer, error)) func(*request) answer {
	return func(r *request) answer {
		result, err := handle(r)
		if err == nil {
			return result
		}
		var known *neutronError
		if errors.As(err, &known) {
			return known.answer()
		}
		known = &neutronError{http.StatusBadRequest, "MalformedRequestBody", err.Error()}
		return known.answer()
	}
}
