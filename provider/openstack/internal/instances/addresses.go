package instances

import (
	"bytes"
	"cmp"
	"context"
	"maps"
	"net"
	"slices"
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/fxccm/fxccm/provider/kit/batch"
	"github.com/fxccm/fxccm/provider/openstack/cloudconf"
)

// metadataHostname is the key of the hostname in a server's metadata.
const metadataHostname = "hostname"

// nodeAddresses are a node's addresses in the order of OCCM, because kubelets and users take the
// first of a type:
//
//  1. fixed addresses of ACTIVE ports, in the order of the ports: InternalIP
//  2. accessIPv4 and accessIPv6: ExternalIP
//  3. the hostname in the server's metadata: Hostname
//  4. addresses of the server and of its trunks' subports, sorted by network name: floating IPs and
//     addresses in a public network ExternalIP, addresses in an internal network InternalIP
//
// An address in a public network is not internal, too. If internal networks are configured,
// addresses in other networks are omitted, and the InternalIPs have the order of these networks.
// Addresses that the node has keep their order, before new ones, so that a new port does not move
// the node. Finally, addresses are sorted by [cloudconf.Networking.AddressSortOrder].
func nodeAddresses(
	s *server, ports []port, present []v1.NodeAddress, options cloudconf.Networking,
) []v1.NodeAddress {
	list := addressList{withoutIPv6: options.IPv6SupportDisabled}
	for _, p := range ports {
		if p.Status != portActive {
			continue
		}
		for _, ip := range p.FixedIPs {
			list.add(v1.NodeInternalIP, ip.Address)
		}
	}
	if s.AccessIPv4 != "" {
		// Like OCCM, do not check the family.
		list.append(v1.NodeExternalIP, s.AccessIPv4)
	}
	if s.AccessIPv6 != "" && !options.IPv6SupportDisabled {
		list.append(v1.NodeExternalIP, s.AccessIPv6)
	}
	if hostname := s.Metadata[metadataHostname]; hostname != "" {
		list.append(v1.NodeHostName, hostname)
	}
	byNetwork := addressesByNetwork(s, ports)
	for _, network := range slices.Sorted(maps.Keys(byNetwork)) {
		public := slices.Contains(options.PublicNetworkNames, network)
		internal := len(options.InternalNetworkNames) == 0 ||
			slices.Contains(options.InternalNetworkNames, network)
		for _, a := range byNetwork[network] {
			switch {
			case a.Type == addressFloating:
				list.add(v1.NodeExternalIP, a.Address)
			case public:
				list.remove(a.Address)
				list.add(v1.NodeExternalIP, a.Address)
			case internal:
				list.add(v1.NodeInternalIP, a.Address)
			default:
				list.remove(a.Address)
			}
		}
	}
	orderByNetwork(list.addresses, byNetwork, options.InternalNetworkNames)
	keepOrder(list.addresses, present)
	return sortAddresses(list.addresses, parseSortOrder(options.AddressSortOrder))
}

// toldAddresses are all IP addresses in an answer about a server. It also has those that the
// configuration omits, and its node may keep one.
type toldAddresses struct {
	addresses []v1.NodeAddress
	at        time.Time
}

// lacks reports whether a node reports an address that the answer does not have.
func (t toldAddresses) lacks(node *v1.Node) bool {
	return slices.ContainsFunc(node.Status.Addresses, func(reported v1.NodeAddress) bool {
		return isIP(reported) && !slices.ContainsFunc(t.addresses,
			func(a v1.NodeAddress) bool { return a.Address == reported.Address })
	})
}

func isIP(a v1.NodeAddress) bool {
	return a.Type == v1.NodeInternalIP || a.Type == v1.NodeExternalIP
}

// addressTimeout limits the lookups of [Instances.Addresses]: load balancers wait for them.
const addressTimeout = 15 * time.Second

// Addresses returns the addresses of the nodes' servers by the names of the nodes, by the last
// answers about the servers. A node is missing until OpenStack has shown its server: it reports its
// addresses itself, and may report another server's.
//
// A server is looked up if it was not, or if the last answer is old and lacks an address of the
// node. As with [Instances.Has], a denial has no consequences.
func (i *Instances) Addresses(
	ctx context.Context, nodes []*v1.Node,
) map[string][]v1.NodeAddress {
	oldest := i.config.Clock.Now().Add(-i.config.RefreshAge)
	open := slices.DeleteFunc(slices.Clone(nodes), func(node *v1.Node) bool {
		told, known := i.toldAbout(node)
		return known && (told.at.After(oldest) || !told.lacks(node))
	})
	if len(open) > 0 {
		ctx, cancel := context.WithTimeout(ctx, addressTimeout)
		defer cancel()
		// All at once are one batch.
		batch.InParallel(open, len(open), func(node *v1.Node) error {
			err := i.learnAddresses(ctx, node)
			if err != nil {
				i.config.Logger.V(2).Info("Addresses of a node unknown", "node", node.Name,
					"error", err.Error())
			}
			return err
		})
	}
	all := make(map[string][]v1.NodeAddress, len(nodes))
	for _, node := range nodes {
		if told, known := i.toldAbout(node); known {
			all[node.Name] = told.addresses
		}
	}
	return all
}

// learnAddresses looks the server of a node up.
func (i *Instances) learnAddresses(ctx context.Context, node *v1.Node) error {
	s, err := i.subjectOf(node)
	if err != nil {
		return err
	}
	found, err := i.search(ctx, s, metadataOf(node))
	if err == nil && len(found.servers) > 0 {
		i.tell(node, found)
	}
	return err
}

// toldAbout returns the last answer about the server of a node. One without any address counts as
// none: the node keeps its addresses then, too.
func (i *Instances) toldAbout(node *v1.Node) (told toldAddresses, known bool) {
	s, err := i.subjectOf(node)
	if err != nil {
		return toldAddresses{}, false
	}
	i.mu.Lock()
	defer i.mu.Unlock()
	told = i.told[s.key()]
	return told, len(told.addresses) > 0
}

// tell records an answer about the server of a node. A node that was found by its name gets a
// provider ID later.
func (i *Instances) tell(node *v1.Node, found outcome) {
	s, _ := i.subjectOf(node) // it has led to the server
	server := found.servers[0]
	all := nodeAddresses(server, found.ports, nil, cloudconf.Networking{})
	told := toldAddresses{
		addresses: slices.DeleteFunc(all, func(a v1.NodeAddress) bool { return !isIP(a) }),
		at:        i.config.Clock.Now(),
	}
	i.mu.Lock()
	defer i.mu.Unlock()
	i.told[s.key()], i.told[idKey(server.ID)] = told, told
}

// orderByNetwork sorts the InternalIPs by the first of the networks in which they are, and those in
// none after them. The other addresses keep their places.
func orderByNetwork(
	addresses []v1.NodeAddress, byNetwork map[string][]address, networks []string,
) {
	placeOf := func(a v1.NodeAddress) int {
		at := slices.IndexFunc(networks, func(network string) bool {
			return slices.ContainsFunc(byNetwork[network], func(in address) bool {
				return in.Address == a.Address
			})
		})
		if at < 0 {
			return len(networks)
		}
		return at
	}
	var places []int
	var internal []v1.NodeAddress
	for i, a := range addresses {
		if a.Type == v1.NodeInternalIP {
			places, internal = append(places, i), append(internal, a)
		}
	}
	slices.SortStableFunc(internal, func(a, b v1.NodeAddress) int {
		return cmp.Compare(placeOf(a), placeOf(b))
	})
	for i, place := range places {
		addresses[place] = internal[i]
	}
}

// keepOrder sorts the present addresses by their order in present, and the others after them.
func keepOrder(addresses, present []v1.NodeAddress) {
	slices.SortStableFunc(addresses, func(a, b v1.NodeAddress) int {
		return cmp.Compare(placeIn(present, a), placeIn(present, b))
	})
}

func placeIn(present []v1.NodeAddress, a v1.NodeAddress) int {
	if at := slices.Index(present, a); at >= 0 {
		return at
	}
	return len(present)
}

// addressesByNetwork are Nova's addresses, followed by those of subports, which Nova does not
// return.
func addressesByNetwork(s *server, ports []port) map[string][]address {
	all := map[string][]address{}
	for network, addresses := range s.Addresses {
		all[network] = slices.Clone(addresses)
	}
	for _, p := range ports {
		for _, sub := range p.subports {
			for _, ip := range sub.addresses {
				all[sub.network] = append(all[sub.network],
					address{Address: ip, Type: addressFixed})
			}
		}
	}
	return all
}

// addressList has no duplicates of address and type.
type addressList struct {
	withoutIPv6 bool
	addresses   []v1.NodeAddress
}

// add omits IPv6 addresses if IPv6 is disabled.
func (l *addressList) add(kind v1.NodeAddressType, text string) {
	if l.withoutIPv6 && net.ParseIP(text).To4() == nil {
		return
	}
	l.append(kind, text)
}

func (l *addressList) append(kind v1.NodeAddressType, text string) {
	if a := (v1.NodeAddress{Type: kind, Address: text}); !slices.Contains(l.addresses, a) {
		l.addresses = append(l.addresses, a)
	}
}

// remove removes an address of any type.
func (l *addressList) remove(text string) {
	l.addresses = slices.DeleteFunc(l.addresses, func(a v1.NodeAddress) bool {
		return a.Address == text
	})
}

// parseSortOrder omits invalid CIDRs.
func parseSortOrder(order []string) []*net.IPNet {
	var cidrs []*net.IPNet
	for _, text := range order {
		if _, cidr, err := net.ParseCIDR(text); err == nil {
			cidrs = append(cidrs, cidr)
		}
	}
	return cidrs
}

// sortPriority is highest for addresses in the first CIDR of the order, and 0 for addresses in
// none.
func sortPriority(order []*net.IPNet, text string) int {
	ip := net.ParseIP(text)
	if ip == nil {
		return 0
	}
	at := slices.IndexFunc(order, func(cidr *net.IPNet) bool { return cidr.Contains(ip) })
	if at < 0 {
		return 0
	}
	return len(order) - at
}

// sortAddresses sorts by CIDR and ascending within a CIDR; other addresses follow unchanged.
func sortAddresses(addresses []v1.NodeAddress, order []*net.IPNet) []v1.NodeAddress {
	slices.SortStableFunc(addresses, func(a, b v1.NodeAddress) int {
		priority := sortPriority(order, a.Address)
		if by := cmp.Compare(sortPriority(order, b.Address), priority); by != 0 || priority == 0 {
			return by
		}
		return bytes.Compare(net.ParseIP(a.Address), net.ParseIP(b.Address))
	})
	return addresses
}
