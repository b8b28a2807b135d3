package instances

import (
	"bytes"
	"cmp"
	"maps"
	"net"
	"slices"

	v1 "k8s.io/api/core/v1"

	"github.com/fxccm/fxccm/provider/openstack/cloudconf"
)

// metadataHostname is the key of a server's metadata that holds its hostname.
const metadataHostname = "hostname"

// nodeAddresses are a node's addresses, in the order in which OCCM gives them, since kubelets and users take the first of a type:
//
//  1. the fixed addresses of the ports that are ACTIVE, in the order of the ports: InternalIP
//  2. accessIPv4 and accessIPv6: ExternalIP
//  3. the hostname of the server's metadata: Hostname
//  4. the addresses of the server and of its trunks' subports, by the names of their networks: floating ones and those in a public
//     network ExternalIP, those in an internal one InternalIP
//
// An address in a public network is not internal too, and one in neither kind of network is left out, if the internal ones are named.
// Last, addresses are sorted by [cloudconf.Networking.AddressSortOrder].
func nodeAddresses(s *server, ports []port, options cloudconf.Networking) []v1.NodeAddress {
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
		// OCCM does not ask whether it is an IPv4 address, so neither is it taken for IPv6 here.
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
		internal := len(options.InternalNetworkNames) == 0 || slices.Contains(options.InternalNetworkNames, network)
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
	return sortAddresses(list.addresses, parseSortOrder(options.AddressSortOrder))
}

// addressesByNetwork are those that Nova tells, and after them those of the subports, of which Nova knows nothing.
func addressesByNetwork(s *server, ports []port) map[string][]address {
	all := map[string][]address{}
	for network, addresses := range s.Addresses {
		all[network] = slices.Clone(addresses)
	}
	for _, p := range ports {
		for _, sub := range p.subports {
			for _, ip := range sub.addresses {
				all[sub.network] = append(all[sub.network], address{Address: ip, Type: addressFixed})
			}
		}
	}
	return all
}

// addressList holds each address once for a type.
type addressList struct {
	withoutIPv6 bool
	addresses   []v1.NodeAddress
}

// add leaves IPv6 out if it is not wanted.
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
	l.addresses = slices.DeleteFunc(l.addresses, func(a v1.NodeAddress) bool { return a.Address == text })
}

// parseSortOrder leaves out what is no CIDR.
func parseSortOrder(order []string) []*net.IPNet {
	var cidrs []*net.IPNet
	for _, text := range order {
		if _, cidr, err := net.ParseCIDR(text); err == nil {
			cidrs = append(cidrs, cidr)
		}
	}
	return cidrs
}

// sortPriority is the higher the earlier the CIDR stands in the order that holds the address; 0 if there is none.
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

// sortAddresses puts the addresses of the first CIDR first, and so on, ascending within a CIDR; all others follow as they are.
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
