package openstacktest

import "github.com/fxccm/fxccm/provider/openstack/openstacktest/internal/neutron"

type (
	// FixedIP is an address of a port.
	FixedIP = neutron.FixedIP
	// FloatingIP is a floating IP of Neutron. The zero value of each field is the usual one of a
	// new floating IP.
	FloatingIP = neutron.FloatingIP
	// Network is a network of Neutron. The zero value of each field is the usual one of a new
	// network.
	Network = neutron.Network
	// AddressPair allows a port to use an address in addition to its own.
	AddressPair = neutron.AddressPair
	// Port is a port of Neutron. The zero value of each field is the usual one of a new port.
	Port = neutron.Port
	// Router is a router of Neutron. The zero value of each field is the usual one of a new router.
	Router = neutron.Router
	// SecurityGroup is a security group of Neutron.
	SecurityGroup = neutron.SecurityGroup
	// SecurityGroupRule allows traffic.
	SecurityGroupRule = neutron.SecurityGroupRule
	// AddressRange are the addresses from First to Last, both included.
	AddressRange = neutron.AddressRange
	// Route is a route of a router, or of the servers in a subnet.
	Route = neutron.Route
	// Subnet is a subnet of Neutron. The zero value of each field is the usual one of a new subnet.
	Subnet = neutron.Subnet
	// Subport is a port of a trunk.
	Subport = neutron.Subport
	// Trunk is a trunk of Neutron: a port that carries the traffic of others.
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

// SetExtension switches an extension of Neutron on or off, like an operator who restarts it with
// another configuration. An unknown alias is an error.
func (s *Cloud) SetExtension(alias string, on bool) error {
	return s.network.SetExtension(alias, on)
}

// AddFloatingIP creates a floating IP and returns its ID. It panics if the cloud would refuse it.
func (s *Cloud) AddFloatingIP(spec FloatingIP) string { return s.network.FloatingIPs.Add(spec) }

// FloatingIPs are the floating IPs of all projects, sorted by ID.
func (s *Cloud) FloatingIPs() []FloatingIP { return s.network.FloatingIPs.Snapshot() }

// UpdateFloatingIP changes a floating IP by the API's rules, like another client.
func (s *Cloud) UpdateFloatingIP(id string, change func(*FloatingIP)) error {
	return s.network.FloatingIPs.Update(id, change)
}

// DeleteFloatingIP deletes a floating IP, like another client.
func (s *Cloud) DeleteFloatingIP(id string) error { return s.network.FloatingIPs.Delete(id) }

// AddNetwork creates a network and returns its ID. It panics if the cloud would refuse it.
func (s *Cloud) AddNetwork(spec Network) string { return s.network.Networks.Add(spec) }

// Networks are the networks of all projects, sorted by ID.
func (s *Cloud) Networks() []Network { return s.network.Networks.Snapshot() }

// SetNetworkQuota limits how many of a resource each project may have: "network", "subnet", "port",
// "router", "floatingip", "security_group", "security_group_rule" or "trunk"; "router_route" limits
// the routes of a router. Users' requests for more are refused with 409 OverQuota. Resources that
// services and the methods of Cloud create count, but are not refused. The default and a negative
// limit mean no limit.
func (s *Cloud) SetNetworkQuota(resource string, limit int) {
	s.network.SetNetworkQuota(resource, limit)
}

// AddPort creates a port and returns its ID. It panics if the cloud would refuse it.
func (s *Cloud) AddPort(spec Port) string { return s.network.Ports.Add(spec) }

// Ports are the ports of all projects, including Neutron's own ones, sorted by ID.
func (s *Cloud) Ports() []Port { return s.network.Ports.Snapshot() }

// UpdatePort changes a port by the API's rules, like another client.
func (s *Cloud) UpdatePort(id string, change func(*Port)) error {
	return s.network.Ports.Update(id, change)
}

// DeletePort deletes a port, like another client. Its floating IP stays, without a port.
func (s *Cloud) DeletePort(id string) error { return s.network.Ports.Delete(id) }

// AddRouter creates a router and returns its ID. It panics if the cloud would refuse it. Like
// [Cloud.SetRoutes], it does not check the routes.
func (s *Cloud) AddRouter(spec Router) string { return s.network.AddRouter(spec) }

// Routes are the extra routes of a router, as in its "routes". They are empty for an unknown
// router.
func (s *Cloud) Routes(routerID string) []Route { return s.network.Routes(routerID) }

// SetRoutes replaces the routes of a router, like another client, but without the checks of the
// API: a next hop may be unreachable.
func (s *Cloud) SetRoutes(routerID string, routes ...Route) error {
	return s.network.SetRoutes(routerID, routes...)
}

// ConnectSubnet connects a router to a subnet, with the address of the subnet's gateway.
func (s *Cloud) ConnectSubnet(routerID, subnetID string) error {
	return s.network.ConnectSubnet(routerID, subnetID)
}

// DeleteRouter deletes a router with its interfaces and routes, like another client.
func (s *Cloud) DeleteRouter(id string) error { return s.network.DeleteRouter(id) }

// SetMaxRoutes limits the routes of each router, like Neutron's max_routes, whose default is 30.
// More routes are refused with 400 RoutesExhausted. 0, which is the default here, means no limit.
// Newer releases limit routes by a quota, see [Cloud.SetNetworkQuota].
func (s *Cloud) SetMaxRoutes(routes int) { s.network.SetMaxRoutes(routes) }

// AddSecurityGroup creates a security group with the two egress rules of a new group, and returns
// its ID. It panics if the cloud would refuse it.
func (s *Cloud) AddSecurityGroup(spec SecurityGroup) string {
	return s.network.SecurityGroups.Add(spec)
}

// AddSecurityGroupRule creates a rule and returns its ID. It panics if the cloud would refuse it.
func (s *Cloud) AddSecurityGroupRule(spec SecurityGroupRule) string {
	return s.network.SecurityGroupRules.Add(spec)
}

// SecurityGroups are the security groups of all projects, sorted by ID.
func (s *Cloud) SecurityGroups() []SecurityGroup { return s.network.SecurityGroups.Snapshot() }

// SecurityGroupRules are the rules of all projects, sorted by ID.
func (s *Cloud) SecurityGroupRules() []SecurityGroupRule {
	return s.network.SecurityGroupRules.Snapshot()
}

// DeleteSecurityGroup deletes a security group with its rules, like another client. It is an error
// if the group is in use.
func (s *Cloud) DeleteSecurityGroup(id string) error { return s.network.SecurityGroups.Delete(id) }

// AddSubnet creates a subnet and returns its ID. It panics if the cloud would refuse it.
func (s *Cloud) AddSubnet(spec Subnet) string { return s.network.Subnets.Add(spec) }

// AddTrunk creates a trunk and returns its ID. It panics if the cloud would refuse it.
func (s *Cloud) AddTrunk(spec Trunk) string { return s.network.Trunks.Add(spec) }
