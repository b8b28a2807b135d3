package fleet

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"slices"
	"syscall"
	"time"

	"golang.org/x/net/http/httpguts"
	"k8s.io/client-go/rest"

	"github.com/fxccm/fxccm/internal/reserved"
)

// AccessRules limit what the owner of a cluster reaches with the client configuration of the
// cluster. Each cluster of a source that is not [Trusted] must keep them: otherwise the fleet does
// not use its configuration, and [ClusterStatus] has the reason.
//
// A configuration may have an address with https, certificates, keys and a token. It must not name
// a file or a program, and has no password and no impersonation.
//
// The addresses of the replica itself, link-local and multicast addresses, and those of the
// metadata services of clouds are refused. A replica in a Pod does not know the addresses of its
// node: name them in RefusedRanges. The replica checks each address when it connects, after DNS.
// Dial and Transport of a [Cluster].RESTConfig are functions of the program, so a source that sets
// them checks addresses itself.
type AccessRules struct {
	// AllowProxy permits a proxy for a cluster's API server: that of the kubeconfig, or that of the
	// environment, such as HTTPS_PROXY. The address of the proxy must keep the rules, but the proxy
	// connects to whatever the cluster's owner names. Default false: connections are direct.
	AllowProxy bool

	// AllowInsecureTLS permits insecure-skip-tls-verify. Default false.
	AllowInsecureTLS bool

	// RefusedRanges are further addresses to which the replica must not connect, such as the
	// network of the management cluster.
	RefusedRanges []netip.Prefix
}

// errRefusedAddress is wrapped by the error of a connection to a refused address.
var errRefusedAddress = errors.New("no cluster of a fleet may have this " +
	"address, unless its source is trusted (fleet.Trusted, --clusters-trusted)")

// checkAddress returns an error if the replica must not connect to an address.
func (r *AccessRules) checkAddress(address netip.Addr) error {
	address = address.Unmap().WithZone("")
	if isOfThisMachine(address) {
		return fmt.Errorf("connect to %s, an address of the replica: %w", address,
			errRefusedAddress)
	}
	if reserved.Has(address) || slices.ContainsFunc(reserved.Meanings(address), r.isRefused) {
		return fmt.Errorf("connect to %s: %w", address, errRefusedAddress)
	}
	return nil
}

// isOfThisMachine reports whether an interface of the replica has the address. Without the node's
// network that is the address of the Pod, not of the node.
func isOfThisMachine(address netip.Addr) bool {
	own, err := net.InterfaceAddrs()
	return err != nil || slices.ContainsFunc(own, func(a net.Addr) bool {
		prefix, err := netip.ParsePrefix(a.String())
		return err == nil && prefix.Addr().Unmap() == address
	})
}

// isRefused reports whether RefusedRanges has an address.
func (r *AccessRules) isRefused(address netip.Addr) bool {
	contains := func(p netip.Prefix) bool { return p.Contains(address) }
	return slices.ContainsFunc(r.RefusedRanges, func(p netip.Prefix) bool {
		return contains(p) || p.Addr().Is4In6() && p.Bits() >= 96 &&
			netip.PrefixFrom(p.Addr().Unmap(), p.Bits()-96).Contains(address)
	})
}

// dial connects to an address that keeps the rules. The check is after DNS, so a record that
// changes between a check and a connection has no effect.
func (r *AccessRules) dial(ctx context.Context, network, address string) (net.Conn, error) {
	dialer := net.Dialer{
		Timeout: 30 * time.Second, KeepAlive: 30 * time.Second,
		Control: func(_, address string, _ syscall.RawConn) error {
			resolved, err := netip.ParseAddrPort(address)
			if err != nil {
				return err
			}
			return r.checkAddress(resolved.Addr())
		},
	}
	return dialer.DialContext(ctx, network, address)
}

// check returns an error that names the first field that is not allowed, without its value.
func (r *AccessRules) check(config *rest.Config) error {
	for _, field := range []struct {
		isSet     bool
		name, why string
	}{
		{config.ExecProvider != nil, "ExecProvider", runsProgram},
		{config.AuthProvider != nil, "AuthProvider", runsProgram},
		{config.BearerTokenFile != "", "BearerTokenFile", readsFile},
		{config.CAFile != "", "CAFile", readsFile},
		{config.CertFile != "", "CertFile", readsFile},
		{config.KeyFile != "", "KeyFile", readsFile},
		{config.Username != "", "Username", hasPassword},
		{config.Password != "", "Password", hasPassword},
		{
			config.Impersonate.UserName != "" || config.Impersonate.UID != "" ||
				len(config.Impersonate.Groups) > 0 || len(config.Impersonate.Extra) > 0,
			"Impersonate", acts,
		},
		{
			config.Insecure && !r.AllowInsecureTLS, "insecure-skip-tls-verify",
			"only fleet.Params.Access.AllowInsecureTLS (--clusters-allow-insecure-tls) permits it",
		},
		{
			config.Proxy != nil && !r.AllowProxy, "proxy-url",
			"only fleet.Params.Access.AllowProxy (--clusters-allow-proxy) permits it",
		},
		{len(config.CertData) > maxClientCertificate, "CertData", "it is too large"},
		{len(config.KeyData) > maxClientKey, "KeyData", "it is too large"},
		{len(config.CAData) > maxKubeconfig, "CAData", "it is too large"},
		{len(config.BearerToken) > maxToken, "BearerToken", "it is too large"},
		{
			!httpguts.ValidHeaderFieldValue(config.BearerToken), "BearerToken",
			"it has a line break or another control character",
		},
	} {
		if field.isSet {
			return fmt.Errorf("client configuration: %s is not allowed: %s", field.name, field.why)
		}
	}
	return r.checkServer(config)
}

// checkServer omits the address from its errors if it may have a password.
func (r *AccessRules) checkServer(config *rest.Config) error {
	address, _, err := rest.DefaultServerUrlFor(config)
	switch {
	case err != nil:
		return errors.New("client configuration: server is not a valid URL")
	case address.Scheme != "https":
		return errors.New("client configuration: server has another scheme than https")
	case address.User != nil:
		return errors.New("client configuration: server has a user name or a password")
	case address.Hostname() == "":
		return errors.New("client configuration: server has no host")
	case address.RawQuery != "" || address.Fragment != "":
		return errors.New("client configuration: server has a query or a fragment")
	}
	if ip, err := netip.ParseAddr(address.Hostname()); err == nil {
		if err := r.checkAddress(ip); err != nil {
			return fmt.Errorf("client configuration: server: %w", err)
		}
	}
	return nil
}

// guard returns a copy of a configuration that connects only to addresses that keep the rules.
func (r *AccessRules) guard(config *rest.Config) *rest.Config {
	guarded := rest.CopyConfig(config)
	if guarded.Dial == nil {
		guarded.Dial = r.dial
	}
	if guarded.Proxy == nil && !r.AllowProxy {
		// The default is the proxy of the environment, which would connect to any address.
		guarded.Proxy = noProxy
	}
	return guarded
}

func noProxy(*http.Request) (*url.URL, error) { return nil, nil }

// guard returns the configuration with the rules of the cluster.
func (c *Cluster) guard(config *rest.Config) *rest.Config {
	if c.rules == nil {
		return config
	}
	return c.rules.guard(config)
}

// GuardTransport lets a transport connect only as [Params].Access permits it, for requests to
// addresses that the owner of the cluster names, such as those in its CloudConfig. Requests must be
// sent through the result, which limits the responses: each may have [Limits].ObjectBytes, in bytes
// or in memory if it is JSON. The pages of a list of the OpenStack provider may have twice as much
// together. Responses of more than a megabyte are read slowly, and one after the other over all
// transports of the cluster: the next one waits until the body is closed. The transport must not
// have been used. A [Trusted] cluster's transport is returned unchanged.
func (c *Cluster) GuardTransport(t *http.Transport) http.RoundTripper {
	if c.rules == nil {
		return t
	}
	t.DialContext = c.rules.dial
	if !c.rules.AllowProxy {
		t.Proxy = nil
	}
	return c.cloud.guard(t)
}

// applyRules checks the client configuration of a cluster that is not trusted, and guards it.
func (c *Cluster) applyRules(rules *AccessRules) {
	if c.isTrusted {
		return
	}
	c.rules = rules
	if c.RESTConfig == nil || c.Err != nil {
		return
	}
	if err := rules.check(c.RESTConfig); err != nil {
		c.RESTConfig, c.Err = nil, err
		return
	}
	c.RESTConfig = rules.guard(c.RESTConfig)
}
