package desired

import (
	"context"
	"errors"
	"fmt"

	v1 "k8s.io/api/core/v1"

	"github.com/fxccm/fxccm/provider/openstack/internal/loadbalancer/neutron"
	"github.com/fxccm/fxccm/provider/openstack/internal/loadbalancer/octavia"
)

// Cloud is the part of neutron.API that this package needs. It caches its answers.
type Cloud interface {
	// Subnet's error wraps neutron.ErrNotFound if the project sees no such subnet.
	Subnet(ctx context.Context, id string) (neutron.Subnet, error)
	// Subnets returns the subnets of a network, in the order of their IDs.
	Subnets(ctx context.Context, networkID string) ([]neutron.Subnet, error)
	// ExternalNetwork returns the default network of floating IPs, or "".
	ExternalNetwork(ctx context.Context) (string, error)
	// ServerAddresses returns the fixed addresses of servers by their IDs.
	ServerAddresses(ctx context.Context, serverIDs []string) (map[string][]neutron.Address, error)
}

// ErrNoNode is wrapped by the error of [Resolve] for a load balancer that waits for the first node,
// because only nodes show its place.
var ErrNoNode = errors.New("waiting for the first node with an address in OpenStack")

// ImpossibleError explains why the settings do not fit the cloud. A retry does not help until they
// change.
type ImpossibleError struct{ Message string }

func (e *ImpossibleError) Error() string { return e.Message }

func impossible(format string, arguments ...any) error {
	return &ImpossibleError{fmt.Sprintf(format, arguments...)}
}

// Resolve finds the places of a load balancer's addresses, its members and its floating IP.
//
// Places that the settings name are used. Without a name, the nodes decide: the VIP of a new load
// balancer is in the subnet of a node's address, and so are the members of any load balancer. An
// existing load balancer stays. So each call returns the same. If the settings name subnets, or the
// load balancer exists, almost nothing is looked up.
//
// The members' subnet is the first of
//
//  1. the subnet that the settings name for members (which may be subnet-id of cloud.conf)
//  2. the subnet that they name for the VIP
//  3. the subnet of a node's address: of the first node, by name, that has a port
//  4. the subnet of the VIP
//
// In 3, a load balancer without a named place keeps the subnet of its VIP as long as any node has
// an address in it.
//
// existing is the load balancer that the Service uses, or nil. The error wraps [ErrNoNode], is an
// [*ImpossibleError], or is the cloud's.
func Resolve(
	ctx context.Context, cloud Cloud, in Input, existing *octavia.LoadBalancer,
) (Places, []Notice, error) {
	r := &resolver{
		Input: in, existing: existing, cloud: cloud, families: familiesOf(in.Service),
	}
	for _, find := range []func(context.Context) error{
		r.vip, r.member, r.additionalVIPs, r.floatingIP,
	} {
		if err := find(ctx); err != nil {
			return Places{}, nil, err
		}
	}
	return r.places, r.notices, nil
}

type resolver struct {
	Input
	existing *octavia.LoadBalancer
	cloud    Cloud
	// families are the Service's, in its order: at least one.
	families []v1.IPFamily
	places   Places
	notices  []Notice
	// byNode caches the subnet of a node's address; nil before the lookup.
	byNode *string
}

// familiesOf returns the families of the Service. A Service from before dual-stack is IPv4.
func familiesOf(service *v1.Service) []v1.IPFamily {
	if len(service.Spec.IPFamilies) > 0 {
		return service.Spec.IPFamilies
	}
	return []v1.IPFamily{v1.IPv4Protocol}
}

func isIPv6(family v1.IPFamily) bool { return family == v1.IPv6Protocol }
