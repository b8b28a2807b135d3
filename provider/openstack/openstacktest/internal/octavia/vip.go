package octavia

import (
	"cmp"
	"net/http"
	"net/netip"
	"slices"

	"github.com/fxccm/fxccm/provider/openstack/openstacktest/internal/api"
	"github.com/fxccm/fxccm/provider/openstack/openstacktest/internal/neutron"
)

// The VIP of a load balancer is a port of Neutron, which the user provides or Octavia creates.

// placeVIP completes the port, network and subnet of the VIP
// (LoadBalancersController._validate_vip_request_object).
func (s *Service) placeVIP(c api.Caller, lb *LoadBalancer) error {
	var err error
	switch {
	case lb.VIPPortID != "":
		err = s.placeByPort(c, lb)
	case lb.VIPNetworkID != "":
		err = s.placeByNetwork(c, lb)
	case lb.VIPSubnetID != "":
		var subnet *neutron.Subnet
		if subnet, err = s.subnetFor(c, lb.VIPSubnetID); err == nil {
			lb.VIPNetworkID = subnet.NetworkID
		}
	default:
		err = invalid("VIP must contain one of: vip_port_id, vip_network_id, vip_subnet_id.")
	}
	if err != nil {
		return err
	}
	return s.admitAdditionalVIPs(c, lb)
}

func (s *Service) subnetFor(c api.Caller, id string) (*neutron.Subnet, error) {
	subnet, err := s.network.Subnets.FindVisible(c, id)
	if err != nil {
		return nil, missing("Subnet", id)
	}
	return subnet, nil
}

// placeByPort chooses an address of the port: its first one in the given subnet, whatever address
// is requested; without a subnet, the requested address or the only one.
func (s *Service) placeByPort(c api.Caller, lb *LoadBalancer) error {
	port, err := s.network.Ports.FindVisible(c, lb.VIPPortID)
	if err != nil {
		return missing("Port", lb.VIPPortID)
	}
	if port.DeviceID != "" {
		return invalid("Port %s is already used by device %s ", port.ID, port.DeviceID)
	}
	lb.VIPNetworkID = port.NetworkID
	refusal := "Specified VIP address not found on the specified VIP port."
	switch {
	case lb.VIPSubnetID != "":
		if _, err := s.subnetFor(c, lb.VIPSubnetID); err != nil {
			return err
		}
		refusal = "No VIP address found on the specified VIP port within the specified subnet."
	case lb.VIPAddress == "" && len(port.FixedIPs) != 1:
		return invalid(
			"VIP port's subnet could not be determined. Please specify either a VIP subnet or address.")
	}
	for _, ip := range port.FixedIPs {
		if ip.SubnetID == lb.VIPSubnetID || lb.VIPSubnetID == "" &&
			(lb.VIPAddress == "" || ip.Address == lb.VIPAddress) {
			lb.VIPSubnetID, lb.VIPAddress = ip.SubnetID, ip.Address
			return nil
		}
	}
	return invalid("%s", refusal)
}

// placeByNetwork chooses the subnet of the address; without an address, the first subnet,
// preferring IPv4.
func (s *Service) placeByNetwork(c api.Caller, lb *LoadBalancer) error {
	if _, err := s.network.Networks.FindVisible(c, lb.VIPNetworkID); err != nil {
		return missing("Network", lb.VIPNetworkID)
	}
	subnets := slices.DeleteFunc(s.network.Subnets.All(),
		func(subnet *neutron.Subnet) bool { return subnet.NetworkID != lb.VIPNetworkID })
	address, errAddress := netip.ParseAddr(lb.VIPAddress)
	fits, err := func(*neutron.Subnet) bool { return true },
		invalid("Supplied network does not contain a subnet.")
	switch {
	case lb.VIPSubnetID != "":
		err = missing("Subnet", lb.VIPSubnetID)
		fits = func(subnet *neutron.Subnet) bool { return subnet.ID == lb.VIPSubnetID }
	case lb.VIPAddress != "":
		err = invalid("Supplied network does not contain a subnet for VIP address specified.")
		fits = func(subnet *neutron.Subnet) bool {
			return errAddress == nil && netip.MustParsePrefix(subnet.CIDR).Contains(address)
		}
	}
	// A stable sort keeps the order of the subnets of a family.
	slices.SortStableFunc(subnets,
		func(a, b *neutron.Subnet) int { return cmp.Compare(a.IPVersion, b.IPVersion) })
	i := slices.IndexFunc(subnets, fits)
	if i < 0 {
		return err
	}
	lb.VIPSubnetID = subnets[i].ID
	return nil
}

// admitAdditionalVIPs allows one address of each subnet, all of one network.
func (s *Service) admitAdditionalVIPs(c api.Caller, lb *LoadBalancer) error {
	used := []string{lb.VIPSubnetID}
	for _, vip := range lb.AdditionalVIPs {
		if slices.Contains(used, vip.SubnetID) {
			return invalid(
				"Duplicate VIP subnet(s) specified. Only one IP can be bound per subnet.")
		}
		used = append(used, vip.SubnetID)
	}
	for _, vip := range lb.AdditionalVIPs {
		subnet, err := s.network.Subnets.FindVisible(c, vip.SubnetID)
		if err != nil {
			// Octavia does not convert the network driver's error to an answer here
			// (_validate_subnets_share_network_but_no_duplicates).
			return api.Refuse(http.StatusInternalServerError,
				"subnet not found (subnet id: %s).", vip.SubnetID)
		}
		if subnet.NetworkID != lb.VIPNetworkID {
			return invalid("All VIP subnets must belong to the same network.")
		}
	}
	return nil
}

// makeVIP creates the port, or uses the address of the given port. A refusal of Neutron, such as
// for a used address, is a provider error with status 500, whatever Neutron's status was
// (octavia/api/drivers/amphora_driver/v2/driver.py, create_vip_port).
func (s *Service) makeVIP(t *tree) error {
	if t.VIPPortID != "" {
		return s.secureVIP(t)
	}
	// As in octavia/network/drivers/neutron/allowed_address_pairs.py, the port is down, because the
	// amphorae's ports have its address.
	spec := neutron.Port{
		Name: "octavia-lb-" + t.ID, NetworkID: t.VIPNetworkID, ProjectID: t.ProjectID, Down: true,
		DeviceID: "lb-" + t.ID, DeviceOwner: neutron.OwnerLoadBalancer,
		FixedIPs: []neutron.FixedIP{{SubnetID: t.VIPSubnetID, Address: t.VIPAddress}},
	}
	for _, vip := range t.AdditionalVIPs {
		spec.FixedIPs = append(spec.FixedIPs, neutron.FixedIP(vip))
	}
	port, err := s.network.CreatePort(spec)
	if err != nil {
		return api.Refuse(http.StatusInternalServerError,
			"Provider '%s' reports error: %s\nNeutron server returns request_ids: ['req-%s']",
			t.Provider, err, s.NewID())
	}
	t.VIPPortID, t.ownsPort = port.ID, true
	t.VIPAddress = port.FixedIPs[0].Address
	for i := range t.AdditionalVIPs {
		t.AdditionalVIPs[i].Address = port.FixedIPs[i+1].Address
	}
	return nil
}

// secureVIP replaces the security groups of a user's port by one of Octavia, which belongs to
// another project (octavia/network/drivers/neutron/base.py, _add_security_group_to_port).
func (s *Service) secureVIP(t *tree) error {
	port, err := s.network.Ports.Find(t.VIPPortID)
	if err == nil && t.Provider == providerAmphora {
		port.SecurityGroups = []string{s.NewID()}
	}
	return err
}

// dropVIP deletes the port if Octavia created it. It may already be deleted. A user's port stays
// without a security group: Octavia's is removed, and the previous ones are not restored.
func (s *Service) dropVIP(t *tree) {
	if t.ownsPort {
		_ = s.network.RemovePort(t.VIPPortID)
		return
	}
	if port, err := s.network.Ports.Find(t.VIPPortID); err == nil && t.Provider == providerAmphora {
		port.SecurityGroups = nil
	}
}

// forgetTree removes a deleted load balancer.
func (s *Service) forgetTree(t *tree) {
	s.dropVIP(t)
	s.trees = slices.DeleteFunc(s.trees,
		func(other *tree) bool { return other == t })
}
