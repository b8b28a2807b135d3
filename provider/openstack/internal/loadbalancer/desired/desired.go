// Package desired decides the desired state of a Service's load balancer. It makes no request and
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

// Input is the input of [Build], which does not change it.
type Input struct {
	Identity Identity
	Service  *v1.Service
	Nodes    []Node
	Settings settings.Settings
	Features Features
	Places   Places
	// LoadBalancerName is the name of the load balancer that the Service uses; "" before its
	// creation. An owner's listeners, pools and monitors are named after it; a guest's after the
	// guest's Service, as with OCCM (loadbalancer.go, ensureOctaviaLoadBalancer).
	LoadBalancerName string
	// Guest: the load balancer was created for another Service, or by a user. The guest decides
	// neither its addresses and kind nor its floating IP.
	Guest bool
	// HasFloatingIP: the load balancer has one, so the place of a new one was not looked up.
	HasFloatingIP bool
}

// Places are the results of the lookups in the cloud.
type Places struct {
	// VIP is the place of the address if the settings do not name it; an existing load balancer
	// stays in its place. Only subnet and network are used.
	VIP octavia.VIP
	// AdditionalVIPs are for the second family of a dual-stack Service; an existing load balancer
	// keeps its own.
	AdditionalVIPs []octavia.VIP
	// Member is the members' subnet; the zero value if the subnet need not be named. Security
	// groups need its CIDR.
	Member neutron.Subnet
	// FloatingNetworkID and FloatingSubnetIDs are the place of a new floating IP.
	FloatingNetworkID string
	FloatingSubnetIDs []string
}

// Notice is an event for the owner of the Service.
type Notice struct {
	// Reason is a word in CamelCase; OCCM's if OCCM has one.
	Reason  events.Reason
	Message string
	// Warning is false for a notice without a problem.
	Warning bool
}

// Build decides the desired state. Its error tells the user why the Service cannot be served; the
// notices report everything else.
//
// A missing capability of the provider is an error if an omission would expose or garble traffic:
// certificates, the PROXY protocol, HTTP headers. Other features are omitted with a notice.
func Build(in Input) (State, []Notice, error) {
	b := &builder{Input: in, families: families(in)}
	d, err := b.build()
	if err != nil {
		return State{}, b.notices, err
	}
	return d, b.notices, nil
}

// builder holds the state that all parts of the decision share.
type builder struct {
	Input
	// families are the families of the load balancer's addresses: at least one.
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
	b.warnUnmonitored()
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

// exists reports whether a load balancer exists already.
func (b *builder) exists() bool { return b.LoadBalancerName != "" }

// warn adds a notice that the user should act on; note adds an informational one.
func (b *builder) warn(reason events.Reason, message string) {
	b.notices = append(b.notices, Notice{Reason: reason, Message: message, Warning: true})
}

func (b *builder) note(reason events.Reason, message string) {
	b.notices = append(b.notices, Notice{Reason: reason, Message: message})
}
