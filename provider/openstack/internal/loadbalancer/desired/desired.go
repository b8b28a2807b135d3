// Package desired decides what a Service's load balancer should be. It asks nobody and remembers nothing.
package desired

import (
	v1 "k8s.io/api/core/v1"

	"github.com/fxccm/fxccm/provider/openstack/internal/loadbalancer/balancer"
	"github.com/fxccm/fxccm/provider/openstack/internal/loadbalancer/settings"
)

// Input is all that counts.
type Input struct {
	Identity balancer.Identity
	Service  *v1.Service
	Nodes    []Node
	Settings settings.Settings
	Features balancer.Features
	Places   Places
	// LoadBalancerName is that of an existing load balancer which the Service shares; its children bear its name. "" for the
	// Service's own.
	LoadBalancerName string
}

// Node is a node that may be a member.
type Node struct {
	*v1.Node
	// Draining: it is about to be removed, and gets no new connections.
	Draining bool
}

// Places are what was looked up in the cloud.
type Places struct {
	// VIP is where a new load balancer's address is; what is empty is left out of the request.
	VIP balancer.VIP
	// AdditionalVIPs are for the second family of a dual-stack Service.
	AdditionalVIPs []balancer.VIP
	// Member is the members' subnet; the zero value if it need not be named.
	Member balancer.Subnet
	// FloatingNetworkID and FloatingSubnetIDs are where a floating IP is made. An external Service without a network has none.
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

// Build decides. An error says why the Service cannot be served as it is: it is for people.
func Build(in Input) (balancer.Desired, []Notice, error) { panic("not written yet") }
