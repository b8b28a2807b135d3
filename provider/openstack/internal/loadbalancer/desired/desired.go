// Package desired decides what the load balancer of a Service should be. It makes no request and
// keeps no state.
package desired

import (
	"errors"

	v1 "k8s.io/api/core/v1"

	"github.com/fxccm/fxccm/provider/openstack/internal/events"
	"github.com/fxccm/fxccm/provider/openstack/internal/loadbalancer/neutron"
	"github.com/fxccm/fxccm/provider/openstack/internal/loadbalancer/octavia"
	"github.com/fxccm/fxccm/provider/openstack/internal/loadbalancer/settings"
)

// Input is what [Build] decides from. Build does not change it.
type Input struct {
	Identity Identity
	Service  *v1.Service
	Nodes    []Node
	Settings settings.Settings
	Features Features
	Places   Places
	// LoadBalancerName is that of the load balancer that the Service uses; "" before its creation.
	// The listeners, pools and monitors of an owner bear it; a guest's bear the name of
	// its own Service, as with OCCM (loadbalancer.go, ensureOctaviaLoadBalancer).
	LoadBalancerName string
	// Guest: the load balancer was made for another Service, or by a user. Its addresses, its kind
	// and its floating IP are their matter.
	Guest bool
	// HasFloatingIP: the load balancer has one, so where one would be made was not looked up.
	HasFloatingIP bool
}

// Places are what was looked up in the cloud.
type Places struct {
	// VIP is the place of the address if the settings do not name it; an existing load balancer
	// stays in its place. Only subnet and network count.
	VIP octavia.VIP
	// AdditionalVIPs are for the second family of a dual-stack Service; an existing load balancer
	// keeps its own.
	AdditionalVIPs []octavia.VIP
	// Member is the members' subnet; the zero value if it need not be named. Its CIDR is needed for
	// security groups.
	Member neutron.Subnet
	// FloatingNetworkID and FloatingSubnetIDs are where a floating IP is made.
	FloatingNetworkID string
	FloatingSubnetIDs []string
}

// Notice is something that whoever made the Service should know: an event.
type Notice struct {
	// Reason is a word in CamelCase, OCCM's where it has one.
	Reason  events.Reason
	Message string
	// Warning is false for what is as it should be.
	Warning bool
}

// Build decides. Its error tells the user why the Service cannot be served as it is; the notices
// tell the rest.
//
// A missing capability of the provider is an error where an omission would expose or garble
// traffic: certificates, the PROXY protocol, HTTP headers. Everything else is omitted with a
// notice.
func Build(in Input) (State, []Notice, error) {
	b := &builder{Input: in, families: families(in)}
	d, err := b.build()
	if err != nil {
		return State{}, b.notices, err
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

func (b *builder) build() (State, error) {
	if len(b.Service.Spec.Ports) == 0 {
		return State{}, errors.New("the Service has no ports")
	}
	address, err := b.address()
	if err != nil {
		return State{}, err
	}
	clients, err := b.clients()
	if err != nil {
		return State{}, err
	}
	backends := b.backends()
	ports, err := b.ports(backends, clients)
	if err != nil {
		return State{}, err
	}
	group, err := b.securityGroup(clients)
	if err != nil {
		return State{}, err
	}
	b.sayWhatIsUnchecked()
	return State{
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

// warn adds a notice that the user should act on, note one that is informational.
func (b *builder) warn(reason events.Reason, message string) {
	b.notices = append(b.notices, Notice{Reason: reason, Message: message, Warning: true})
}

func (b *builder) note(reason events.Reason, message string) {
	b.notices = append(b.notices, Notice{Reason: reason, Message: message})
}
