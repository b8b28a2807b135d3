package openstacktest

import "net/http"

// octaviaSettings are what options change of Octavia.
type octaviaSettings struct {
	// newest is the API's minor version; nil: 27.
	newest    *int
	providers []string
	serial    []string
	// ownersFailOver: the policy lets them.
	ownersFailOver bool
	// refusal is the status for what a provider cannot do; 0: 501.
	refusal int
}

// minor is the newest minor version of the API.
func (s octaviaSettings) minor() int {
	if s.newest == nil {
		return 27
	}
	return *s.newest
}

// providerNames are the enabled ones, the default first.
func (s octaviaSettings) providerNames() []string {
	names := s.providers
	if names == nil {
		names = []string{ProviderAmphora, ProviderOctavia, ProviderOVN}
	}
	return append(append([]string{}, names...), s.serial...)
}

func (s octaviaSettings) refusalStatus() int {
	if s.refusal == 0 {
		return http.StatusNotImplemented
	}
	return s.refusal
}

// The providers that the cloud has without [WithLoadBalancerProviders].
const (
	// ProviderAmphora can do all.
	ProviderAmphora = "amphora"
	// ProviderOctavia is another name of it.
	ProviderOctavia = "octavia"
	// ProviderOVN forwards packets: no HTTP, TLS, proxy protocol, allowed CIDRs, other algorithm
	// than SOURCE_IP_PORT, other monitor than TCP and UDP-CONNECT, other address or port to
	// monitor.
	ProviderOVN = "ovn"
)

// WithLoadBalancerVersion sets the newest version of Octavia's API, 2.minor. Anything newer is
// refused as unknown, and is not shown. Default 27, as in 2024.1.
func WithLoadBalancerVersion(minor int) Option {
	return func(s *settings) { s.octavia.newest = &minor }
}

// WithLoadBalancerProviders sets the providers that are enabled, the default first. Default:
// amphora, octavia, ovn. Those with other names are like amphora.
func WithLoadBalancerProviders(names ...string) Option {
	return func(s *settings) { s.octavia.providers = names }
}

// WithSerialLoadBalancerProvider adds a provider that does one thing at a time: it refuses the
// creation of a load balancer with anything below it, and the change of several members at once.
func WithSerialLoadBalancerProvider(name string) Option {
	return func(s *settings) { s.octavia.serial = append(s.octavia.serial, name) }
}

// WithLoadBalancerRefusal sets the status for what a provider cannot do. Default 501; some releases
// of Octavia say 400.
func WithLoadBalancerRefusal(status int) Option {
	return func(s *settings) { s.octavia.refusal = status }
}

// WithFailoverByOwners lets projects fail over their own load balancers, as the policy of some
// clouds does. Without it only administrators may.
func WithFailoverByOwners() Option {
	return func(s *settings) { s.octavia.ownersFailOver = true }
}
