package desired

import (
	"cmp"
	"net/netip"
	"slices"
	"strconv"
	"strings"

	v1 "k8s.io/api/core/v1"

	"github.com/fxccm/fxccm/internal/members"
	"github.com/fxccm/fxccm/internal/reserved"
	"github.com/fxccm/fxccm/provider/openstack/internal/events"
	"github.com/fxccm/fxccm/provider/openstack/internal/instances"
	"github.com/fxccm/fxccm/provider/openstack/internal/loadbalancer/octavia"
)

// backends returns the backends, sorted by node. A node needs an address of one of the members'
// families.
func (b *builder) backends() []Backend {
	if b.Pods != nil {
		return b.hostBackends()
	}
	if b.sayIfClosed() {
		return nil
	}
	selected := b.selected()
	var found []Backend
	isNotReady := map[string]bool{}
	for _, node := range selected {
		for _, backend := range b.backendsOf(node) {
			found = append(found, backend)
			isNotReady[node.Name] = !node.Draining && members.IsNotReady(node.Node)
		}
	}
	found = b.withoutDoubles(found)
	b.warnNotReady(found, isNotReady)
	b.sayIfNone(selected, found)
	return found
}

// sayIfClosed names the ports without a node port, and reports whether no port has one.
func (b *builder) sayIfClosed() bool {
	var closed []string
	for _, port := range b.Service.Spec.Ports {
		if b.nodePort(port) == 0 {
			closed = append(closed, portName(port))
		}
	}
	if len(closed) > 0 {
		b.warn(events.WithoutMembers, "the load balancer has no members for port "+
			strings.Join(closed, ", ")+", because the Service has no node port for it; allocate "+
			"node ports, or set member-target to pod")
	}
	return len(closed) == len(b.Service.Spec.Ports)
}

// selected returns the nodes that the Service's node selector chooses.
func (b *builder) selected() []Node {
	var selected []Node
	for _, node := range b.Nodes {
		switch {
		case node.Node == nil || !b.Settings.NodeSelector.Matches(node.Labels):
		case node.Holder != "":
			if !node.Draining {
				b.warn(events.NodeIDTaken, "node "+node.Name+" is not a member: node "+node.Holder+
					" has the same provider ID; delete the Node that does not run on the "+
					"server")
			}
		default:
			if len(node.Foreign) > 0 && !node.Draining {
				foreign := events.Shorten(strings.Join(node.Foreign, ", "))
				b.warn(events.NodeAddressForeign, "node "+node.Name+" reports "+foreign+
					", which its server does not have; no member gets such an address")
			}
			selected = append(selected, node)
		}
	}
	return selected
}

// backendsOf returns a backend for each family of the members of which the node has an address. A
// draining node is a member of weight 0, or none if the provider has no weights; its connections
// drain either way.
func (b *builder) backendsOf(node Node) (found []Backend) {
	for _, family := range b.nodeFamilies() {
		place := b.memberPlace(family)
		if address, ok := memberAddress(node.Node, family, place.Range); ok {
			found = append(found, Backend{
				Node: node.Name, Draining: node.Draining,
				Unverified: node.Unverified, Unplaced: node.Unplaced,
				Address: address, SubnetID: place.ID, ServerID: serverID(node.Node),
			})
		}
	}
	return found
}

// nodeFamilies returns the families of the nodes' addresses that are members; "" for any, if the
// Service names no family.
func (b *builder) nodeFamilies() []v1.IPFamily {
	if len(b.Service.Spec.IPFamilies) == 0 {
		return []v1.IPFamily{""}
	}
	return b.memberFamilies()
}

// memberFamilies returns the families of the members. One is enough for a load balancer that
// translates between them.
func (b *builder) memberFamilies() []v1.IPFamily {
	if b.Features.MembersOfEachFamily {
		return b.families
	}
	return b.families[:1]
}

// memberPlace returns the place of the members of a family.
func (b *builder) memberPlace(family v1.IPFamily) MemberPlace {
	if family == "" || family == b.family() {
		return b.Places.Member
	}
	return b.Places.AdditionalMember
}

// memberAddress returns the address at which a node receives traffic: the first in the range of the
// members' subnet, else the first of all.
func memberAddress(
	node *v1.Node, family v1.IPFamily, subnet netip.Prefix,
) (string, bool) {
	all := reachableAddresses(node, family)
	if len(all) == 0 {
		return "", false
	}
	inSubnet := slices.IndexFunc(all, func(text string) bool {
		address, err := netip.ParseAddr(text)
		return err == nil && subnet.Contains(address)
	})
	return all[max(inSubnet, 0)], true
}

// reachableAddresses returns the InternalIPs of the family, followed by the ExternalIPs. A node
// reports its addresses itself, so those that lead to the load balancer's own host or to a metadata
// service do not count.
func reachableAddresses(node *v1.Node, family v1.IPFamily) []string {
	return append(reachableOfKind(node, family, v1.NodeInternalIP),
		reachableOfKind(node, family, v1.NodeExternalIP)...)
}

func reachableOfKind(node *v1.Node, family v1.IPFamily, kind v1.NodeAddressType) (all []string) {
	for _, a := range node.Status.Addresses {
		address, err := netip.ParseAddr(a.Address)
		if err == nil && a.Type == kind && isReachable(address) &&
			(family == "" || familyOf(address) == family) {
			all = append(all, a.Address)
		}
	}
	return all
}

func isReachable(address netip.Addr) bool {
	return address.Zone() == "" && !reserved.Has(address)
}

// serverID is empty if the node has no provider ID yet, or one of another cloud.
func serverID(node *v1.Node) string {
	id, err := instances.ParseProviderID(node.Spec.ProviderID)
	if err != nil {
		return ""
	}
	return id.ID
}

// withoutDoubles keeps one backend for each address, because Octavia refuses two members with the
// same address and port. A node whose server has the address precedes others, and a node that stays
// precedes a draining one, for example after a server was replaced; otherwise the first by name is
// kept. Networks of two regions may have the same range, so a node that may be in another one takes
// no other node's place.
func (b *builder) withoutDoubles(all []Backend) []Backend {
	slices.SortFunc(all, func(x, y Backend) int {
		return cmp.Or(compareBools(x.Unverified, y.Unverified),
			compareBools(x.Unplaced, y.Unplaced), compareBools(x.Draining, y.Draining),
			cmp.Compare(x.Node, y.Node), cmp.Compare(x.Address, y.Address))
	})
	has := map[netip.Addr]Backend{}
	var kept []Backend
	for _, each := range all {
		// The address was validated before.
		address, _ := netip.ParseAddr(each.Address)
		first, taken := has[address]
		switch {
		case !taken:
			has[address] = each
			kept = append(kept, each)
		case each.Unplaced && first.Unverified:
			kept = append(kept, each)
		case !each.Draining && !each.Unplaced:
			b.warn(events.NodesShareAddress,
				"nodes "+first.Node+" and "+each.Node+" have the same address "+each.Address+
					", so only the first is a member; correct the addresses of the nodes")
		}
	}
	slices.SortFunc(kept, func(x, y Backend) int {
		return cmp.Or(cmp.Compare(x.Node, y.Node), cmp.Compare(x.Address, y.Address))
	})
	return kept
}

func compareBools(x, y bool) int {
	switch {
	case x == y:
		return 0
	case y:
		return -1
	}
	return 1
}

// sayIfNone warns if an address of the load balancer has no active members.
func (b *builder) sayIfNone(selected []Node, found []Backend) {
	families := b.nodeFamilies()
	unserved := slices.IndexFunc(families, func(family v1.IPFamily) bool {
		return !slices.ContainsFunc(found, func(each Backend) bool {
			// The address was validated before.
			address, _ := netip.ParseAddr(each.Address)
			return !each.Draining && (family == "" || familyOf(address) == family)
		})
	})
	switch {
	case unserved < 0 || len(b.Nodes) == 0:
	case len(selected) == 0:
		b.warn(events.WithoutMembers,
			"the load balancer has no members: no node matches node-selector "+
				strconv.Quote(b.Settings.NodeSelector.String())+"; correct it, or label nodes")
	case !slices.ContainsFunc(selected, func(node Node) bool { return !node.Draining }):
		b.warn(events.WithoutMembers,
			"the load balancer has no active members: all nodes are shut down or being removed; "+
				"add nodes")
	default:
		family := string(cmp.Or(families[unserved], b.family()))
		b.warn(events.WithoutMembers, "the load balancer has no active "+family+
			" members: no node has an "+family+" address; add one with it")
	}
}

// warnNotReady names the setting that keeps connections from members that do not answer. The text
// is the same for all nodes, so that a reboot of many does not lead to an event for each. With
// externalTrafficPolicy: Local, the Service has a warning that names the setting already.
func (b *builder) warnNotReady(all []Backend, isNotReady map[string]bool) {
	if b.Settings.Monitor || b.isLocal() ||
		!slices.ContainsFunc(all, func(each Backend) bool { return isNotReady[each.Node] }) {
		return
	}
	b.warn(events.NodesNotReady, "nodes are not ready but may get new connections, because the "+
		"members have no health monitor; annotate the Service with "+
		"loadbalancer.openstack.org/enable-health-monitor: \"true\", or set create-monitor in "+
		"cloud.conf")
}

// nodePort returns the port at which nodes get the traffic of a port of the Service; 0 for none
// (allocateLoadBalancerNodePorts: false).
func (b *builder) nodePort(port v1.ServicePort) int {
	if port.NodePort == 0 && b.Settings.NeedsNoNodePorts {
		return int(port.Port)
	}
	return int(port.NodePort)
}

// members returns the pods, or the backends, at a port.
func (b *builder) members(port v1.ServicePort, backends []Backend) []octavia.Member {
	switch {
	case b.Pods != nil:
		return b.pods(port)
	case b.nodePort(port) == 0:
		return nil
	}
	members := make([]octavia.Member, 0, len(backends))
	for _, each := range backends {
		if each.Draining && !b.Features.Weights {
			continue
		}
		if each.Unverified {
			b.addUnverified(each.Address, each.Node)
		}
		m := octavia.Member{
			Name:     each.Node,
			Address:  each.Address,
			Port:     b.nodePort(port),
			SubnetID: each.SubnetID,
			Weight:   1,
		}
		if b.Features.Serial {
			m.Name = MemberName(each.Node, m.Address, m.Port)
		}
		if each.Draining {
			m.Weight = 0
		}
		if b.asksKubeProxy(port) {
			m.MonitorPort = int(b.Service.Spec.HealthCheckNodePort)
		}
		members = append(members, m)
	}
	return members
}

// Node is a node that may be a member.
type Node struct {
	*v1.Node
	// Draining: the node is about to be removed, or its instance is shut down. It gets no new
	// connections.
	Draining bool
	// Holder is an older node with the same provider ID; "" for none. A node writes its provider ID
	// itself, so a younger one may claim the server of another.
	Holder string
	// Foreign are addresses that the node reports but its server does not have. They are not in the
	// node's status here.
	Foreign []string
	// Unverified: the server of the node is unknown, and so which of its addresses it has.
	Unverified bool
	// Unplaced: the region of the node is unknown, too, and so whether the load balancer reaches
	// it.
	Unplaced bool
}

// Candidates returns the nodes that may be members: those of the service controller, ready or not,
// and, as draining, those that it leaves out because they are about to be removed or shut down.
// The region of the unplaced ones is unknown. removalTaints are further keys of taints that
// announce a removal. addresses are those of the nodes' servers by the names of the nodes, as far
// as they are known; nil: each node whose region is known has what it reports.
func Candidates(
	nodes, unplaced []*v1.Node, removalTaints []string, addresses map[string][]v1.NodeAddress,
) []Node {
	all := slices.Concat(nodes, unplaced)
	isLeaving := func(node *v1.Node) bool { return members.IsLeaving(node, removalTaints...) }
	// A node holds a server rather than another one if it stays, else if it is older.
	isBefore := func(a, b *v1.Node) bool {
		return cmp.Or(compareBools(isLeaving(a), isLeaving(b)),
			a.CreationTimestamp.Compare(b.CreationTimestamp.Time), cmp.Compare(a.Name, b.Name)) < 0
	}
	holders := map[string]*v1.Node{}
	for _, node := range all {
		id := serverID(node)
		if holder := holders[id]; id != "" && (holder == nil || isBefore(node, holder)) {
			holders[id] = node
		}
	}
	var candidates []Node
	for i, node := range all {
		if !members.IsCandidate(node) {
			continue
		}
		candidate := Node{
			Node: node, Draining: isLeaving(node) || members.IsShutDown(node),
		}
		if own, known := addresses[node.Name]; known {
			candidate.Node, candidate.Foreign = withoutForeign(node, own)
		} else {
			candidate.Unplaced = i >= len(nodes)
			candidate.Unverified = addresses != nil || candidate.Unplaced
		}
		if holder := holders[serverID(node)]; holder != nil && holder.Name != node.Name {
			candidate.Holder = holder.Name
		}
		candidates = append(candidates, candidate)
	}
	return candidates
}

// HasAddress reports whether one of the addresses is this one.
func HasAddress(all []v1.NodeAddress, address string) bool {
	return slices.ContainsFunc(all,
		func(a v1.NodeAddress) bool { return SameAddress(a.Address, address) })
}

// addressSet is [HasAddress] for many comparisons.
func addressSet(all []v1.NodeAddress) (has func(address string) bool) {
	parsed, others := make(map[netip.Addr]bool, len(all)), map[string]bool{}
	for _, a := range all {
		if address, err := netip.ParseAddr(a.Address); err == nil {
			parsed[address] = true
		} else {
			others[a.Address] = true
		}
	}
	return func(text string) bool {
		address, err := netip.ParseAddr(text)
		return err == nil && parsed[address] || err != nil && others[text]
	}
}

// withoutForeign returns the node without the addresses that its server does not have. It copies a
// node that has such addresses.
func withoutForeign(node *v1.Node, server []v1.NodeAddress) (own *v1.Node, foreign []string) {
	has := addressSet(server)
	isForeign := func(a v1.NodeAddress) bool {
		isIP := a.Type == v1.NodeInternalIP || a.Type == v1.NodeExternalIP
		return isIP && !has(a.Address)
	}
	if !slices.ContainsFunc(node.Status.Addresses, isForeign) {
		return node, nil
	}
	own = node.DeepCopy()
	own.Status.Addresses = slices.DeleteFunc(own.Status.Addresses, func(a v1.NodeAddress) bool {
		is := isForeign(a)
		if is {
			foreign = append(foreign, a.Address)
		}
		return is
	})
	return own, foreign
}
