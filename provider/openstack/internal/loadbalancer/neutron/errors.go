package neutron

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"

	"github.com/gophercloud/gophercloud/v2"
)

// Callers act on these errors. Neutron's own text follows in the error.
var (
	// ErrNotFound: the object does not exist, or the project may not see it.
	ErrNotFound = errors.New("not found")
	// ErrNoAddress: the subnet or network has no free address. Another subnet may have one.
	ErrNoAddress = errors.New("no address is left")
	// ErrQuota: the project's quota is exhausted.
	ErrQuota = errors.New("the project's quota is exceeded")
	// ErrNoCertificate: the reference names no certificate.
	ErrNoCertificate = errors.New("not found")
	// ErrClosed is returned by requests after [API.Close].
	ErrClosed = errors.New("the Neutron client is closed")
)

// explain wraps an error of Neutron in the error that callers act on. Statuses alone are ambiguous:
// 409 is returned for an address in use, for a full subnet, and for the quota. So explain reads the
// type, the name of the exception (neutron_lib/exceptions, neutron/ipam/exceptions.py).
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

// isKind reports whether an error is Neutron's and of that type.
func isKind(err error, kind string) bool {
	var code gophercloud.ErrUnexpectedResponseCode
	if !errors.As(err, &code) {
		return false
	}
	is, _ := neutronError(code.Body)
	return is == kind
}

// neutronError returns "" for other bodies, such as a proxy's page.
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

// isStale reports whether Neutron refused a write because its revision is no longer the newest.
func isStale(err error) bool {
	return gophercloud.ResponseCodeIs(err, http.StatusPreconditionFailed)
}

// isRefusal reports whether Neutron refused a request because of its content: it was not carried
// out, and a retry does not help.
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
