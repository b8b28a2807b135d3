// Package places finds where a load balancer's addresses, its members and its floating IP are to
// be.
//
// What the settings name is used. What nothing names is where the nodes are: the VIP of a new load
// balancer is in the subnet of a node's address, and so are the members of any. An existing load
// balancer is where it is. So the answer is the same whatever it is asked for, when a Service or
// when a node has changed, and before and after the load balancer is made; and if the settings name
// subnets, or the load balancer is there, next to nothing is looked up.
//
// The members' subnet is the first of
//
//  1. the one that the settings name for members (which may be subnet-id of cloud.conf)
//  2. the one that they name for the VIP
//  3. that of a node's address: of the first node, by name, that has a port with it
//  4. that of the VIP
//
// In 3, a load balancer whose place nothing names stays with the subnet of its VIP as long as any
// node is there.
package places

import (
	"context"
	"fmt"

	v1 "k8s.io/api/core/v1"

	"github.com/fxccm/fxccm/provider/openstack/internal/loadbalancer/balancer"
	"github.com/fxccm/fxccm/provider/openstack/internal/loadbalancer/desired"
	"github.com/fxccm/fxccm/provider/openstack/internal/loadbalancer/settings"
)

// Cloud is what is asked of Neutron: neutron.API. It remembers its answers.
type Cloud interface {
	// Subnet's error wraps neutron.ErrNotFound if there is none.
	Subnet(ctx context.Context, id string) (balancer.Subnet, error)
	// Subnets are those of a network, in the order of their ids.
	Subnets(ctx context.Context, networkID string) ([]balancer.Subnet, error)
	// ExternalNetwork is the id of the network of floating IPs if none is named; "": there is none.
	ExternalNetwork(ctx context.Context) (string, error)
	// ServerAddresses are the fixed addresses of servers by their ids.
	ServerAddresses(ctx context.Context, serverIDs []string) (map[string][]balancer.Address, error)
}

// Input is all that counts. Nothing in it is changed.
type Input struct {
	Settings settings.Settings
	// Service tells the families of addresses.
	Service *v1.Service
	// Nodes are all of the cluster's, in any order.
	Nodes []*v1.Node
	// Existing is the load balancer that the Service uses; nil if there is none yet.
	Existing *balancer.LoadBalancer
	// Guest: it was made for another Service, or by a user. Its addresses and its floating IP are
	// their matter.
	Guest bool
	// HasFloatingIP: where another would be made is not looked up.
	HasFloatingIP bool
	// Features tell whether there can be a second VIP.
	Features balancer.Features
}

// NoNodeError says that a load balancer waits for the first node, which tells where it is to be.
type NoNodeError struct {
	// Why is a clause.
	Why string
}

func (e *NoNodeError) Error() string {
	return "waiting for the first node with an address in OpenStack, because " + e.Why
}

// ImpossibleError says why the settings do not fit the cloud: it is for who can change them.
// Nothing is gained by asking again soon.
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

// familiesOf are those of the Service. One that was made before there were two is of IPv4.
func familiesOf(service *v1.Service) []v1.IPFamily {
	if len(service.Spec.IPFamilies) > 0 {
		return service.Spec.IPFamilies
	}
	return []v1.IPFamily{v1.IPv4Protocol}
}

func isIPv6(family v1.IPFamily) bool { return family == v1.IPv6Protocol }
