package places

import (
	"cmp"
	"context"
	"net/netip"
	"slices"

	v1 "k8s.io/api/core/v1"

	"github.com/fxccm/fxccm/provider/openstack/internal/instances"
	"github.com/fxccm/fxccm/provider/openstack/internal/loadbalancer/desired"
	"github.com/fxccm/fxccm/provider/openstack/internal/loadbalancer/neutron"
)

// member is where the members are. More of it than the id is looked up for the rules of a security
// group only, which name its CIDR.
func (r *resolver) member(ctx context.Context) error {
	id, err := r.memberSubnet(ctx)
	if err != nil {
		return err
	}
	if !r.Settings.ManageSecurityGroups {
		r.places.Member = neutron.Subnet{ID: id}
		return nil
	}
	if id == "" && r.places.VIP.NetworkID != "" {
		// Octavia will choose one of this family for the VIP, and the next time it is known which.
		if id, err = r.firstSubnet(ctx, r.places.VIP.NetworkID, r.families[0]); err != nil {
			return err
		}
	}
	if id == "" {
		return &NoNodeError{"the security group rules contain the nodes' subnet"}
	}
	r.places.Member, err = r.namedSubnet(ctx, id)
	return err
}

// memberSubnet is "" if nothing tells it: Octavia takes the VIP's then.
func (r *resolver) memberSubnet(ctx context.Context) (string, error) {
	if named := cmp.Or(r.Settings.MemberSubnetID, r.Settings.SubnetID); named != "" {
		return named, nil
	}
	subnet, err := r.nodeSubnet(ctx)
	if err != nil {
		return "", err
	}
	return cmp.Or(subnet, r.places.VIP.SubnetID), nil
}

// nodeSubnet is the subnet of a node's address; "": no node has one that is a port's.
func (r *resolver) nodeSubnet(ctx context.Context) (string, error) {
	if r.byNode == nil {
		subnet, err := r.findNodeSubnet(ctx)
		if err != nil {
			return "", err
		}
		r.byNode = &subnet
	}
	return *r.byNode, nil
}

// findNodeSubnet asks for the first node, which is enough as a rule, and then for all others
// together.
func (r *resolver) findNodeSubnet(ctx context.Context) (string, error) {
	nodes := r.located()
	first := min(len(nodes), 1)
	found, err := r.subnetsOf(ctx, nodes[:first])
	if err != nil || len(found) > 0 && !r.prefersOther(found[0]) {
		return firstOf(found), err
	}
	others, err := r.subnetsOf(ctx, nodes[first:])
	if err != nil {
		return "", err
	}
	found = append(found, others...)
	if is := r.Existing; is != nil && r.prefersOther(firstOf(found)) &&
		slices.Contains(found, is.VIP.SubnetID) {
		return is.VIP.SubnetID, nil
	}
	return firstOf(found), nil
}

// prefersOther tells whether another node's subnet would do better: that of the VIP, where that was
// chosen by a node. So a load balancer's members do not change their subnet when the node leaves
// that was the first one when it was made.
func (r *resolver) prefersOther(subnet string) bool {
	return r.Existing != nil && !r.namesPlace() && subnet != r.Existing.VIP.SubnetID
}

func firstOf(subnets []string) string {
	if len(subnets) == 0 {
		return ""
	}
	return subnets[0]
}

// subnetsOf are the subnets of the nodes' addresses, of those that are ports', in the order of the
// nodes.
func (r *resolver) subnetsOf(ctx context.Context, nodes []located) ([]string, error) {
	if len(nodes) == 0 {
		return nil, nil
	}
	var servers []string
	for _, node := range nodes {
		servers = append(servers, node.server)
	}
	addresses, err := r.cloud.ServerAddresses(ctx, servers)
	if err != nil {
		return nil, err
	}
	var subnets []string
	for _, node := range nodes {
		for _, a := range addresses[node.server] {
			if ip, err := netip.ParseAddr(a.IP); err == nil && ip == node.address {
				subnets = append(subnets, a.SubnetID)
			}
		}
	}
	return subnets, nil
}

// located is a node of which it is known where it is: one without a provider ID, or without an
// address, tells nothing.
type located struct {
	name     string
	draining bool
	server   string
	address  netip.Addr
}

// located are the nodes that may become members, by name, those last that are about to go. If the
// selector chooses none of them, any will do.
func (r *resolver) located() []located {
	var all, selected []located
	for _, node := range desired.Candidates(r.Nodes) {
		id, err := instances.ParseProviderID(node.Spec.ProviderID)
		address, ok := r.addressOf(node.Node)
		if err != nil || !ok {
			continue
		}
		found := located{node.Name, node.Draining, id.ID, address}
		all = append(all, found)
		if r.Settings.NodeSelector.Matches(node.Labels) {
			selected = append(selected, found)
		}
	}
	if len(selected) == 0 {
		selected = all
	}
	slices.SortFunc(selected, func(a, b located) int {
		if a.draining != b.draining {
			if a.draining {
				return 1
			}
			return -1
		}
		return cmp.Compare(a.name, b.name)
	})
	return selected
}

// addressOf is where a node gets traffic: an InternalIP of the Service's family, or else an
// ExternalIP.
func (r *resolver) addressOf(node *v1.Node) (netip.Addr, bool) {
	for _, kind := range []v1.NodeAddressType{v1.NodeInternalIP, v1.NodeExternalIP} {
		for _, a := range node.Status.Addresses {
			address, err := netip.ParseAddr(a.Address)
			if err == nil && a.Type == kind && address.Is4() != isIPv6(r.families[0]) {
				return address, true
			}
		}
	}
	return netip.Addr{}, false
}
