// Package desired decides the desired state of a Service's load balancer. It makes no request and
// keeps no state.
package desired

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"net/netip"

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

// Build decides the desired state. Its error tells the user why the Service cannot be served; the
// notices report everything else.
//
// A missing capability of the provider is an error if an omission would expose or garble traffic:
// certificates, the PROXY protocol, HTTP headers. Other features are omitted with a notice.
func Build(in Input) (State, []events.Notice, error) {
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
	notices  []events.Notice
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
	b.notices = append(b.notices, events.Notice{Reason: reason, Message: message, Warning: true})
}

func (b *builder) note(reason events.Reason, message string) {
	b.notices = append(b.notices, events.Notice{Reason: reason, Message: message})
}

// State is the desired state of a Service's load balancer and related objects. It depends only on
// the Service, the nodes, the settings and the results of lookups.
type State struct {
	Identity Identity
	// LoadBalancer is created if the Service has none, and compared if the Service is the owner.
	LoadBalancer octavia.LoadBalancer
	// Ports are in the order of the Service's.
	Ports []octavia.Port
	// FloatingIP is nil if none is desired.
	FloatingIP *neutron.WantedFloatingIP
	// KeepFloatingIP: an unwanted floating IP is detached instead of deleted.
	KeepFloatingIP bool
	// SecurityGroup is nil if none is desired.
	SecurityGroup *neutron.SecurityGroup
	// Backends are the nodes that are members of any pool, even draining ones: their ports have the
	// security group.
	Backends []Backend
	Features Features
	// Recreate: an immutable difference is resolved by a new load balancer.
	Recreate bool
	// Cascade: the load balancer is deleted with its children by one request.
	Cascade bool
}

// Backend is a node with its member address.
type Backend struct {
	// Node is the node's name.
	Node     string
	Address  string
	SubnetID string
	// ServerID comes from the node's provider ID; "" if it has none yet.
	ServerID string
}

// Hash is equal for two desired states if and only if the contents of the load balancer and the
// security group are equal, in one version of fxccm. It leaves out the load balancer itself and its
// floating IP: each reconcile compares them, because that costs no request.
func (d State) Hash() string {
	d.LoadBalancer, d.FloatingIP = octavia.LoadBalancer{}, nil
	hash := sha256.New()
	// State holds plain values, so neither the encoding nor the hash fails. Maps are encoded in the
	// order of their keys.
	_ = json.NewEncoder(hash).Encode(d)
	return hex.EncodeToString(hash.Sum(nil))
}

// families returns the families of the load balancer's addresses: the Service's first one, and the
// second if a VIP exists for it.
func families(in Input) []v1.IPFamily {
	wanted := familiesOf(in.Service)
	if len(wanted) > 1 && in.Features.AdditionalVIPs && len(in.Places.AdditionalVIPs) > 0 {
		return wanted[:2]
	}
	return wanted[:1]
}

// family returns the family of the first VIP.
func (b *builder) family() v1.IPFamily { return b.families[0] }

func familyOf(address netip.Addr) v1.IPFamily {
	if address.Is4() {
		return v1.IPv4Protocol
	}
	return v1.IPv6Protocol
}

func allAddresses(family v1.IPFamily) string {
	if family == v1.IPv6Protocol {
		return "::/0"
	}
	return "0.0.0.0/0"
}
