package desired

import (
	"github.com/fxccm/fxccm/provider/openstack/internal/loadbalancer/octavia"
)

// Features are the capabilities of a load balancer's provider and of the version of Octavia's API.
// They exist only after both are known.
type Features struct {
	// Minor is the version of the API, 2.Minor.
	Minor int
	// Tags: API 2.5.
	Tags bool
	// Timeouts: API 2.1, not ovn.
	Timeouts bool
	// AllowedCIDRs: API 2.12, not ovn.
	AllowedCIDRs bool
	// Flavors: API 2.6, not ovn.
	Flavors bool
	// AvailabilityZones: API 2.14, not ovn.
	AvailabilityZones bool
	// AdditionalVIPs: API 2.26; with ovn API 2.30, that of the oldest lab that sends packets.
	AdditionalVIPs bool
	// MembersOfEachFamily: a VIP forwards to the members of its own family alone (ovn).
	MembersOfEachFamily bool
	// AllVIPsCIDRs: allowed_cidrs can be used with additional VIPs. API 2.27; Zed, whose API is
	// 2.26, takes CIDRs of the first VIP's family alone (api/v2/controllers/listener.py), and then
	// fails to open the amphora for them, so that the load balancer ends in ERROR.
	AllVIPsCIDRs bool
	// HTTPMonitors are monitors of the health check node port: not ovn. For UDP pools: API 2.16.
	HTTPMonitors    bool
	UDPHTTPMonitors bool
	// SCTPMonitors: not ovn.
	SCTPMonitors bool
	// HTTP is for HTTP listeners, certificates and the PROXY protocol: not ovn, which forwards
	// packets.
	HTTP bool
	// Weights of members: not ovn.
	Weights bool
	// KeepsClientAddress: members see the client's address, so a node's firewall can filter by it
	// (ovn).
	KeepsClientAddress bool
	// Persistence keeps a client at a member. Of it, ovn's driver (8.0.0) uses only the timeout,
	// which Octavia refuses for all but UDP and SCTP.
	Persistence bool
	// OnlySourceIPPort: the provider supports no other algorithm (ovn).
	OnlySourceIPPort bool
	// NamesMemberSubnet: each member needs the name of its subnet, because the provider refuses an
	// address outside the VIP's subnet without one (ovn).
	NamesMemberSubnet bool
	// Serial: objects are created without their children, and members are changed one by one.
	Serial bool
}

// FeaturesOf returns the features of a provider with version 2.minor of the API. serial is the
// operator's setting for the provider. The numbers come from Octavia's API reference, "API version
// history", and the limits of ovn from ovn_octavia_provider/driver.py.
func FeaturesOf(provider string, minor int, serial bool) Features {
	ovn := provider == octavia.ProviderOVN
	listener, lb := octavia.FieldsOf[octavia.Listener](), octavia.FieldsOf[octavia.LoadBalancer]()
	return Features{
		Minor:               minor,
		Tags:                minor >= listener.Since("tags"),
		Timeouts:            minor >= listener.Since("timeout_client_data") && !ovn,
		AllowedCIDRs:        minor >= listener.Since("allowed_cidrs") && !ovn,
		Flavors:             minor >= lb.Since("flavor_id") && !ovn,
		AvailabilityZones:   minor >= lb.Since("availability_zone") && !ovn,
		AdditionalVIPs:      minor >= 30 || minor >= 26 && !ovn,
		AllVIPsCIDRs:        minor >= 27 && !ovn,
		HTTPMonitors:        !ovn,
		UDPHTTPMonitors:     minor >= 16 && !ovn,
		SCTPMonitors:        !ovn,
		HTTP:                !ovn,
		Weights:             !ovn,
		KeepsClientAddress:  ovn,
		Persistence:         !ovn,
		OnlySourceIPPort:    ovn,
		NamesMemberSubnet:   ovn,
		MembersOfEachFamily: ovn,
		Serial:              serial,
	}
}
