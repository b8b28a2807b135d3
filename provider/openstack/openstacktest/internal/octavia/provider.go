package octavia

import (
	"net/http"
	"net/netip"
	"slices"

	"github.com/fxccm/fxccm/provider/openstack/openstacktest/internal/neutron"
)

// driver refuses requests that Octavia itself allows.
type driver struct {
	name string
	ovn  bool
}

func driverOf(name string) driver { return driver{name: name, ovn: name == ProviderOVN} }

// unsupported is ProviderUnsupportedOptionError.
func (p driver) unsupported(format string, arguments ...any) error {
	return refuse(http.StatusNotImplemented,
		"Provider '%s' does not support a requested option: "+format,
		append([]any{p.name}, arguments...)...)
}

// The rules of OVN's provider are those of ovn_octavia_provider/driver.py.

func (p driver) admitProtocol(protocol string) error {
	if p.ovn && !slices.Contains([]string{protocolTCP, protocolUDP, protocolSCTP}, protocol) {
		return p.unsupported("OVN provider does not support %s protocol", protocol)
	}
	return nil
}

func (p driver) admitListener(l *Listener) error {
	if p.ovn && len(l.AllowedCIDRs) > 0 {
		return p.unsupported("OVN provider does not support allowed_cidrs option")
	}
	return p.admitProtocol(l.Protocol)
}

func (p driver) admitPool(pool *Pool) error {
	if !p.ovn {
		if pool.LBAlgorithm == "SOURCE_IP_PORT" {
			return p.unsupported("Amphora provider does not support SOURCE_IP_PORT algorithm.")
		}
		return nil
	}
	if pool.LBAlgorithm != "SOURCE_IP_PORT" {
		return p.unsupported("OVN provider does not support %s algorithm", pool.LBAlgorithm)
	}
	if s := pool.SessionPersistence; s != nil && s.Type != persistenceSourceIP {
		return p.unsupported(
			"OVN provider does not support %s session persistence. Only SOURCE_IP type is supported.", s.Type)
	}
	return p.admitProtocol(pool.Protocol)
}

func (p driver) admitMonitor(m *HealthMonitor) error {
	if p.ovn && m.Type != monitorTCP && m.Type != monitorUDPConnect {
		return p.unsupported(
			"OVN provider does not support %s health monitor type. Supported types: UDP-CONNECT, TCP", m.Type)
	}
	return nil
}

// admitMember also needs the VIP's subnet: a member without a subnet must be in it.
func (p driver) admitMember(m *Member, vips []string, vipSubnet *neutron.Subnet) error {
	if !p.ovn {
		return nil
	}
	if m.MonitorAddress != "" || m.MonitorPort != 0 {
		return p.unsupported(
			"OVN Load Balancer does not support different member monitor address or port.")
	}
	address, err := netip.ParseAddr(m.Address)
	if err != nil {
		return badInput("address", m.Address, "Value should be IPv4 or IPv6 format")
	}
	sameFamily := func(vip string) bool {
		parsed, err := netip.ParseAddr(vip)
		return err == nil && parsed.Is4() == address.Is4()
	}
	if !slices.ContainsFunc(vips, sameFamily) {
		return p.unsupported(
			"OVN provider does not support mixing IPv4/IPv6 configuration within the same Load Balancer.")
	}
	if m.SubnetID == "" && (vipSubnet == nil || !vipSubnet.Holds(address)) {
		return p.unsupported(
			"Subnet is required, or Loadbalancer associated with Pool must have a subnet, for Member creation " +
				"with OVN Provider Driver if it is not the same as LB VIP subnet")
	}
	return nil
}

func (p driver) admitFailover() error {
	if p.ovn {
		return p.unsupported("OVN provider does not support loadbalancer failover")
	}
	return nil
}

// LoadBalancerFlavor is a flavor of load balancers.
type LoadBalancerFlavor struct {
	// ID is generated if it is empty.
	ID, Name string
	// Provider is the provider of the flavor. Default: the cloud's default provider.
	Provider string
	Disabled bool
}

// AddLoadBalancerFlavor adds a flavor and returns its ID.
func (s *Service) AddLoadBalancerFlavor(f LoadBalancerFlavor) string {
	defer s.Enter()()
	if f.ID == "" {
		f.ID = s.NewID()
	}
	setDefault(&f.Provider, providers()[0])
	s.flavors = append(s.flavors, f)
	return f.ID
}

// AddLoadBalancerZone adds an availability zone of Octavia.
func (s *Service) AddLoadBalancerZone(name string) {
	defer s.Enter()()
	s.zones = append(s.zones, name)
}

// chooseProvider finds the provider of a new load balancer (LoadBalancersController._get_provider),
// and checks flavor and zone.
func (s *Service) chooseProvider(lb *LoadBalancer) error {
	flavor, err := s.flavor(lb.FlavorID)
	if err != nil {
		return err
	}
	enabled := providers()
	switch {
	case flavor == nil:
		setDefault(&lb.Provider, enabled[0])
	case lb.Provider != "" && lb.Provider != flavor.Provider:
		return refuse(http.StatusBadRequest, "Flavor '%s' is not compatible with provider '%s'",
			lb.FlavorID,
			lb.Provider)
	default:
		lb.Provider = flavor.Provider
	}
	if !slices.Contains(enabled, lb.Provider) {
		return refuse(http.StatusBadRequest, "Provider '%s' is not enabled.", lb.Provider)
	}
	if lb.AvailabilityZone == "" {
		return nil
	}
	if !slices.Contains(s.zones, lb.AvailabilityZone) {
		return invalid("Invalid availability zone.")
	}
	if lb.Provider == ProviderOVN { // ProviderNotImplementedError
		return refuse(http.StatusNotImplemented, "Provider '%s' does not support a requested "+
			"action: This provider does not support availability zones.", lb.Provider)
	}
	return nil
}

// flavor returns nil for an empty ID.
func (s *Service) flavor(id string) (*LoadBalancerFlavor, error) {
	if id == "" {
		return nil, nil
	}
	for i, f := range s.flavors {
		if f.ID != id {
			continue
		}
		if f.Disabled {
			return nil,
				refuse(http.StatusBadRequest,
					"The selected flavor is not allowed in this deployment: %s", id)
		}
		return &s.flavors[i], nil
	}
	return nil, invalid("Invalid flavor_id.")
}
