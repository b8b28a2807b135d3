package neutron

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"

	"github.com/gophercloud/gophercloud/v2"
)

// What callers decide on. Neutron's own words follow in the error.
var (
	// ErrNotFound is for what does not exist, or is not shown to the project.
	ErrNotFound = errors.New("not found")
	// ErrNoAddress: no address is left in the subnet or network. Another subnet may have one.
	ErrNoAddress = errors.New("no address is left")
	// ErrQuota: the project has as many as it may have.
	ErrQuota = errors.New("the project's quota is exceeded")
	// ErrNoCertificate: the reference names no certificate.
	ErrNoCertificate = errors.New("not found")
	// ErrClosed is returned by requests after [API.Close].
	ErrClosed = errors.New("the Neutron client is closed")
)

// explain adds to an error of Neutron's what callers decide on. Statuses alone do not tell: a 409
// is for an address in use, for a subnet without one, and for the quota. So it goes by the type,
// which is the name of the exception (neutron_lib/exceptions, neutron/ipam/exceptions.py).
func explain(err error) error {
	if known := kindOf(err); known != nil {
		return fmt.Errorf("%w: %w", known, err)
	}
	return err
}

func kindOf(err error) error {
	var code gophercloud.ErrUnexpectedResponseCode
	if !errors.As(err, &code) {
		return nil
	}
	kind, message := neutronError(code.Body)
	switch {
	case code.Actual == http.StatusNotFound:
		return ErrNotFound
	case kind == "OverQuota":
		return ErrQuota
	case kind == "ExternalIpAddressExhausted",
		strings.HasPrefix(kind, "IpAddressGenerationFailure"),
		code.Actual == http.StatusConflict && strings.Contains(message, "No more IP addresses"):
		return ErrNoAddress
	}
	return nil
}

// isKind tells whether an error is Neutron's of that type.
func isKind(err error, kind string) bool {
	var code gophercloud.ErrUnexpectedResponseCode
	if !errors.As(err, &code) {
		return false
	}
	is, _ := neutronError(code.Body)
	return is == kind
}

// neutronError is empty for other bodies, such as a proxy's page.
func neutronError(body []byte) (kind, message string) {
	var failure struct {
		NeutronError struct {
			Type    string `json:"type"`
			Message string `json:"message"`
		} `json:"NeutronError"`
	}
	_ = json.Unmarshal(body, &failure)
	return failure.NeutronError.Type, failure.NeutronError.Message
}

// isStale is the answer to a write whose revision is not the newest any more.
func isStale(err error) bool {
	return gophercloud.ResponseCodeIs(err, http.StatusPreconditionFailed)
}

// isRefusal tells whether a request was refused for what is in it: it was not carried out, and will
// not be.
func isRefusal(err error) bool {
	var code gophercloud.ErrUnexpectedResponseCode
	if !errors.As(err, &code) {
		return false
	}
	switch code.Actual {
	case http.StatusBadRequest, http.StatusForbidden, http.StatusNotFound, http.StatusConflict:
		return true
	}
	return false
}
