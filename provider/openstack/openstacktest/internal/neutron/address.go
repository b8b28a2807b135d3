package neutron

import (
	"net/netip"
	"slices"
	"strings"
)

// FixedIP is an address of a port.
type FixedIP struct {
	SubnetID string `json:"subnet_id,omitempty"`
	Address  string `json:"ip_address,omitempty"`
}

// byFixedIPs filters by "ip_address=…", "subnet_id=…" and "ip_address_substr=…". Each key must
// match one of the addresses, but they may be different ones: Neutron joins its table of addresses
// once for each key. It ignores other keys.
func byFixedIPs(values []string) (func(*Port) bool, error) {
	wanted := map[string][]string{}
	for _, value := range values {
		key, text, found := strings.Cut(value, "=")
		if !found {
			return nil, neutronBadRequest("InvalidInput",
				"Invalid input for operation: '%s' is not of the form <key>=[value].", value)
		}
		wanted[key] = append(wanted[key], text)
	}
	return func(row *Port) bool {
		for key, texts := range wanted {
			if !slices.ContainsFunc(row.FixedIPs,
				func(ip FixedIP) bool { return ip.fits(key, texts) }) {
				return false
			}
		}
		return true
	}, nil
}

// fits reports whether an address matches one of the values of a key.
func (ip FixedIP) fits(key string, texts []string) bool {
	return slices.ContainsFunc(texts, func(text string) bool {
		switch key {
		case "subnet_id":
			return ip.SubnetID == text
		case "ip_address_substr":
			return strings.Contains(ip.Address, text)
		case "ip_address":
			return sameAddress(ip.Address, text)
		}
		return true
	})
}

func sameAddress(a, b string) bool {
	first, err := netip.ParseAddr(a)
	second, errSecond := netip.ParseAddr(b)
	return err == nil && errSecond == nil && first == second
}

// addresses is the index of ports by address and subnet.
type addresses struct {
	taken map[string]map[netip.Addr]string
	// last is the address that was chosen last in each subnet. A released address is therefore not
	// reused at once. Neutron achieves the same by choosing at random.
	last map[string]netip.Addr
}

func newAddresses() addresses {
	return addresses{taken: map[string]map[netip.Addr]string{}, last: map[string]netip.Addr{}}
}

// index updates the index after a change of a port.
func (a addresses) index(old, row *Port) {
	if old != nil {
		for _, ip := range old.FixedIPs {
			delete(a.taken[ip.SubnetID], netip.MustParseAddr(ip.Address))
		}
	}
	if row == nil {
		return
	}
	for _, ip := range row.FixedIPs {
		if a.taken[ip.SubnetID] == nil {
			a.taken[ip.SubnetID] = map[netip.Addr]string{}
		}
		a.taken[ip.SubnetID][netip.MustParseAddr(ip.Address)] = row.ID
	}
}

// owner is the port with the address; "" for none.
func (a addresses) owner(subnetID string, address netip.Addr) string {
	return a.taken[subnetID][address]
}

// choose returns the next free address of a subnet's pools.
func (a addresses) choose(subnet *Subnet, also []FixedIP) (netip.Addr, bool) {
	free := func(address netip.Addr) bool {
		return a.owner(subnet.ID, address) == "" &&
			!slices.Contains(also, FixedIP{subnet.ID, address.String()})
	}
	find := func(after netip.Addr) (netip.Addr, bool) {
		for _, pool := range subnet.Pools {
			first, last := netip.MustParseAddr(pool.First), netip.MustParseAddr(pool.Last)
			if after.IsValid() && !after.Less(first) {
				first = after.Next()
			}
			for address := first; address.IsValid() &&
				!last.Less(address); address = address.Next() {
				if free(address) {
					return address, true
				}
			}
		}
		return netip.Addr{}, false
	}
	address, found := find(a.last[subnet.ID])
	if !found {
		address, found = find(netip.Addr{})
	}
	if found {
		a.last[subnet.ID] = address
	}
	return address, found
}

// allocate gives a port the wanted addresses, or, if wanted is nil, one of each family of the
// network.
func (n *Service) allocate(c caller, port *Port, wanted []FixedIP) ([]FixedIP, error) {
	if wanted == nil {
		return n.allocateAny(port)
	}
	given := []FixedIP{}
	for _, want := range wanted {
		ip, err := n.allocateOne(c, port, want, given)
		if err != nil {
			return nil, err
		}
		given = append(given, ip)
	}
	return given, nil
}

func (n *Service) allocateAny(port *Port) ([]FixedIP, error) {
	given := []FixedIP{}
	for _, version := range []int{4, 6} {
		candidates := 0
		for _, subnet := range n.Subnets.All() {
			if subnet.NetworkID != port.NetworkID || subnet.IPVersion != version {
				continue
			}
			candidates++
			if address, found := n.addresses.choose(subnet, given); found {
				given = append(given, FixedIP{subnet.ID, address.String()})
				candidates = 0
				break
			}
		}
		if candidates > 0 {
			return nil, noAddressLeft(port.NetworkID)
		}
	}
	return given, nil
}

func noAddressLeft(networkID string) error {
	return neutronConflict("IpAddressGenerationFailure",
		"No more IP addresses available on network %s.", networkID)
}

func (n *Service) allocateOne(c caller, port *Port, want FixedIP, also []FixedIP) (FixedIP, error) {
	if want.Address == "" {
		subnet, err := n.subnetOn(c, port.NetworkID, want.SubnetID)
		if err != nil {
			return FixedIP{}, err
		}
		address, found := n.addresses.choose(subnet, also)
		if !found {
			return FixedIP{}, noAddressLeft(port.NetworkID)
		}
		return FixedIP{subnet.ID, address.String()}, nil
	}
	address, err := netip.ParseAddr(want.Address)
	if err != nil {
		return FixedIP{}, invalidInput("fixed_ips", "'"+want.Address+"' is not a valid IP address")
	}
	subnet, err := n.subnetFor(c, port.NetworkID, want.SubnetID, address)
	if err != nil {
		return FixedIP{}, err
	}
	ip := FixedIP{subnet.ID, address.String()}
	if owner := n.addresses.owner(subnet.ID, address); (owner != "" && owner != port.ID) ||
		slices.Contains(also, ip) {
		return FixedIP{}, neutronConflict("IpAddressAlreadyAllocated",
			"IP address %s already allocated in subnet %s", address, subnet.ID)
	}
	return ip, nil
}

// subnetOn finds a subnet, which must belong to the network.
func (n *Service) subnetOn(c caller, networkID, id string) (*Subnet, error) {
	subnet, err := n.Subnets.findFor(c, id)
	if err != nil {
		return nil, err
	}
	if subnet.NetworkID != networkID {
		return nil, neutronBadRequest("InvalidInput",
			"Invalid input for operation: Failed to create port on network %s, because fixed_ips included invalid subnet %s.",
			networkID, id)
	}
	return subnet, nil
}

// subnetFor finds the subnet of an address: the given one, or any of the network.
func (n *Service) subnetFor(c caller, networkID, id string, address netip.Addr) (*Subnet, error) {
	if id != "" {
		subnet, err := n.subnetOn(c, networkID, id)
		if err == nil && !subnet.holds(address) {
			err = neutronBadRequest("InvalidIpForSubnet",
				"IP address %s is not a valid IP for the specified subnet.", address)
		}
		return subnet, err
	}
	for _, subnet := range n.Subnets.All() {
		if subnet.NetworkID == networkID && subnet.holds(address) {
			return subnet, nil
		}
	}
	return nil, neutronBadRequest("InvalidIpForNetwork",
		"IP address %s is not a valid IP for any of the subnets on the specified network.", address)
}

// holds reports whether a port can have the address, whether it is in a pool or not.
func (s *Subnet) holds(address netip.Addr) bool {
	prefix := netip.MustParsePrefix(s.CIDR)
	if !prefix.Contains(address) {
		return false
	}
	edges := prefix.Addr().Is4() && prefix.Bits() < 31 &&
		(address == prefix.Addr() || address == lastOf(prefix))
	return !edges
}
