// Package places finds the places of a load balancer's addresses, its members and its floating IP.
//
// Places that the settings name are used. Without a name, the nodes decide: the VIP of a new load
// balancer is in the subnet of a node's address, and so are the members of any. An existing load
// balancer stays. So the answer is the same at each call, and if the settings name subnets, or the
// load balancer exists, almost nothing is looked up.
//
// The members' subnet is the first of
//
//  1. the one that the settings name for members (which may be subnet-id of cloud.conf)
//  2. the one that they name for the VIP
//  3. that of a node's address: of the first node, by name, that has a port with it
//  4. that of the VIP
//
// In 3, a load balancer without a named place keeps the subnet of its VIP as long as any node is in
// it.
package places

import (
	"context"
	"fmt"

	v1 "k8s.io/api/core/v1"

	"github.com/fxccm/fxccm/provider/openstack/internal/loadbalancer/desired"
	"github.com/fxccm/fxccm/provider/openstack/internal/loadbalancer/neutron"
	"github.com/fxccm/fxccm/provider/openstack/internal/loadbalancer/octavia"
	"github.com/fxccm/fxccm/provider/openstack/internal/loadbalancer/settings"
)

// Cloud is the part of neutron.API that this package needs. It caches its answers.
type Cloud interface {
	// Subnet's error wraps neutron.ErrNotFound if the project sees no such subnet.
	Subnet(ctx context.Context, id string) (neutron.Subnet, error)
	// Subnets are those of a network, in the order of their ids.
	Subnets(ctx context.Context, networkID string) ([]neutron.Subnet, error)
	// ExternalNetwork is the default network of floating IPs, or "".
	ExternalNetwork(ctx context.Context) (string, error)
	// ServerAddresses are the fixed addresses of servers by their ids.
	ServerAddresses(ctx context.Context, serverIDs []string) (map[string][]neutron.Address, error)
}

// Input is what [Resolve] depends on. It is not changed.
type Input struct {
	Settings settings.Settings
	// Service tells the families of addresses.
	Service *v1.Service
	// Nodes are all of the cluster's, in any order.
	Nodes []*v1.Node
	// Existing is the load balancer that the Service uses, or nil.
	Existing *octavia.LoadBalancer
	// Guest: it was made for another Service, or by a user. Its addresses and its floating IP are
	// their matter.
	Guest bool
	// HasFloatingIP: where another would be made is not looked up.
	HasFloatingIP bool
	// Features tell whether there can be a second VIP.
	Features desired.Features
}

// NoNodeError says that a load balancer waits for the first node, which tells where it is to be.
type NoNodeError struct {
	// Why is a clause.
	Why string
}

func (e *NoNodeError) Error() string {
	return "waiting for the first node with an address in OpenStack, because " + e.Why
}

// ImpossibleError says why the settings do not fit the cloud. A retry does not help until they
// change.
type ImpossibleError struct{ Message string }

func (e *ImpossibleError) Error() string { return e.Message }

func impossible(format string, arguments ...any) error {
	return &ImpossibleError{fmt.Sprintf(format, arguments...)}
}

// Resolve looks up what nothing says. The error is a [*NoNodeError], an [*ImpossibleError], or the
// cloud's.
func Resolve(ctx context.Context, cloud Cloud, in Input) (desired.Places, []desired.Notice, error) {
	r := &resolver{Input: in, cloud: cloud, families: familiesOf(in.Service)}
	for _, find := range []func(context.Context) error{
		r.vip, r.member, r.additionalVIPs,
		r.floatingIP,
	} {
		if err := find(ctx); err != nil {
			return desired.Places{}, nil, err
		}
	}
	return r.places, r.notices, nil
}

// resolver holds what the parts of the answer have in common.
type resolver struct {
	Input
	cloud Cloud
	// families are the Service's, in its order: at least one.
	families []v1.IPFamily
	places   desired.Places
	notices  []desired.Notice
	// byNode remembers the subnet of a node's address; nil: it was not looked up.
	byNode *string
}

// familiesOf are those of the Service. A Service from before dual-stack is IPv4.
func familiesOf(service *v1.Service) []v1.IPFamily {
	if len(service.Spec.IPFamilies) > 0 {
		return service.Spec.IPFamilies
	}
	return []v1.IPFamily{v1.IPv4Protocol}
}

func isIPv6(family v1.IPFamily) bool { return family == v1.IPv6Protocol }
