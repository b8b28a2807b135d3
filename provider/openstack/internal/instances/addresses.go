package instances

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
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
	keepOrder(list.addresses, present[:min(mostAddresses, len(present))])
	return sortAddresses(list.addresses, parseSortOrder(options.AddressSortOrder))
}

// Server is the server of a node.
type Server struct {
	ID string
	// Addresses are all IP addresses of the server, also those that the configuration omits: the
	// node may have kept one.
	Addresses []v1.NodeAddress
}

// toldServer is an answer about a server.
type toldServer struct {
	Server
	at time.Time
}

// lacks reports whether a node reports an address that the answer does not have.
func (t toldServer) lacks(node *v1.Node) bool {
	reported := node.Status.Addresses[:min(mostAddresses, len(node.Status.Addresses))]
	return slices.ContainsFunc(reported, func(one v1.NodeAddress) bool {
		return isIP(one) && !slices.ContainsFunc(t.Addresses,
			func(a v1.NodeAddress) bool { return a.Address == one.Address })
	})
}

func isIP(a v1.NodeAddress) bool {
	return a.Type == v1.NodeInternalIP || a.Type == v1.NodeExternalIP
}

// LastServer returns the server of a node, by the last answer about it; false until OpenStack has
// shown it. A node reports its addresses itself, and may report another server's.
func (i *Instances) LastServer(node *v1.Node) (Server, bool) {
	told, known := i.toldAbout(node)
	return told.Server, known
}

// toldAbout returns the last answer about the server of a node. One without any address counts as
// none: the node keeps its addresses then, too.
func (i *Instances) toldAbout(node *v1.Node) (told toldServer, known bool) {
	s, err := i.subjectOf(node)
	if err != nil {
		return toldServer{}, false
	}
	i.mu.Lock()
	defer i.mu.Unlock()
	told = i.told[s.key()]
	return told, len(told.Addresses) > 0
}

// isDue reports whether the server of a node must be looked up: it was not, or the last answer is
// old and lacks an address of the node.
func (i *Instances) isDue(node *v1.Node) bool {
	told, known := i.toldAbout(node)
	oldest := i.config.Clock.Now().Add(-i.config.RefreshAge)
	return !known || !told.at.After(oldest) && told.lacks(node)
}

// errNoAddress means that OpenStack shows a server, but no address of it.
var errNoAddress = errors.New("OpenStack shows no address of the server")

// Server is [Instances.LastServer] after a lookup, if one is due. As with [Instances.Has], a denial
// has no consequences. The error is that of the lookup.
func (i *Instances) Server(ctx context.Context, node *v1.Node) (Server, error) {
	var err error
	if i.isDue(node) {
		err = i.learnServer(ctx, node)
	}
	if server, known := i.LastServer(node); known {
		return server, nil
	}
	err = cmp.Or(err, ErrUnmatched)
	if slices.ContainsFunc(causes, func(cause error) bool { return errors.Is(err, cause) }) {
		err = fmt.Errorf("%s: node %s: %w; retrying", compute, node.Name, err)
	}
	return Server{}, err
}

// serversTimeout limits the lookups of servers for which load balancers and routes wait, and
// nodesAtATime those that wait together: the API server of a tenant may report a hundred thousand
// nodes, and each lookup has a goroutine.
const (
	serversTimeout = 15 * time.Second
	nodesAtATime   = 2000
)

// learnServer looks the server of a node up, so that LastServer returns it.
func (i *Instances) learnServer(ctx context.Context, node *v1.Node) error {
	ctx, cancel := context.WithTimeout(ctx, serversTimeout)
	defer cancel()
	s, err := i.subjectOf(node)
	if err != nil {
		return err
	}
	found, err := i.search(ctx, s, metadataOf(node))
	if err != nil {
		return err
	}
	if len(found.servers) == 0 {
		return ErrUnmatched
	}
	if server := i.tell(s, found); len(server.Addresses) == 0 {
		return errNoAddress
	}
	return nil
}

// tell records an answer about the server of a node, and returns the server. A node that was found
// by its name gets a provider ID later.
func (i *Instances) tell(s subject, found outcome) Server {
	all := nodeAddresses(found.servers[0], found.ports, nil, cloudconf.Networking{})
	told := toldServer{at: i.config.Clock.Now(), Server: Server{
		ID:        found.servers[0].ID,
		Addresses: slices.DeleteFunc(all, func(a v1.NodeAddress) bool { return !isIP(a) }),
	}}
	i.mu.Lock()
	defer i.mu.Unlock()
	i.told[s.key()], i.told[idKey(told.ID)] = told, told
	return told.Server
}

// Addresses returns the addresses of the nodes' servers by the names of the nodes. A node is
// missing until OpenStack has shown its server.
func (i *Instances) Addresses(
	ctx context.Context, nodes []*v1.Node,
) map[string][]v1.NodeAddress {
	due := slices.DeleteFunc(slices.Clone(nodes),
		func(node *v1.Node) bool { return !i.isDue(node) })
	ctx, cancel := context.WithTimeout(ctx, serversTimeout)
	defer cancel()
	// Lookups at the same moment share their requests.
	_ = batch.InParallel(due, nodesAtATime, func(node *v1.Node) error {
		err := i.learnServer(ctx, node)
		if err != nil {
			i.config.Logger.V(2).Info("Server of a node unknown", "node", node.Name, "error",
				err.Error())
		}
		return err
	})
	all := make(map[string][]v1.NodeAddress, len(nodes))
	for _, node := range nodes {
		if server, known := i.LastServer(node); known {
			all[node.Name] = server.Addresses
		}
	}
	return all
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

// mostAddresses limits the addresses of a server, and those of its node that are compared with
// them. The comparisons take the square of their number, and both may be a tenant's to choose.
const mostAddresses = 2000

// addressesByNetwork are Nova's addresses, followed by those of subports, which Nova does not
// return.
func addressesByNetwork(s *server, ports []port) map[string][]address {
	all, left := map[string][]address{}, mostAddresses
	for _, network := range slices.Sorted(maps.Keys(s.Addresses)) {
		first := s.Addresses[network][:min(left, len(s.Addresses[network]))]
		all[network] = slices.Clone(first)
		left -= len(first)
	}
	for _, p := range ports {
		for _, sub := range p.subports {
			for _, ip := range sub.addresses[:min(left, len(sub.addresses))] {
				all[sub.network] = append(all[sub.network],
					address{Address: ip, Type: addressFixed})
				left--
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
	a := v1.NodeAddress{Type: kind, Address: text}
	if len(l.addresses) < mostAddresses && !slices.Contains(l.addresses, a) {
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
