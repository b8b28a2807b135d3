package octavia

import (
	"net/http"
	"time"
)

// Options configure Octavia; package openstacktest documents them.
type Options struct {
	// Newest is the API's minor version; nil: 27.
	Newest    *int
	Providers []string
	Serial    []string
	// OwnersFailOver lets the owners of load balancers fail them over.
	OwnersFailOver bool
	// Refusal is the status for what a provider cannot do; 0: 501.
	Refusal      int
	Provisioning time.Duration
}

// minor is the newest minor version of the API.
func (o Options) minor() int {
	if o.Newest == nil {
		return 27
	}
	return *o.Newest
}

// providerNames are the enabled ones, the default first.
func (o Options) providerNames() []string {
	names := o.Providers
	if names == nil {
		names = []string{ProviderAmphora, ProviderOctavia, ProviderOVN}
	}
	return append(append([]string{}, names...), o.Serial...)
}

func (o Options) refusalStatus() int {
	if o.Refusal == 0 {
		return http.StatusNotImplemented
	}
	return o.Refusal
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
