// Package settings reads what a Service's annotations, the LoadBalancerClass that they name, and
// [LoadBalancer] of cloud.conf say about its load balancer. One table drives the reading, the
// checks and the reference page.
package settings

import (
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/fxccm/fxccm/provider/openstack/cloudconf"
)

// Settings are what holds for one Service, with all defaults and precedence applied: the
// annotation, or else the class, or else cloud.conf. IDs are UUIDs in lower case with hyphens,
// unless cloud.conf has something else.
type Settings struct {
	// Internal: no floating IP.
	Internal bool

	// Where the VIP is. All may be empty: it is then where the nodes are.
	NetworkID, SubnetID, PortID string
	// AdditionalSubnetID is where the second VIP of a dual-stack Service is; "": looked up in the
	// VIP's network.
	AdditionalSubnetID string
	// Address is spec.loadBalancerIP, in its canonical form.
	Address string
	// MemberSubnetID is where the members are: what the annotation, the class, and member-subnet-id
	// or else subnet-id of cloud.conf say; "": looked up.
	MemberSubnetID string

	// FloatingNetworkID is where a floating IP is made; "": looked up.
	FloatingNetworkID string
	// FloatingSubnetID, or else FloatingSubnet (a pattern) and FloatingSubnetTags, narrow that
	// down. They are from one source: an annotation for one of them overrides class and cloud.conf
	// for all three.
	FloatingSubnetID, FloatingSubnet, FloatingSubnetTags string
	KeepFloatingIP                                       bool

	// Provider is Octavia's; "": the cloud's default.
	Provider         string
	FlavorID         string
	AvailabilityZone string
	// Algorithm is "" if only cloud.conf's default, ROUND_ROBIN, applies.
	Algorithm string

	// ProxyProtocol is "", PROXY or PROXYV2.
	ProxyProtocol string
	// The headers that are inserted. With ProxyProtocol the listener inserts them all the same, as
	// with OCCM: its pool speaks PROXY.
	XForwardedFor, XForwardedPort, XForwardedProto bool
	TLSContainer                                   string
	// ListenerProtocols are those that the annotation asks for.
	ListenerProtocols ListenerProtocols

	// ConnectionLimit is -1 for none.
	ConnectionLimit int
	// The timeouts are in milliseconds.
	TimeoutClientData, TimeoutMemberConnect, TimeoutMemberData, TimeoutTCPInspect int

	Monitor bool
	// MonitorDelay and MonitorTimeout are whole seconds, at least one. The timeout is not longer
	// than the delay.
	MonitorDelay, MonitorTimeout time.Duration
	// From 1 to 10.
	MonitorMaxRetries, MonitorMaxRetriesDown int

	// SourceRanges are CIDRs in canonical form, sorted, of both families, each once. Nil: not
	// specified, so all clients may connect.
	SourceRanges []string
	// NodeSelector is what labels a member's node must have.
	NodeSelector NodeSelector

	// LoadBalancerID is the one to use; "" if none is named.
	LoadBalancerID string
	// Hostname is what the status shows instead of an address.
	Hostname string
	// Recreate: an immutable difference is resolved by a new load balancer.
	Recreate bool

	// Of cloud.conf alone.
	ManageSecurityGroups, CascadeDelete, Serial, EnableIngressHostname, CheckCertificates bool
	IngressHostnameSuffix                                                                 string
	MaxShared                                                                             int
}

// Defaults are what holds where a Service says nothing.
type Defaults struct {
	LoadBalancer cloudconf.LoadBalancer
	Classes      map[string]cloudconf.LoadBalancerClass
}

// Of reads the Service. Problems are in the order of the reference page.
//
// With a fatal Problem, too, all other Settings are as the Service says, so that it can be deleted
// as configured. An invalid value is never used, and invalid source ranges admit no client.
func Of(service *v1.Service, defaults Defaults) (Settings, []Problem) {
	r := &reader{service: service, conf: defaults.LoadBalancer, classes: defaults.Classes}
	r.settings = ofCloudConf(defaults.LoadBalancer)
	r.chooseClass()
	table := table(&r.settings, r.conf)
	for _, row := range table {
		row.read(r)
	}
	r.takeSourceRanges()
	r.takeAddress()
	r.internalByOrder()
	r.floatingSubnetsOfOneSource()
	r.monitorTimesThatFit()
	r.certificateThatCanBeChecked()
	return r.settings, r.inOrder(table)
}

// ofCloudConf is what no Service has a say in.
func ofCloudConf(c cloudconf.LoadBalancer) Settings {
	return Settings{
		ManageSecurityGroups:  c.ManageSecurityGroups,
		CascadeDelete:         c.CascadeDelete,
		Serial:                c.ProviderRequiresSerialAPICalls,
		EnableIngressHostname: c.EnableIngressHostname,
		CheckCertificates:     c.ContainerStore == "barbican",
		IngressHostnameSuffix: c.IngressHostnameSuffix,
		MaxShared:             c.MaxSharedLB,
	}
}

// ListenerProtocols are the protocols of listeners by the name of the Service's port, or by its
// number if it has no name: then it is the Service's only one. All are ports that the Service has,
// and protocols that fit them.
type ListenerProtocols map[string]string

func (p ListenerProtocols) Of(port v1.ServicePort) string { return p[portKey(port)] }
