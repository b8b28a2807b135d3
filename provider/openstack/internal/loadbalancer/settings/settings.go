// Package settings reads what a Service's annotations, the LoadBalancerClass that they name, and [LoadBalancer] of cloud.conf say
// about its load balancer. One table drives the reading, the checks and the reference page.
package settings

import (
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/fxccm/fxccm/provider/openstack/config"
)

// Settings are what holds for one Service, with all defaults and precedence applied.
type Settings struct {
	// Internal: no floating IP.
	Internal bool

	// Where the VIP is. All may be empty: it is then where the nodes are.
	NetworkID, SubnetID, PortID string
	// AdditionalSubnetID is where the second VIP of a dual-stack Service is; "": looked up in the VIP's network.
	AdditionalSubnetID string
	// Address is spec.loadBalancerIP.
	Address string
	// MemberSubnetID is where the members are; "": looked up.
	MemberSubnetID string

	FloatingNetworkID, FloatingSubnetID, FloatingSubnet, FloatingSubnetTags string
	KeepFloatingIP                                                          bool

	// Provider is Octavia's; "": the cloud's default.
	Provider         string
	FlavorID         string
	AvailabilityZone string
	// Algorithm is "" if nobody asked for one.
	Algorithm string

	// ProxyProtocol is "", PROXY or PROXYV2.
	ProxyProtocol                                  string
	XForwardedFor, XForwardedPort, XForwardedProto bool
	TLSContainer                                   string
	// ListenerProtocols are by a Service port's name or number.
	ListenerProtocols map[string]string

	ConnectionLimit int
	// The timeouts are in milliseconds.
	TimeoutClientData, TimeoutMemberConnect, TimeoutMemberData, TimeoutTCPInspect int

	Monitor                                  bool
	MonitorDelay, MonitorTimeout             time.Duration
	MonitorMaxRetries, MonitorMaxRetriesDown int

	// SourceRanges are CIDRs, normalised and sorted; nil: everybody.
	SourceRanges []string
	// NodeSelector is what labels a member's node must have; the value "" with present false in NodeSelectorValues: any value.
	NodeSelector map[string]*string

	// LoadBalancerID is the one to use; "" if none is named.
	LoadBalancerID string
	// Hostname is what the status shows instead of an address.
	Hostname string
	// Recreate: what cannot be changed is changed by making the load balancer anew.
	Recreate bool

	// Of cloud.conf alone.
	ManageSecurityGroups, CascadeDelete, Serial, EnableIngressHostname, CheckCertificates bool
	IngressHostnameSuffix                                                                 string
	MaxShared                                                                             int
}

// Problem is a value that cannot be used.
type Problem struct {
	// Annotation is the full name, or the field of the spec.
	Annotation string
	Value      string
	// Why is a clause such as "not a number".
	Why string
	// Fatal: the Service is not served until it is mended. Else the default holds in its place.
	Fatal bool
}

// Defaults are what holds where a Service says nothing.
type Defaults struct {
	LoadBalancer config.LoadBalancer
	Classes      map[string]config.LoadBalancerClass
}

// Of reads the Service. Problems are in the order of the table.
func Of(service *v1.Service, defaults Defaults) (Settings, []Problem) { panic("not written yet") }
