// Package desired decides what a Service's load balancer should be. It asks nobody and remembers
// nothing.
package desired

import (
	"errors"

	v1 "k8s.io/api/core/v1"

	"github.com/fxccm/fxccm/provider/openstack/internal/loadbalancer/balancer"
	"github.com/fxccm/fxccm/provider/openstack/internal/loadbalancer/settings"
)

// Input is all that counts. Nothing in it is changed.
type Input struct {
	Identity balancer.Identity
	Service  *v1.Service
	Nodes    []Node
	Settings settings.Settings
	Features balancer.Features
	Places   Places
	// LoadBalancerName is that of the load balancer that the Service uses, whoever made it; "" if
	// there is none yet. An owner's listeners, pools and monitors bear it, a guest's those of the
	// Service's own, as with OCCM (loadbalancer.go, ensureOctaviaLoadBalancer).
	LoadBalancerName string
	// Guest: the load balancer was made for another Service, or by a user. Its addresses, its kind
	// and its floating IP are their matter.
	Guest bool
	// HasFloatingIP: the load balancer has one, so where one would be made was not looked up.
	HasFloatingIP bool
}

// Places are what was looked up in the cloud.
type Places struct {
	// VIP is where the load balancer's address is, if the settings do not say so: of one that is to
	// be made where it shall be, of one that is there where it is. Only subnet and network count.
	VIP balancer.VIP
	// AdditionalVIPs are for the second family of a dual-stack Service; of a load balancer that is
	// there, those that it has.
	AdditionalVIPs []balancer.VIP
	// Member is the members' subnet; the zero value if it need not be named. Its CIDR is needed for
	// security groups.
	Member balancer.Subnet
	// FloatingNetworkID and FloatingSubnetIDs are where a floating IP is made.
	FloatingNetworkID string
	FloatingSubnetIDs []string
}

// Notice is something that whoever made the Service should know: an event.
type Notice struct {
	// Reason is a word in CamelCase, OCCM's where it has one.
	Reason  string
	Message string
	// Warning is false for what is as it should be.
	Warning bool
}

// Build decides. An error says why the Service cannot be served as it is: it is for people, and so
// are the notices that come with it.
//
// What a provider cannot do is an error where doing without would make public what was to be kept,
// or garble it: certificates, the PROXY protocol, HTTP headers. All else is left out with a notice.
func Build(in Input) (balancer.Desired, []Notice, error) {
	b := &builder{Input: in, families: families(in)}
	d, err := b.build()
	if err != nil {
		return balancer.Desired{}, b.notices, err
	}
	return d, b.notices, nil
}

// builder holds what the parts of the decision have in common.
type builder struct {
	Input
	// families are those of the load balancer's addresses: at least one.
	families []v1.IPFamily
	notices  []Notice
}

func (b *builder) build() (balancer.Desired, error) {
	if len(b.Service.Spec.Ports) == 0 {
		return balancer.Desired{}, errors.New("the Service has no ports")
	}
	address, err := b.address()
	if err != nil {
		return balancer.Desired{}, err
	}
	clients, err := b.clients()
	if err != nil {
		return balancer.Desired{}, err
	}
	backends := b.backends()
	ports, err := b.ports(backends, clients)
	if err != nil {
		return balancer.Desired{}, err
	}
	group, err := b.securityGroup(clients)
	if err != nil {
		return balancer.Desired{}, err
	}
	b.sayWhatIsUnchecked()
	return balancer.Desired{
		Identity:       b.Identity,
		LoadBalancer:   b.loadBalancer(address),
		Ports:          ports,
		FloatingIP:     b.floatingIP(address),
		KeepFloatingIP: b.Settings.KeepFloatingIP,
		SecurityGroup:  group,
		Backends:       nodesOf(backends),
		Features:       b.Features,
		Recreate:       b.Settings.Recreate,
		Cascade:        b.Settings.CascadeDelete,
	}, nil
}

// exists tells whether there is a load balancer already.
func (b *builder) exists() bool { return b.LoadBalancerName != "" }

// warn tells of something that the user should change, note of something that is as it should be.
func (b *builder) warn(reason, message string) {
	b.notices = append(b.notices, Notice{Reason: reason, Message: message, Warning: true})
}

func (b *builder) note(reason, message string) {
	b.notices = append(b.notices, Notice{Reason: reason, Message: message})
}
