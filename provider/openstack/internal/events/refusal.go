package events

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/fxccm/fxccm/provider/openstack/internal/failure"
)

// Refusal is a situation in which the cloud refuses or fails a request. Its message is always:
// service, status and cause; the setting or object; what follows, or what to do.
type Refusal struct {
	Reason Reason
	// Services are the names of the services that refuse so.
	Services string
	// When describes the situation for operators.
	When string
	// format has a verb for the cause, and one for the setting or the name of the request.
	format string
}

// The refusals.
var (
	// ValueRefused is a setting that names what does not exist, or what cannot be used.
	ValueRefused = Refusal{
		SettingRefused, "Octavia, Neutron", "A service refuses the value of a setting.",
		"%[1]s (%[2]s); correct it",
	}
	// NetworkUnreachable is a floating network that the router of the VIP's subnet does not reach.
	NetworkUnreachable = Refusal{
		SettingRefused, "Neutron", "No router leads from the load balancer's subnet to the floating network.",
		"%[1]s (%[2]s); connect the router of the subnet to the network, or set " +
			"floating-network-id to one that the router leads to",
	}
	// PortMissing is a load balancer whose port another client has deleted.
	PortMissing = Refusal{
		InError, "Octavia, Neutron", "Neutron no longer has the port of the load balancer.",
		"%[1]s (%[2]s); fail over the load balancer in Octavia, or delete it: a new one is " +
			"created after that",
	}
	// AddressRefused is a requested address that no floating IP of the project has.
	AddressRefused = Refusal{
		FloatingIPUnavailable, "Neutron",
		"Neutron refuses to create a floating IP with the requested address.",
		"%[1]s (%[2]s); request the address of an existing floating IP, or create one with it",
	}
	// AddressesUsedUp is a network or subnet whose addresses are all in use.
	AddressesUsedUp = Refusal{
		FloatingIPUnavailable, "Octavia, Neutron", "The network or the subnet has no free address.",
		"%[1]s (%[2]s); release addresses that are not needed, or name another network or subnet",
	}
	// QuotaUsedUp is a creation beyond a quota.
	QuotaUsedUp = Refusal{
		QuotaExceeded, "Octavia, Neutron", "A quota of the project is used up.",
		"%[1]s (%[2]s); raise the quota of the project, or delete what is unused",
	}
	// RoutesUsedUp is a route beyond the maximum that Neutron has for each router.
	RoutesUsedUp = Refusal{
		QuotaExceeded, "Neutron", "The router has the maximum number of routes.",
		"%[1]s (%[2]s); raise max_routes in neutron.conf, or delete routes that are unused",
	}
	// PairsUsedUp is an address pair beyond the maximum that Neutron has for each port.
	PairsUsedUp = Refusal{
		QuotaExceeded, "Neutron", "The port of a node has the maximum number of address pairs.",
		"%[1]s (%[2]s); raise max_allowed_address_pair in neutron.conf, or remove pairs that are " +
			"unused",
	}
	// CreationFails is a load balancer that Octavia accepts and then sets to ERROR, each time.
	CreationFails = Refusal{
		InError, "Octavia", "Octavia sets each new load balancer to ERROR. It gives no cause.",
		"%[1]s (check %[2]s); each one is deleted and created again, after growing pauses",
	}
	// LoginRefused is a login that a retry does not help.
	LoginRefused = Refusal{
		RequestFailed, "Keystone", "Keystone refuses the login.",
		"%[1]s; correct auth-url and the credentials in cloud.conf",
	}
	// Forbidden is a request that the policy denies, whatever the settings are.
	Forbidden = Refusal{
		RequestDenied, "each", "The policy of a service denies the request.",
		"%[1]s; give the user of cloud.conf the role for %[2]s",
	}
	// RequestFails is each other failure: the service does not answer, or fails.
	RequestFails = Refusal{
		RequestFailed, "each", "A service does not answer, or fails.",
		"%[1]s; retrying",
	}
	// CommandFails is the same in a command, which ends.
	CommandFails = Refusal{
		RequestFailed, "each", "A service does not answer a command, or fails.",
		"%[1]s; run the command again later",
	}
)

// OfRefusals are all refusals.
func OfRefusals() []Refusal {
	return []Refusal{
		ValueRefused, NetworkUnreachable, PortMissing, AddressRefused, AddressesUsedUp,
		QuotaUsedUp, RoutesUsedUp, PairsUsedUp, CreationFails, LoginRefused, Forbidden,
		RequestFails, CommandFails,
	}
}

// Notice returns the message about a cause and a setting as a warning.
func (r Refusal) Notice(cause, setting string) *Notice {
	return Refuse(r.Reason, r.format, cause, setting)
}

// Explain returns an error about a cause and a setting, which may be "". It wraps another one.
func (r Refusal) Explain(err error, cause, setting string) error {
	// A setting without a verb would be reported as an extra argument.
	return &explained{fmt.Sprintf(r.format+"%.0[2]s", cause, setting), err}
}

// Explain returns the error with the text for people if a request failed: about the request,
// without what was being done.
func Explain(err error) error { return explain(err, RequestFails) }

// ExplainOnce is Explain for a command, which does not retry.
func ExplainOnce(err error) error { return explain(err, CommandFails) }

func explain(err error, fails Refusal) error {
	var login *failure.LoginError
	var catalog *failure.CatalogError
	var known *explained
	var body failure.BodyError
	var syntax *json.SyntaxError
	var mistyped *json.UnmarshalTypeError
	f := failure.Of(err)
	switch {
	case errors.As(err, &known):
	case errors.As(err, &catalog):
		return &explained{catalog.Error(), err}
	case errors.As(err, &login) && login.Refused():
		return LoginRefused.Explain(err, login.Error(), "")
	case errors.As(err, &login):
		return fails.Explain(err, login.Error(), "")
	case f != nil && f.IsForbidden():
		return Forbidden.Explain(err, f.Cause(), cmp.Or(f.Operation, "the request"))
	case f != nil:
		return fails.Explain(err, f.Cause(), "")
	case errors.As(err, &body), errors.As(err, &syntax), errors.As(err, &mistyped):
		return fails.Explain(err, body.Error(), "")
	}
	return err
}

// WithText returns an error with a text for people. It wraps another one.
func WithText(err error, text string) error { return &explained{text, err} }

// explained is an error with the text for people.
type explained struct {
	text string
	err  error
}

func (e *explained) Error() string { return e.text }

func (e *explained) Unwrap() error { return e.err }
