// Package failure explains the errors of requests to OpenStack: which service refused or failed,
// why, and whether a retry helps. It is the only place that reads the bodies of error responses.
package failure

import (
	"cmp"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"os"
	"regexp"
	"strings"
	"sync"

	"github.com/gophercloud/gophercloud/v2"

	"github.com/fxccm/fxccm/internal/printable"
)

// Error is a failed request. Its text is short, and the same for each repetition: the service, the
// status, the cause, and the operation. The URL and the body are only in the wrapped error.
type Error struct {
	// Service is the name of the service, such as Octavia; "" if it is unknown.
	Service string
	// Operation names the request as the metrics do, such as floating_ip_create; "" if unknown.
	Operation string
	// Status is 0 without a response.
	Status int
	// Type is that of the service's error: Neutron's exception, the only key of Nova's body, or
	// WSME's side that is at fault, Client or Server; "" for errors of middleware.
	Type string
	// Message is the service's own; "" if the body is not the service's, such as a proxy's page.
	Message string

	err error
}

// New explains an error of a request: one with a response, or of the network. It returns others
// unchanged.
func New(service, operation string, err error) error {
	var response gophercloud.ErrUnexpectedResponseCode
	var sent *url.Error
	switch {
	case errors.As(err, &response):
		e := Error{Service: service, Operation: operation, Status: response.Actual, err: err}
		e.Type, e.Message = parse(response.Body)
		return &e
	case errors.As(err, &sent):
		return &Error{Service: service, Operation: operation, err: err}
	}
	return err
}

// Of returns the failed request in an error; nil if it holds none.
func Of(err error) *Error {
	var e *Error
	if errors.As(err, &e) {
		return e
	}
	if errors.As(New("", "", err), &e) {
		return e
	}
	return nil
}

// Error implements error.
func (e *Error) Error() string {
	if e.Operation == "" {
		return e.Cause()
	}
	return e.Cause() + " (" + e.Operation + ")"
}

// BodyError is a successful response whose body does not follow the API. Its value is the name of
// the service; "" if it is unknown.
type BodyError string

// Error implements error.
func (e BodyError) Error() string {
	return cmp.Or(string(e), "OpenStack") + ": the response does not follow the API"
}

// Cause is the text without the operation.
func (e *Error) Cause() string {
	text := e.reason()
	if e.Status != 0 {
		text = fmt.Sprintf("%d %s", e.Status, text)
	}
	return cmp.Or(e.Service, "OpenStack") + ": " + text
}

// longest limits a cause, in characters.
const longest = 300

// requestID is the ID of a request in a text of OpenStack. It differs each time.
var requestID = sync.OnceValues(func() (*regexp.Regexp, error) {
	return regexp.Compile(`\s*\(?(Request-ID: )?req-[0-9a-f-]{36}\)?`)
})

// reason is the first sentence of the service's message, or else what is known.
func (e *Error) reason() string {
	switch {
	case e.Message != "":
		text := strings.Join(strings.Fields(e.Message), " ")
		if id, err := requestID(); err == nil {
			text = id.ReplaceAllString(text, "")
		}
		text, _, _ = strings.Cut(withoutQuotation(text), ". ")
		text = strings.TrimRight(strings.TrimSpace(text), ".")
		return printable.Text(text, longest)
	case e.Status != 0:
		return cmp.Or(http.StatusText(e.Status), "unknown status")
	}
	return Reason(e.err)
}

// withoutQuotation leaves out a quotation of the request: "Invalid format for routes: [{...}], the
// nexthop is not connected with router" (neutron/extensions/extraroute.py).
func withoutQuotation(text string) string {
	before, rest, found := strings.Cut(text, "{")
	if !found {
		return text
	}
	before = strings.TrimRight(before, ": [")
	if after := strings.TrimLeft(rest[strings.LastIndex(rest, "}")+1:], "], "); after != "" &&
		strings.Contains(rest, "}") {
		return before + ": " + after
	}
	return before
}

// currentTime is that of a text about a certificate: "certificate has expired or is not yet valid:
// current time 2026-05-01T12:00:00Z is after".
var currentTime = sync.OnceValues(func() (*regexp.Regexp, error) {
	return regexp.Compile(`current time \S+ is `)
})

// Reason is the short text of an error without a response. It leaves out the URL, the system call,
// and what differs each time: the local port and the current time.
func Reason(err error) string {
	var sent *url.Error
	if errors.As(err, &sent) {
		err = sent.Err
	}
	var operation *net.OpError
	var lookup *net.DNSError
	var certificate *tls.CertificateVerificationError
	switch {
	case errors.As(err, &lookup):
		// Its cause may be "read udp 192.0.2.9:40123->192.0.2.1:53: i/o timeout".
		shown := *lookup
		shown.Err = shown.Err[strings.LastIndex(": "+shown.Err, ": "):]
		return shown.Error()
	case errors.As(err, &certificate):
		text := strings.TrimPrefix(certificate.Err.Error(), "x509: ")
		if pattern, invalid := currentTime(); invalid == nil {
			text = pattern.ReplaceAllString(text, "")
		}
		return printable.Text(text, longest)
	case errors.As(err, &operation) && operation.Addr != nil:
		cause := operation.Err
		var call *os.SyscallError
		if errors.As(cause, &call) {
			cause = call.Err
		}
		return fmt.Sprintf("%s %s: %v", operation.Op, operation.Addr, cause)
	}
	// The text may have a status line or a certificate of the server.
	return printable.Text(err.Error(), longest)
}

// Unwrap returns the error of the HTTP client.
func (e *Error) Unwrap() error { return e.err }

// parse reads the bodies of the services: Neutron's, that of WSME (Octavia), of oslo.middleware and
// Barbican, and Nova's, with one key that is the type.
func parse(body []byte) (kind, message string) {
	var known struct {
		Neutron struct {
			Type    string `json:"type"`
			Message string `json:"message"`
		} `json:"NeutronError"`
		Side        string `json:"faultcode"`
		Fault       string `json:"faultstring"`
		Description string `json:"description"`
	}
	if json.Unmarshal(body, &known) != nil {
		return "", ""
	}
	switch {
	case known.Neutron.Type != "":
		return known.Neutron.Type, known.Neutron.Message
	case known.Fault != "":
		return cmp.Or(known.Side, "Client"), known.Fault
	case known.Description != "":
		return "", known.Description
	}
	var other map[string]struct {
		Message string `json:"message"`
	}
	if json.Unmarshal(body, &other) == nil && len(other) == 1 {
		for kind, value := range other {
			if kind == "error" {
				kind = "" // Keystone's form, from the middleware of a service
			}
			return kind, value.Message
		}
	}
	return "", ""
}

// IsQuota reports whether a quota of the project is exceeded. Octavia passes on Neutron's text
// about the port of a VIP with a status of its own; see [Error.Refusal].
func (e *Error) IsQuota() bool {
	return e.Type == OverQuota || e.says("quota exceeded for resources") ||
		e.Status == http.StatusForbidden && e.says("quota") && !e.IsForbidden()
}

// Exceeded returns the objects of the exceeded quota in Octavia's words; "" if the message names
// none. The creation of a load balancer has parts with quotas of their own.
func (e *Error) Exceeded() string {
	_, named, _ := strings.Cut(e.Message, " for resources: ")
	if e.Type == OverQuota {
		return ""
	}
	named, _, _ = strings.Cut(named, "\n")
	return strings.Trim(named, "[]'.")
}

// Refusal returns the text with which the service refuses the content of the request; "" if it
// fails instead, or is busy. Octavia has status 500 for what Neutron refuses in the name of one of
// its providers, and 501 for what the provider does not support (octavia/common/exceptions.py,
// ProviderDriverError and the next ones).
func (e *Error) Refusal() string {
	const first, second = " reports error: ", " reported error: "
	switch {
	case e.Status == http.StatusInternalServerError && strings.HasPrefix(e.Message, "Provider '"):
		_, text, _ := strings.Cut(strings.Replace(e.Message, second, first, 1), first)
		return text
	case e.Status == http.StatusNotImplemented,
		e.Status == http.StatusInternalServerError && e.says("not found"),
		e.Status >= http.StatusBadRequest && e.Status < http.StatusInternalServerError:
		return e.Message
	}
	return ""
}

// IsForbidden reports whether the policy of the service denies the request.
func (e *Error) IsForbidden() bool {
	return e.Status == http.StatusForbidden && e.says("policy")
}

// IsBusy reports whether the request conflicts with a change in progress, not with another object
// (octavia/common/exceptions.py: ImmutableObject, and LBPendingStateError).
func (e *Error) IsBusy() bool {
	return e.Status == http.StatusConflict && (e.says("immutable") || e.says("invalid state"))
}

// IsNoAddress reports whether Neutron has no free address (neutron/ipam/exceptions.py), also if
// Octavia passes that on.
func (e *Error) IsNoAddress() bool {
	return e.Type == "ExternalIpAddressExhausted" ||
		strings.HasPrefix(e.Type, "IpAddressGenerationFailure") ||
		strings.Contains(strings.ToLower(e.Refusal()), "no more ip addresses")
}

// IsNotFound reports whether the service itself sent the 404. Octavia sends one in the form of
// oslo.middleware if the pool of members is missing (PoolsController._lookup), with the text "Pool
// ... not found.". A 404 of a proxy, or of an address without the service ("The resource could not
// be found."), proves nothing.
func (e *Error) IsNotFound() bool {
	return e.Status == http.StatusNotFound &&
		(e.Type != "" || strings.HasSuffix(e.Message, " not found."))
}

func (e *Error) says(words string) bool {
	return strings.Contains(strings.ToLower(e.Message), words)
}

// uuid matches an ID in a message.
const uuid = `[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}`

// IsGone reports whether a 404 is for an object that no longer exists. named are the values of the
// request that the configuration chooses: a 404 for one of them is a wrong reference. A 404 for a
// creation that names no object proves nothing.
func (e *Error) IsGone(named ...string) bool {
	if !e.IsNotFound() || e.Type == NoExternalGateway {
		return false
	}
	for _, value := range named {
		if value != "" && strings.Contains(e.Message, value) {
			return false
		}
	}
	namesObject, _ := regexp.MatchString(uuid, e.Message)
	return namesObject || !strings.HasSuffix(e.Operation, "_create")
}

// OverQuota is Neutron's type for a quota of the project that is exceeded.
const OverQuota = "OverQuota"

// NoExternalGateway is Neutron's type for a floating network that the router of the port's subnet
// does not lead to (neutron/extensions/l3.py).
const NoExternalGateway = "ExternalGatewayForFloatingIPNotFound"
