package desired

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"

	"github.com/fxccm/fxccm/provider/openstack/internal/events"
	"github.com/fxccm/fxccm/provider/openstack/internal/loadbalancer/neutron"
	"github.com/fxccm/fxccm/provider/openstack/internal/loadbalancer/octavia"
	"github.com/fxccm/fxccm/provider/openstack/internal/loadbalancer/settings"
	"github.com/fxccm/fxccm/provider/openstack/internal/namepattern"
)

// Cloud is the part of neutron.API that this package needs. It caches its answers.
type Cloud interface {
	// Subnet's error wraps neutron.ErrNotFound if the project sees no such subnet.
	Subnet(ctx context.Context, id string) (neutron.Subnet, error)
	// Subnets returns the subnets of a network, the oldest first.
	Subnets(ctx context.Context, networkID string) ([]neutron.Subnet, error)
	// ExternalNetwork returns the default network of floating IPs for ports in a subnet, or in a
	// network if the subnet is ""; or "".
	ExternalNetwork(ctx context.Context, subnetID, networkID string) (string, error)
	// HasRouter reports whether a router has a port in a subnet.
	HasRouter(ctx context.Context, subnetID, routerID string) (bool, error)
	// IsNextHop reports whether packets from a subnet to a range go to a router. Without a range,
	// it reports whether the router is the gateway.
	IsNextHop(ctx context.Context, subnetID, routerID string, to netip.Prefix) (bool, error)
	// IsExternal reports whether a network is external.
	IsExternal(ctx context.Context, networkID string) (bool, error)
	// ServerAddresses returns the fixed addresses of servers by their IDs.
	ServerAddresses(ctx context.Context, serverIDs []string) (map[string][]neutron.Address, error)
}

// ErrNoNode is wrapped by the error of [Resolve] for a load balancer that waits for the first node,
// because only nodes show its place.
var ErrNoNode = errors.New("waiting for the first node with an address in OpenStack")

// UnseenSubnetError is returned by [Resolve] for a subnet that must be looked up, and that Neutron
// does not show to the project.
type UnseenSubnetError struct{ ID string }

// Error implements error.
func (e *UnseenSubnetError) Error() string {
	return "Neutron: subnet " + e.ID + " does not exist, or the project does not see it"
}

// UnroutedPodsError is returned by [Resolve] for pods as members, if the packets of the load
// balancer to them do not go to the router that leads there.
type UnroutedPodsError struct {
	SubnetID, RouterID string
	// Why is what the router lacks in the subnet of the load balancer, as a part of a clause.
	Why string
}

// Error implements error.
func (e *UnroutedPodsError) Error() string {
	return "router " + e.RouterID + ", which has the routes to the pods ([Route] router-id in " +
		"cloud.conf), " + e.Why + " the subnet " + e.SubnetID + " of the load balancer"
}

func impossible(format string, arguments ...any) error {
	return events.Refuse(events.Unsupported, format, arguments...)
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
//  1. the subnet that the settings name for members, or else subnet-id of cloud.conf
//  2. the subnet that they name for the VIP
//  3. the subnet of a node's address: of the first node, by name, that has a port
//  4. the subnet of the VIP
//
// If pods are members, only 4 counts: the router of the VIP's subnet leads to them.
//
// In 3, a load balancer without a named place keeps the subnet of its VIP as long as any node has
// an address in it.
//
// existing is the load balancer that the Service uses, or nil. The error wraps [ErrNoNode], is an
// [*events.Notice], [*UnseenSubnetError] or [*UnroutedPodsError] because the settings do not fit
// the cloud, or is the cloud's.
func Resolve(
	ctx context.Context, cloud Cloud, in Input, existing *octavia.LoadBalancer,
) (Places, []events.Notice, error) {
	r := &resolver{
		decision: decision{Input: in, families: familiesOf(in.Service)},
		existing: existing, cloud: cloud,
	}
	for _, find := range []func(context.Context) error{
		r.vip, r.additionalVIPs, r.routeToPods, r.member, r.additionalMember, r.floatingIP,
	} {
		if err := find(ctx); err != nil {
			return Places{}, nil, err
		}
	}
	return r.places, r.notices, nil
}

// resolver finds places. The families are the Service's, in its order.
type resolver struct {
	decision
	existing *octavia.LoadBalancer
	cloud    Cloud
	places   Places
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

// namesPlace reports whether the settings name the place of the VIP.
func (r *resolver) namesPlace() bool {
	return r.Settings.PortID != "" || r.Settings.SubnetID != "" || r.Settings.NetworkID != ""
}

// vip finds the place of the existing or new load balancer.
func (r *resolver) vip(ctx context.Context) error {
	asked := r.Settings
	switch {
	case r.existing != nil:
		r.places.VIP = octavia.VIP{
			SubnetID:  r.existing.VIP.SubnetID,
			NetworkID: r.existing.VIP.NetworkID,
		}
		return nil
	case asked.PortID != "":
		r.places.VIP = octavia.VIP{PortID: asked.PortID}
		return nil
	case r.namesPlace():
		r.places.VIP = octavia.VIP{SubnetID: asked.SubnetID, NetworkID: asked.NetworkID}
		return r.subnetOfNetwork(ctx)
	}
	subnet, err := r.nodeSubnet(ctx)
	if err != nil {
		return err
	}
	if subnet == "" {
		return fmt.Errorf("%w, because neither a subnet nor a network is configured", ErrNoNode)
	}
	r.places.VIP = octavia.VIP{SubnetID: subnet}
	return nil
}

// routeToPods checks that the packets of each VIP that forwards to pods go to the router of the
// pods. The subnet is unknown before the creation if only its network or a port is named.
func (r *resolver) routeToPods(ctx context.Context) error {
	if r.Pods == nil || r.Pods.RouterID == "" {
		return nil
	}
	vips := []octavia.VIP{r.places.VIP}
	if r.Features.MembersOfEachFamily {
		vips = append(vips, r.places.AdditionalVIPs...)
	}
	for _, vip := range vips {
		if vip.SubnetID == "" {
			continue
		}
		if err := r.routeFrom(ctx, vip.SubnetID); err != nil {
			return err
		}
	}
	return nil
}

// routeFrom checks that the router of the pods has a port in a subnet, and that packets from there
// go to it. A load balancer that keeps the client's address sends none of its own: the router to
// which the driver attaches it forwards those of clients, and that is the gateway
// (ovn_octavia_provider/helper.py, _find_lr_of_ls).
func (r *resolver) routeFrom(ctx context.Context, subnetID string) error {
	unrouted := &UnroutedPodsError{SubnetID: subnetID, RouterID: r.Pods.RouterID}
	has, err := r.cloud.HasRouter(ctx, subnetID, r.Pods.RouterID)
	switch {
	case err != nil:
		return err
	case !has:
		unrouted.Why = "has no port in"
		return unrouted
	case r.Features.KeepsClientAddress:
		is, err := r.cloud.IsNextHop(ctx, subnetID, r.Pods.RouterID, netip.Prefix{})
		if err != nil || is {
			return err
		}
		unrouted.Why = "is not the gateway of"
		return unrouted
	}
	for _, pods := range r.Pods.Ranges {
		if familyOf(pods.Addr()) != r.family() {
			continue
		}
		takes, err := r.cloud.IsNextHop(ctx, subnetID, r.Pods.RouterID, pods)
		if err != nil {
			return err
		}
		if !takes {
			unrouted.Why = "is not the next hop to " + pods.String() + " in"
			return unrouted
		}
	}
	return nil
}

// subnetOfNetwork chooses an IPv6 subnet in a network that is named without a subnet, because
// Octavia would prefer an IPv4 one (octavia/api/v2/controllers/load_balancer.py). A requested
// address determines its subnet.
func (r *resolver) subnetOfNetwork(ctx context.Context) error {
	vip := &r.places.VIP
	if vip.SubnetID != "" || !isIPv6(r.family()) || r.Settings.Address != "" {
		return nil
	}
	subnet, err := r.firstSubnet(ctx, vip.NetworkID, v1.IPv6Protocol)
	if err == nil && subnet == "" {
		err = impossible("the Service is IPv6, but the configured network %s has no IPv6 subnet; "+
			"add one, or name another network",
			vip.NetworkID)
	}
	vip.SubnetID = subnet
	return err
}

// firstSubnet returns the ID of the subnet of a family in a network that has an address of a node,
// or of the oldest one, or "". IDs are random, so their order does not count.
func (r *resolver) firstSubnet(
	ctx context.Context, networkID string, family v1.IPFamily,
) (string, error) {
	all, err := r.cloud.Subnets(ctx, networkID)
	if err != nil {
		return "", err
	}
	oldest := ""
	for _, subnet := range all {
		switch {
		case subnet.IPv6 != isIPv6(family):
		case r.hasNodeIn(subnet, family):
			return subnet.ID, nil
		default:
			oldest = cmp.Or(oldest, subnet.ID)
		}
	}
	return oldest, nil
}

// hasNodeIn reports whether an address of a node is in the range of a subnet.
func (r *resolver) hasNodeIn(subnet neutron.Subnet, family v1.IPFamily) bool {
	within, err := netip.ParsePrefix(subnet.CIDR)
	isWithin := func(text string) bool {
		address, err := netip.ParseAddr(text)
		return err == nil && within.Contains(address)
	}
	return err == nil && slices.ContainsFunc(r.Nodes, func(node Node) bool {
		return node.Node != nil && node.Holder == "" &&
			slices.ContainsFunc(reachableAddresses(node.Node, family), isWithin)
	})
}

// additionalVIPs finds the subnet for the second family of the Service. Octavia adds such a VIP
// only at creation.
func (r *resolver) additionalVIPs(ctx context.Context) error {
	if len(r.families) < 2 || !r.Features.AdditionalVIPs {
		return nil
	}
	if r.existing != nil && !r.replacesAdditionalVIP() {
		r.places.AdditionalVIPs = r.existingVIPs()
		return nil
	}
	subnet, why := r.Settings.AdditionalSubnetID, r.whyUnserved()
	switch {
	case why != "":
		subnet = ""
	case subnet == "":
		var err error
		if subnet, why, err = r.secondSubnet(ctx); err != nil {
			return err
		}
	}
	policy, asked := r.Service.Spec.IPFamilyPolicy, r.Settings.AdditionalAddress
	switch {
	case subnet != "":
		r.places.AdditionalVIPs = []octavia.VIP{{SubnetID: subnet}}
	case r.existing != nil:
		// The address counts only at creation.
		r.places.AdditionalVIPs = r.existing.AdditionalVIPs
		r.places.KeepsAdditionalVIPs = true
		r.warn(events.Unsupported, fmt.Sprintf("%s requests %s, but the load balancer keeps its "+
			"addresses: %s", settings.AddressSource(r.Service, asked), asked, why))
	case asked != "":
		return impossible("%s requests %s, but %s", settings.AddressSource(r.Service, asked), asked,
			why)
	case policy != nil && *policy == v1.IPFamilyPolicyRequireDualStack:
		return impossible("the Service requires dual stack, but %s", why)
	default:
		r.note(events.SingleStack, fmt.Sprintf("only %s is served: %s", r.family(), why))
	}
	return nil
}

// whyUnserved returns as a clause why a VIP of the second family would have no members; "" if it
// may have some. All addresses of a node come at once, so nodes without any are not known yet.
func (r *resolver) whyUnserved() string {
	family := r.families[1]
	switch {
	case !r.Features.MembersOfEachFamily:
	case r.Pods != nil && !r.Pods.ReachedIn(family):
		return fmt.Sprintf("no range of pods of %s is known", family)
	case r.Pods == nil && r.hasNodeOf(r.family()) && !r.hasNodeOf(family):
		return fmt.Sprintf("no node has an %s address", family)
	}
	return ""
}

// hasNodeOf reports whether a node has an address of a family.
func (r *resolver) hasNodeOf(family v1.IPFamily) bool {
	return slices.ContainsFunc(r.Nodes, func(node Node) bool {
		return node.Node != nil && node.Holder == "" &&
			len(reachableAddresses(node.Node, family)) > 0
	})
}

// replacesAdditionalVIP reports whether a recreation gives the load balancer the requested address
// of the second family, which it does not have.
func (r *resolver) replacesAdditionalVIP() bool {
	asked := r.Settings.AdditionalAddress
	return asked != "" && r.Settings.Recreate && !r.Guest &&
		!slices.ContainsFunc(r.existing.AdditionalVIPs,
			func(vip octavia.VIP) bool { return SameAddress(vip.Address, asked) })
}

// existingVIPs returns the VIPs of the load balancer or, because an update may change it, the named
// one.
func (r *resolver) existingVIPs() []octavia.VIP {
	has := r.existing.AdditionalVIPs
	named := r.Settings.AdditionalSubnetID
	if named != "" && !r.Guest && (len(has) > 0 || r.Settings.Recreate) {
		return []octavia.VIP{{SubnetID: named}}
	}
	return has
}

// secondSubnet returns a subnet of the second family in the VIP's network, or "" and the reason as
// a clause.
func (r *resolver) secondSubnet(ctx context.Context) (subnet, why string, err error) {
	network := r.places.VIP.NetworkID
	if network == "" && r.places.VIP.SubnetID != "" {
		first, err := r.namedSubnet(ctx, r.places.VIP.SubnetID)
		if err != nil {
			return "", "", err
		}
		network = first.NetworkID
	}
	if network == "" {
		return "",
			"the subnet of the second address is unknown; name one by additional-subnet-id", nil
	}
	if asked := r.Settings.AdditionalAddress; asked != "" {
		subnet, err = r.subnetWith(ctx, network, asked)
		return subnet, fmt.Sprintf("no subnet of network %s that the project sees contains it; "+
			"name one by additional-subnet-id", network), err
	}
	subnet, err = r.firstSubnet(ctx, network, r.families[1])
	return subnet,
		fmt.Sprintf("network %s of the load balancer has no %s subnet; add one, or name one by "+
			"additional-subnet-id", network, r.families[1]), err
}

// subnetWith returns the ID of the subnet of a network that contains an address, or "".
func (r *resolver) subnetWith(ctx context.Context, networkID, address string) (string, error) {
	all, err := r.cloud.Subnets(ctx, networkID)
	if err != nil {
		return "", err
	}
	wanted, err := netip.ParseAddr(address)
	if err != nil {
		return "", fmt.Errorf("address of the second family: %w", err)
	}
	for _, subnet := range all {
		if cidr, err := netip.ParsePrefix(subnet.CIDR); err == nil && cidr.Contains(wanted) {
			return subnet.ID, nil
		}
	}
	return "", nil
}

// namedSubnet returns a subnet that must exist.
func (r *resolver) namedSubnet(ctx context.Context, id string) (neutron.Subnet, error) {
	subnet, err := r.cloud.Subnet(ctx, id)
	if errors.Is(err, neutron.ErrNotFound) {
		return neutron.Subnet{}, &UnseenSubnetError{id}
	}
	return subnet, err
}

// member finds the members' subnet. More than its ID is looked up only for the rules of a security
// group, which hold its CIDR, and for nodes with several addresses.
func (r *resolver) member(ctx context.Context) error {
	id, err := r.memberSubnet(ctx)
	if err != nil {
		return err
	}
	place := &r.places.Member
	if place.Range, err = r.memberRange(ctx, id, r.family()); err != nil {
		return err
	}
	if !r.Settings.ManageSecurityGroups {
		place.ID = id
		return nil
	}
	if network := r.vipNetwork(); id == "" && network != "" {
		// Octavia will choose a subnet of this family for the VIP, or the named port is in one. The
		// next reconcile reads which one.
		if id, err = r.firstSubnet(ctx, network, r.family()); err != nil {
			return err
		}
	}
	if id == "" {
		return fmt.Errorf("%w, because the security group rules contain the nodes' subnet",
			ErrNoNode)
	}
	place.Subnet, err = r.namedSubnet(ctx, id)
	return err
}

// additionalMember finds the subnet of the members of the second family: that of a node's address,
// else that of the VIP. The settings name one for the first family alone.
func (r *resolver) additionalMember(ctx context.Context) error {
	if !r.Features.MembersOfEachFamily || len(r.places.AdditionalVIPs) == 0 {
		return nil
	}
	family, id := r.families[1], r.places.AdditionalVIPs[0].SubnetID
	if r.Pods == nil {
		subnet, err := r.findNodeSubnet(ctx, family, id)
		if err != nil {
			return err
		}
		id = cmp.Or(subnet, id)
	}
	place := &r.places.AdditionalMember
	var err error
	if place.Range, err = r.memberRange(ctx, id, family); err != nil {
		return err
	}
	place.ID = id
	if r.Settings.ManageSecurityGroups {
		place.Subnet, err = r.namedSubnet(ctx, id)
	}
	return err
}

// memberRange finds the range that chooses among the addresses of a node. A subnet that is named
// for the VIP alone does not choose: members that OCCM created, which are of the first family, may
// be elsewhere, and would move.
func (r *resolver) memberRange(
	ctx context.Context, subnetID string, family v1.IPFamily,
) (netip.Prefix, error) {
	isOfVIP := family == r.family() && r.Settings.SubnetID != "" &&
		r.Settings.MemberSubnetID == "" && r.namedMemberSubnet() == r.Settings.SubnetID
	if subnetID == "" || isOfVIP || !slices.ContainsFunc(r.Nodes, func(node Node) bool {
		return node.Node != nil && len(reachableAddresses(node.Node, family)) > 1
	}) {
		return netip.Prefix{}, nil
	}
	subnet, err := r.cloud.Subnet(ctx, subnetID)
	if errors.Is(err, neutron.ErrNotFound) {
		return netip.Prefix{}, nil // It may be another project's. Octavia decides.
	}
	if err != nil {
		return netip.Prefix{}, err
	}
	// Without a CIDR no address precedes.
	cidr, _ := netip.ParsePrefix(subnet.CIDR)
	return cidr, nil
}

// namedMemberSubnet returns "" if the settings name no subnet.
func (r *resolver) namedMemberSubnet() string {
	return cmp.Or(r.Settings.MemberSubnetID, r.Settings.DefaultMemberSubnetID, r.Settings.SubnetID)
}

// memberSubnet returns "" if no source names the subnet: Octavia then uses the VIP's.
func (r *resolver) memberSubnet(ctx context.Context) (string, error) {
	if r.Pods != nil {
		return r.places.VIP.SubnetID, nil
	}
	if named := r.namedMemberSubnet(); named != "" {
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
		vip := ""
		if r.existing != nil {
			vip = r.existing.VIP.SubnetID
		}
		subnet, err := r.findNodeSubnet(ctx, r.family(), vip)
		if err != nil {
			return "", err
		}
		r.byNode = &subnet
	}
	return *r.byNode, nil
}

// findNodeSubnet reads the ports of the first node, which is usually enough, and then those of all
// others together. vip is the subnet of the load balancer's address in the family.
func (r *resolver) findNodeSubnet(
	ctx context.Context, family v1.IPFamily, vip string,
) (string, error) {
	nodes := r.located(family)
	first := min(len(nodes), 1)
	found, err := r.subnetsOf(ctx, nodes[:first])
	if err != nil || len(found) > 0 && !r.prefersOther(found[0], vip) {
		return firstOf(found), err
	}
	others, err := r.subnetsOf(ctx, nodes[first:])
	if err != nil {
		return "", err
	}
	found = append(found, others...)
	if r.prefersOther(firstOf(found), vip) && slices.Contains(found, vip) {
		return vip, nil
	}
	return firstOf(found), nil
}

// prefersOther reports whether the subnet of the VIP is preferred over this one because a node's
// address has chosen it. So the members keep their subnet when the node that was the first one at
// creation leaves.
func (r *resolver) prefersOther(subnet, vip string) bool {
	return r.existing != nil && !r.namesPlace() && subnet != vip
}

func firstOf(subnets []string) string {
	if len(subnets) == 0 {
		return ""
	}
	return subnets[0]
}

// subnetsOf returns the subnets of those of the nodes' addresses that belong to ports, in the order
// of the nodes.
func (r *resolver) subnetsOf(ctx context.Context, nodes []Backend) ([]string, error) {
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
			if SameAddress(a.IP, node.Address) {
				subnets = append(subnets, a.SubnetID)
			}
		}
	}
	return subnets, nil
}

// located returns the possible members that have a server and an address of a family, by name,
// draining ones last. If the selector chooses none of them, it returns all.
func (r *resolver) located(family v1.IPFamily) []Backend {
	var all, selected []Backend
	for _, node := range r.Nodes {
		address, ok := memberAddress(node.Node, family, netip.Prefix{})
		server := serverID(node.Node)
		if !ok || server == "" || node.Holder != "" {
			continue
		}
		found := Backend{
			Node: node.Name, Draining: node.Draining, Address: address, ServerID: server,
		}
		all = append(all, found)
		if r.Settings.NodeSelector.Matches(node.Labels) {
			selected = append(selected, found)
		}
	}
	if len(selected) == 0 {
		selected = all
	}
	slices.SortFunc(selected, func(a, b Backend) int {
		return cmp.Or(compareBools(a.Draining, b.Draining), cmp.Compare(a.Node, b.Node))
	})
	return selected
}

// floatingIP finds the place of a new floating IP, if the Service is external and IPv4 and has
// none. Neutron refuses a floating IP for a port in an external network, unless a router leads from
// there to another one; a floating IP that is attached stays.
func (r *resolver) floatingIP(ctx context.Context) (err error) {
	if r.Settings.Internal || r.Guest || r.IsFloatingIPAttached || isIPv6(r.family()) {
		return nil
	}
	r.places.IsPublic, err = r.isPublic(ctx)
	if err != nil || r.places.IsPublic || r.HasFloatingIP {
		return err
	}
	if r.Settings.FloatingSubnetID != "" {
		return r.floatingSubnet(ctx)
	}
	network := r.Settings.FloatingNetworkID
	if network == "" {
		if network, err = r.externalNetwork(ctx); err != nil {
			return err
		}
	}
	r.places.FloatingNetworkID = network
	// Neutron derives the subnet from a requested address.
	if network == "" || r.Settings.Address != "" {
		return nil
	}
	return r.floatingSubnets(ctx)
}

// vipNetwork returns the network of the VIP, or "" if only its subnet is known.
func (r *resolver) vipNetwork() string {
	return cmp.Or(r.places.VIP.NetworkID, r.PortNetworkID)
}

// isPublic reports whether the VIP is in an external network.
func (r *resolver) isPublic(ctx context.Context) (bool, error) {
	network := r.vipNetwork()
	if network == "" && r.places.VIP.SubnetID != "" {
		subnet, err := r.cloud.Subnet(ctx, r.places.VIP.SubnetID)
		if errors.Is(err, neutron.ErrNotFound) {
			return false, nil // The load balancer will show the network.
		}
		if err != nil {
			return false, err
		}
		network = subnet.NetworkID
	}
	if network == "" {
		return false, nil
	}
	return r.cloud.IsExternal(ctx, network)
}

func (r *resolver) externalNetwork(ctx context.Context) (string, error) {
	return r.cloud.ExternalNetwork(ctx, cmp.Or(r.places.VIP.SubnetID, r.PortSubnetID),
		r.vipNetwork())
}

// floatingSubnet looks up the named subnet. The subnet determines its network, if Neutron shows it:
// Neutron shows the subnets of an external network only to its owner, to administrators and to the
// projects it is shared with, but creates floating IPs in them for all projects.
func (r *resolver) floatingSubnet(ctx context.Context) error {
	named := r.Settings.FloatingNetworkID
	subnet, err := r.cloud.Subnet(ctx, r.Settings.FloatingSubnetID)
	switch {
	case errors.Is(err, neutron.ErrNotFound):
		return r.unseenFloatingSubnet(ctx)
	case err != nil:
		return err
	case named != "" && named != subnet.NetworkID:
		return impossible(
			"floating subnet %s is in network %s, not in the configured floating network %s; correct one of them",
			subnet.ID, subnet.NetworkID, named)
	case subnet.IPv6:
		return impossible("floating subnet %s is an IPv6 subnet, but floating IPs are IPv4; name an "+
			"IPv4 subnet", subnet.ID)
	}
	r.places.FloatingNetworkID, r.places.FloatingSubnetIDs = subnet.NetworkID, []string{subnet.ID}
	return nil
}

// unseenFloatingSubnet assumes that a named subnet belongs to the external network. If not, Neutron
// refuses it.
func (r *resolver) unseenFloatingSubnet(ctx context.Context) (err error) {
	network := r.Settings.FloatingNetworkID
	if network == "" {
		if network, err = r.externalNetwork(ctx); err != nil {
			return err
		}
	}
	if network == "" {
		return impossible(
			"floating subnet %s is not visible to the project, and there is no external network; "+
				"correct it, or set floating-network-id",
			r.Settings.FloatingSubnetID)
	}
	r.places.FloatingNetworkID, r.places.FloatingSubnetIDs = network,
		[]string{r.Settings.FloatingSubnetID}
	return nil
}

// floatingSubnets returns the subnets of the network that the pattern and the tags choose.
func (r *resolver) floatingSubnets(ctx context.Context) error {
	pattern, tags := r.Settings.FloatingSubnet, r.Settings.FloatingSubnetTags
	if pattern == "" && tags == "" {
		return nil
	}
	fits, err := subnetFilter(pattern, tags)
	if err != nil {
		return impossible("%v", err)
	}
	all, err := r.cloud.Subnets(ctx, r.places.FloatingNetworkID)
	if err != nil {
		return err
	}
	for _, subnet := range all {
		if !subnet.IPv6 && fits(subnet) {
			r.places.FloatingSubnetIDs = append(r.places.FloatingSubnetIDs, subnet.ID)
		}
	}
	if len(r.places.FloatingSubnetIDs) == 0 {
		return impossible(
			"none of the %[2]d IPv4 subnets of network %[1]s visible to the project has %[3]s; correct that, or name a subnet of another project by floating-subnet-id",
			r.places.FloatingNetworkID, len(all), asked(pattern, tags))
	}
	return nil
}

func asked(pattern, tags string) string {
	var all []string
	if pattern != "" {
		all = append(all, fmt.Sprintf("a name matching floating-subnet %q", pattern))
	}
	if tags != "" {
		all = append(all, fmt.Sprintf("tags matching floating-subnet-tags %q", tags))
	}
	return strings.Join(all, " and ")
}

// subnetFilter matches subnets by name and tags; an empty argument matches all.
func subnetFilter(pattern, tags string) (func(neutron.Subnet) bool, error) {
	hasName := func(string) bool { return true }
	if pattern != "" {
		var err error
		if hasName, err = namepattern.Compile(pattern); err != nil {
			return nil, err
		}
	}
	hasTags := func([]string) bool { return true }
	if tags != "" {
		hasTags = tagFilter(tags)
	}
	return func(s neutron.Subnet) bool { return hasName(s.Name) && hasTags(s.Tags) }, nil
}

// tagFilter parses floating-subnet-tags, a list of tags with commas between them. A subnet must
// have one of them or, after "&", all; "!" before both negates. So "!a,b" selects subnets that have
// neither, and "!&a,b" subnets that lack at least one. OCCM documents it so, but confuses the two
// in its queries to Neutron.
func tagFilter(text string) func([]string) bool {
	rest, negated := strings.CutPrefix(text, "!")
	rest, all := strings.CutPrefix(rest, "&")
	var wanted []string
	for tag := range strings.SplitSeq(rest, ",") {
		wanted = append(wanted, strings.TrimSpace(tag))
	}
	return func(tags []string) bool {
		has := func(tag string) bool { return slices.Contains(tags, tag) }
		fits := slices.ContainsFunc(wanted, has)
		if all {
			fits = !slices.ContainsFunc(wanted, func(tag string) bool { return !has(tag) })
		}
		return fits != negated
	}
}
