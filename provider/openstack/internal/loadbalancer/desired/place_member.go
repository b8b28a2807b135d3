package desired

import (
	"cmp"
	"context"
	"fmt"
	"net/netip"
	"slices"

	"github.com/fxccm/fxccm/provider/openstack/internal/loadbalancer/neutron"
)

// member finds the members' subnet. More than its ID is looked up only for the rules of a security
// group, which hold its CIDR.
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
		// Octavia will choose a subnet of this family for the VIP. The next reconcile reads which
		// one.
		if id, err = r.firstSubnet(ctx, r.places.VIP.NetworkID, r.families[0]); err != nil {
			return err
		}
	}
	if id == "" {
		return fmt.Errorf("%w, because the security group rules contain the nodes' subnet",
			ErrNoNode)
	}
	r.places.Member, err = r.namedSubnet(ctx, id)
	return err
}

// memberSubnet returns "" if no source names the subnet: Octavia then uses the VIP's.
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

// nodeSubnet returns the subnet of a node's address; "" if no node has an address of a port.
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

// findNodeSubnet reads the ports of the first node, which is usually enough, and then those of all
// others together.
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
	if is := r.existing; is != nil && r.prefersOther(firstOf(found)) &&
		slices.Contains(found, is.VIP.SubnetID) {
		return is.VIP.SubnetID, nil
	}
	return firstOf(found), nil
}

// prefersOther reports whether the subnet of the VIP is preferred over this one because a node's
// address has chosen it. So the members keep their subnet when the node that was the first one at
// creation leaves.
func (r *resolver) prefersOther(subnet string) bool {
	return r.existing != nil && !r.namesPlace() && subnet != r.existing.VIP.SubnetID
}

func sameIP(a, b string) bool {
	first, err := netip.ParseAddr(a)
	second, bad := netip.ParseAddr(b)
	return err == nil && bad == nil && first == second
}

func firstOf(subnets []string) string {
	if len(subnets) == 0 {
		return ""
	}
	return subnets[0]
}

// subnetsOf returns the subnets of those of the nodes' addresses that belong to ports, in the order
// of the nodes.
func (r *resolver) subnetsOf(ctx context.Context, nodes []backend) ([]string, error) {
	if len(nodes) == 0 {
		return nil, nil
	}
	var servers []string
	for _, node := range nodes {
		servers = append(servers, node.ServerID)
	}
	addresses, err := r.cloud.ServerAddresses(ctx, servers)
	if err != nil {
		return nil, err
	}
	var subnets []string
	for _, node := range nodes {
		for _, a := range addresses[node.ServerID] {
			if sameIP(a.IP, node.Address) {
				subnets = append(subnets, a.SubnetID)
			}
		}
	}
	return subnets, nil
}

// located returns the possible members that have a server and an address, by name, draining ones
// last. If the selector chooses none of them, it returns all.
func (r *resolver) located() []backend {
	var all, selected []backend
	for _, node := range r.Nodes {
		address, ok := memberAddress(node.Node, r.families[0])
		server := serverID(node.Node)
		if !ok || server == "" {
			continue
		}
		found := backend{
			Backend{Node: node.Name, Address: address, ServerID: server}, node.Draining,
		}
		all = append(all, found)
		if r.Settings.NodeSelector.Matches(node.Labels) {
			selected = append(selected, found)
		}
	}
	if len(selected) == 0 {
		selected = all
	}
	slices.SortFunc(selected, func(a, b backend) int {
		return cmp.Or(compareBools(a.draining, b.draining), cmp.Compare(a.Node, b.Node))
	})
	return selected
}
