package openstacktest

import "github.com/fxccm/fxccm/provider/openstack/openstacktest/internal/neutron"

type (
	// FixedIP is an address of a port.
	FixedIP = neutron.FixedIP
	// FloatingIP is a floating IP of Neutron's. The zero value of each field is what a new one
	// usually has.
	FloatingIP = neutron.FloatingIP
	// Network is a network of Neutron's. The zero value of each field is what a new network usually
	// has.
	Network = neutron.Network
	// AddressPair is what a port may send and receive beside its own addresses.
	AddressPair = neutron.AddressPair
	// Port is a port of Neutron's. The zero value of each field is what a new port usually has.
	Port = neutron.Port
	// Router is a router of Neutron's. The zero value of each field is what a new router usually
	// has.
	Router = neutron.Router
	// SecurityGroup is a security group of Neutron's.
	SecurityGroup = neutron.SecurityGroup
	// SecurityGroupRule lets traffic pass.
	SecurityGroupRule = neutron.SecurityGroupRule
	// AddressRange are the addresses from First to Last, both included.
	AddressRange = neutron.AddressRange
	// Route is a route of a router.
	Route = neutron.Route
	// Subnet is a subnet of Neutron's. The zero value of each field is what a new subnet usually
	// has.
	Subnet = neutron.Subnet
	// Subport is a port of a trunk's.
	Subport = neutron.Subport
	// Trunk is a trunk of Neutron's: a port that carries the traffic of others.
	Trunk = neutron.Trunk
)

// The device owners of the ports of servers and load balancers.
const (
	OwnerCompute      = neutron.OwnerCompute
	OwnerLoadBalancer = neutron.OwnerLoadBalancer
)

// WithUserChosenAddresses lets all users choose the address of a new floating IP. Default: only
// administrators may, and other users get 403.
func WithUserChosenAddresses() Option {
	return func(s *settings) { s.network.UserChosenAddresses = true }
}

// WithoutExtensions disables extensions of Neutron by their aliases, and the extensions that need
// them. Their attributes and paths are missing then. Default: GET /v2.0/extensions lists all.
func WithoutExtensions(aliases ...string) Option {
	return func(s *settings) {
		s.network.WithoutExtensions = append(s.network.WithoutExtensions, aliases...)
	}
}

// SetExtension gives Neutron an extension, or takes it, as an operator does who restarts it with
// another configuration. It is an error if the cloud does not know the alias.
func (s *Cloud) SetExtension(alias string, on bool) error {
	return s.network.SetExtension(alias, on)
}

// AddFloatingIP creates a floating IP and returns its id. It panics if the cloud would refuse it.
func (s *Cloud) AddFloatingIP(spec FloatingIP) string { return s.network.FloatingIPs.Add(spec) }

// FloatingIPs are all floating IPs, of all projects, in the order of their ids.
func (s *Cloud) FloatingIPs() []FloatingIP { return s.network.FloatingIPs.Snapshot() }

// UpdateFloatingIP changes a floating IP, as another client does: by the API's rules.
func (s *Cloud) UpdateFloatingIP(id string, change func(*FloatingIP)) error {
	return s.network.FloatingIPs.Update(id, change)
}

// DeleteFloatingIP deletes a floating IP, as another client does.
func (s *Cloud) DeleteFloatingIP(id string) error { return s.network.FloatingIPs.Delete(id) }

// AddNetwork creates a network and returns its id. It panics if the cloud would refuse it.
func (s *Cloud) AddNetwork(spec Network) string { return s.network.Networks.Add(spec) }

// Networks are all networks, of all projects, in the order of their ids.
func (s *Cloud) Networks() []Network { return s.network.Networks.Snapshot() }

// SetNetworkQuota limits how many of a resource each project may have: "network", "subnet", "port",
// "router", "floatingip", "security_group", "security_group_rule" or "trunk", or how many routes a
// router: "router_route". Users' requests for more are refused with 409 OverQuota; what services
// and the methods of Cloud create counts, and is not refused. Default, and with a limit below 0: no
// limit.
func (s *Cloud) SetNetworkQuota(resource string, limit int) {
	s.network.SetNetworkQuota(resource, limit)
}

// AddPort creates a port and returns its id. It panics if the cloud would refuse it.
func (s *Cloud) AddPort(spec Port) string { return s.network.Ports.Add(spec) }

// Ports are all ports, of all projects, also Neutron's own ones, in the order of their ids.
func (s *Cloud) Ports() []Port { return s.network.Ports.Snapshot() }

// UpdatePort changes a port, as another client does: by the API's rules.
func (s *Cloud) UpdatePort(id string, change func(*Port)) error {
	return s.network.Ports.Update(id, change)
}

// DeletePort deletes a port, as another client does. Its floating IP stays, without a port.
func (s *Cloud) DeletePort(id string) error { return s.network.Ports.Delete(id) }

// AddRouter creates a router and returns its id. It panics if the cloud would refuse it. The routes
// are not checked, as those of [Cloud.SetRoutes].
func (s *Cloud) AddRouter(spec Router) string { return s.network.AddRouter(spec) }

// Routes are the extra routes of a router, as its "routes" show them; none if there is no such
// router.
func (s *Cloud) Routes(routerID string) []Route { return s.network.Routes(routerID) }

// SetRoutes gives a router these routes and no others, as another client does, who is not held to
// the API's rules: a next hop may be out of reach.
func (s *Cloud) SetRoutes(routerID string, routes ...Route) error {
	return s.network.SetRoutes(routerID, routes...)
}

// ConnectSubnet connects a router to a subnet, with the address of the subnet's gateway.
func (s *Cloud) ConnectSubnet(routerID, subnetID string) error {
	return s.network.ConnectSubnet(routerID, subnetID)
}

// DeleteRouter deletes a router, as another client does, with its interfaces and routes.
func (s *Cloud) DeleteRouter(id string) error { return s.network.DeleteRouter(id) }

// SetMaxRoutes limits the routes of each router; more are refused with 400 RoutesExhausted, as with
// Neutron's max_routes, whose default is 30. 0, which is the default here: no limit. For the limit
// of newer releases, a quota, see [Cloud.SetNetworkQuota].
func (s *Cloud) SetMaxRoutes(routes int) { s.network.SetMaxRoutes(routes) }

// AddSecurityGroup creates a security group, with the two rules for egress that each new one has,
// and returns its id. It panics if the cloud would refuse it.
func (s *Cloud) AddSecurityGroup(spec SecurityGroup) string {
	return s.network.SecurityGroups.Add(spec)
}

// AddSecurityGroupRule creates a rule and returns its id. It panics if the cloud would refuse it.
func (s *Cloud) AddSecurityGroupRule(spec SecurityGroupRule) string {
	return s.network.SecurityGroupRules.Add(spec)
}

// SecurityGroups are all security groups, of all projects, in the order of their ids.
func (s *Cloud) SecurityGroups() []SecurityGroup { return s.network.SecurityGroups.Snapshot() }

// SecurityGroupRules are all rules, of all projects, in the order of their ids.
func (s *Cloud) SecurityGroupRules() []SecurityGroupRule {
	return s.network.SecurityGroupRules.Snapshot()
}

// DeleteSecurityGroup deletes a security group with its rules, as another client does. It is an
// error if it is in use.
func (s *Cloud) DeleteSecurityGroup(id string) error { return s.network.SecurityGroups.Delete(id) }

// AddSubnet creates a subnet and returns its id. It panics if the cloud would refuse it.
func (s *Cloud) AddSubnet(spec Subnet) string { return s.network.Subnets.Add(spec) }

// AddTrunk creates a trunk and returns its id. It panics if the cloud would refuse it.
func (s *Cloud) AddTrunk(spec Trunk) string { return s.network.Trunks.Add(spec) }
