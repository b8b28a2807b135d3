package neutron

import (
	"encoding/json"
	"net/netip"
	"slices"
	"strings"
	"time"

	"github.com/fxccm/fxccm/provider/openstack/openstacktest/internal/api"
	"github.com/fxccm/fxccm/provider/openstack/openstacktest/internal/resource"
)

// Router is a router of Neutron's. The zero value of each field is what a new router usually has.
type Router struct {
	ID          string `api:"id,ro"`
	Name        string `api:"name"`
	Description string `api:"description"`
	// ProjectID is the owner. Default: the default project.
	ProjectID string `api:"project_id|tenant_id,ro"`
	// ExternalNetworkID is the network of its gateway. Default: it has none.
	ExternalNetworkID string
	// NoSNAT has no address translation for what has no floating IP.
	NoSNAT bool
	// GatewayIPs are the gateway's addresses. Default: as a port's.
	GatewayIPs []FixedIP
	// Subnets are those that it is connected to. For AddRouter: with their gateways' addresses.
	Subnets []string
	// Routes are its extra routes.
	Routes            []Route
	AvailabilityZones []string `api:"availability_zone_hints|availability_zones,create,nofilter,feature=router_availability_zone"`
	// Down routers are administratively down.
	Down bool     `api:"admin_state_up,not"`
	Tags []string `api:"tags,ro,feature=standard-attr-tag"`
	// The cloud sets the following fields.
	RevisionNumber int       `api:"revision_number,ro,feature=standard-attr-revisions"`
	CreatedAt      time.Time `api:"created_at,ro,format=2006-01-02T15:04:05Z,feature=standard-attr-timestamp"`
	UpdatedAt      time.Time `api:"updated_at,ro,format=2006-01-02T15:04:05Z,feature=standard-attr-timestamp"`
}

// AddRouter creates a router and returns its id. It panics if the cloud would refuse it. The routes
// are not checked, as those of [Service.SetRoutes].
func (n *Service) AddRouter(spec Router) string {
	routes := spec.Routes
	spec.Routes = nil
	id := add(n, n.routers, spec)
	if err := n.SetRoutes(id, routes...); err != nil {
		panic("openstacktest: " + err.Error())
	}
	return id
}

// Routers are all routers, of all projects, in the order of their ids.
func (n *Service) Routers() []Router { return snapshot(n, n.routers) }

// Routes are the extra routes of a router, as its "routes" show them; none if there is no such
// router.
func (n *Service) Routes(routerID string) []Route {
	n.Mu.Lock()
	defer n.Mu.Unlock()
	row, err := n.routers.find(routerID)
	if err != nil {
		return nil
	}
	return slices.Clone(row.Routes)
}

// SetRoutes gives a router these routes and no others, as another client does, who is not held to
// the API's rules: a next hop may be out of reach.
func (n *Service) SetRoutes(routerID string, routes ...Route) error {
	n.Mu.Lock()
	defer n.Mu.Unlock()
	row, err := n.routers.find(routerID)
	if err != nil {
		return err
	}
	if !slices.Equal(row.Routes, routes) {
		row.Routes = slices.Clone(routes)
		n.routers.touch(row)
	}
	return nil
}

// ConnectSubnet connects a router to a subnet, with the address of the subnet's gateway.
func (n *Service) ConnectSubnet(routerID, subnetID string) error {
	n.Mu.Lock()
	defer n.Mu.Unlock()
	row, err := n.routers.find(routerID)
	if err != nil {
		return err
	}
	_, err = n.connectSubnet(neutronItself(), row, subnetID)
	return err
}

// DeleteRouter deletes a router, as another client does, with its interfaces and routes.
func (n *Service) DeleteRouter(id string) error {
	n.Mu.Lock()
	defer n.Mu.Unlock()
	row, err := n.routers.find(id)
	if err != nil {
		return err
	}
	for _, port := range n.PortsOf(id) {
		n.ports.forget(port)
	}
	n.routers.forget(row)
	return nil
}

// SetMaxRoutes limits the routes of each router; more are refused with 400 RoutesExhausted, as with
// Neutron's max_routes, whose default is 30. 0, which is the default here: no limit. For the limit
// of newer releases, a quota, see [Service.SetNetworkQuota].
func (n *Service) SetMaxRoutes(routes int) {
	n.Mu.Lock()
	defer n.Mu.Unlock()
	n.maxRoutes = routes
}

func (n *Service) routerKind() *kind[Router] {
	return newKind(n, kind[Router]{
		member: "router", collection: "routers", path: "routers", operation: "router",
		extension: "router",
		missing: func(id string) error {
			return neutronNotFound("RouterNotFound", "Router %s could not be found", id)
		},
		admit:   n.admitRouter,
		settled: n.settleRouter,
		held:    n.holdRouter,
		dismiss: n.dismissRouter,
	},
		resource.Shown("status", func(*Router) any { return "ACTIVE" }),
		gatewayField(), routesField())
}

// gatewayInfo is external_gateway_info.
type gatewayInfo struct {
	NetworkID  string    `json:"network_id"`
	EnableSNAT *bool     `json:"enable_snat,omitempty"`
	FixedIPs   []FixedIP `json:"external_fixed_ips,omitempty"`
}

func gatewayField() resource.Field[Router] {
	return resource.Field[Router]{
		Name: "external_gateway_info", Unfiltered: true, Feature: "ext-gw-mode",
		Get: func(row *Router) any {
			if row.ExternalNetworkID == "" {
				return nil
			}
			snat := !row.NoSNAT
			return gatewayInfo{row.ExternalNetworkID, &snat, row.GatewayIPs}
		},
		Set: func(row *Router, raw json.RawMessage) error {
			var given gatewayInfo
			if err := json.Unmarshal(raw, &given); err != nil {
				return invalidInput("external_gateway_info",
					"'"+string(raw)+"' is not a dictionary")
			}
			if given.NetworkID != row.ExternalNetworkID || given.FixedIPs != nil {
				row.GatewayIPs = given.FixedIPs
			}
			row.ExternalNetworkID = given.NetworkID
			row.NoSNAT = given.EnableSNAT != nil && !*given.EnableSNAT
			return nil
		},
	}
}

func (n *Service) admitRouter(c caller, old, row *Router) error {
	if old != nil && !slices.Equal(old.Routes, row.Routes) {
		if err := n.checkRoutes(row, row.Routes); err != nil {
			return err
		}
		row.Routes = canonicalRoutes(old.Routes, row.Routes)
	}
	if old != nil && old.ExternalNetworkID == row.ExternalNetworkID {
		return nil
	}
	if old != nil && old.ExternalNetworkID != "" && n.gatewayInUse(row.ID) {
		return neutronConflict("RouterExternalGatewayInUseByFloatingIp",
			"Gateway cannot be updated for router %s, since "+
				"a gateway to external network %s is required by one or more floating IPs.",
			row.ID, old.ExternalNetworkID)
	}
	if old != nil && len(row.Routes) > 0 {
		if err := n.checkRoutesWithoutGateway(row); err != nil {
			return err
		}
	}
	if row.ExternalNetworkID == "" {
		row.GatewayIPs = nil
		return nil
	}
	external, err := n.networks.findFor(c, row.ExternalNetworkID)
	if err != nil {
		return err
	}
	if !external.External {
		return neutronBadRequest("BadRequest",
			"Bad router request: Network %s is not an external network.", row.ExternalNetworkID)
	}
	row.GatewayIPs, err = n.allocate(neutronItself(),
		&Port{NetworkID: external.ID, DeviceOwner: OwnerGateway}, row.GatewayIPs)
	return err
}

// checkRoutesWithoutGateway refuses to take away the gateway that a route needs.
func (n *Service) checkRoutesWithoutGateway(row *Router) error {
	var left []netip.Prefix
	for _, id := range row.Subnets {
		left = append(left, netip.MustParsePrefix(n.subnets.rows[id].CIDR))
	}
	for _, route := range row.Routes {
		hop, err := netip.ParseAddr(route.NextHop)
		if err == nil &&
			!slices.ContainsFunc(left,
				func(prefix netip.Prefix) bool { return prefix.Contains(hop) }) {
			return invalidRoutes(row.Routes, "the nexthop is not connected with router")
		}
	}
	return nil
}

func (n *Service) gatewayInUse(routerID string) bool {
	return slices.ContainsFunc(n.floatingIPs.all(),
		func(ip *FloatingIP) bool { return ip.RouterID == routerID })
}

// settleRouter gives a router the port of its gateway, and a new one its interfaces. The gateway's
// port is of no project, so that only administrators see it.
func (n *Service) settleRouter(c caller, old, row *Router) error {
	if old == nil {
		subnets := row.Subnets
		row.Subnets = nil
		for _, id := range subnets {
			if _, err := n.connectSubnet(c, row, id); err != nil {
				return err
			}
		}
	}
	if old != nil && old.ExternalNetworkID == row.ExternalNetworkID {
		return nil
	}
	for _, port := range n.PortsOf(row.ID) {
		if port.DeviceOwner == OwnerGateway {
			n.ports.forget(port)
		}
	}
	if row.ExternalNetworkID == "" {
		return nil
	}
	_, err := n.CreatePort(Port{
		NetworkID: row.ExternalNetworkID, DeviceID: row.ID, DeviceOwner: OwnerGateway,
		FixedIPs: api.NonNil(row.GatewayIPs),
	})
	return err
}

func (n *Service) holdRouter(_ caller, row *Router) error {
	for _, port := range n.PortsOf(row.ID) {
		if port.DeviceOwner != OwnerGateway {
			return neutronConflict("RouterInUse", "Router %s has ports still attached: %s", row.ID,
				strings.Join(n.interfacesOf(row.ID), ", "))
		}
	}
	return nil
}

func (n *Service) dismissRouter(_ caller, row *Router) error {
	for _, port := range n.PortsOf(row.ID) {
		n.ports.forget(port)
	}
	return nil
}

// interfacesOf are the ids of the ports of a router but that of its gateway.
func (n *Service) interfacesOf(routerID string) []string {
	var ids []string
	for _, port := range n.PortsOf(routerID) {
		if port.DeviceOwner != OwnerGateway {
			ids = append(ids, port.ID)
		}
	}
	return ids
}

// routerBetween is the router that leads from an internal subnet to an external network; nil for
// none.
func (n *Service) routerBetween(subnetID, externalID string) *Router {
	for _, router := range n.routers.all() {
		if router.ExternalNetworkID == externalID && slices.Contains(router.Subnets, subnetID) {
			return router
		}
	}
	return nil
}

// interfaceBody is what add_router_interface and remove_router_interface are given.
type interfaceBody struct {
	SubnetID string `json:"subnet_id"`
	PortID   string `json:"port_id"`
}

func (n *Service) addInterface(r *request, c caller, row *Router) (answer, error) {
	var given interfaceBody
	if err := r.Decode(&given); err != nil {
		return answer{}, err
	}
	var port *Port
	var err error
	switch {
	case given.SubnetID == "" && given.PortID == "":
		err = neutronBadRequest("BadRequest",
			"Bad router request: Either subnet_id or port_id must be specified.")
	case given.SubnetID != "" && given.PortID != "":
		err = neutronBadRequest("BadRequest",
			"Bad router request: Cannot specify both subnet-id and port-id.")
	case given.PortID != "":
		port, err = n.connectPort(c, row, given.PortID)
	default:
		port, err = n.connectSubnet(c, row, given.SubnetID)
	}
	if err != nil {
		return answer{}, err
	}
	return api.OK(interfaceOf(row, port)), nil
}

func interfaceOf(row *Router, port *Port) object {
	subnets := []string{}
	for _, ip := range port.FixedIPs {
		subnets = append(subnets, ip.SubnetID)
	}
	return object{
		"id": row.ID, "project_id": row.ProjectID, "tenant_id": row.ProjectID, "port_id": port.ID,
		"network_id": port.NetworkID, "subnet_id": subnets[0], "subnet_ids": subnets,
	}
}

func (n *Service) connectSubnet(c caller, row *Router, subnetID string) (*Port, error) {
	subnet, err := n.subnets.findFor(c, subnetID)
	if err != nil {
		return nil, err
	}
	if subnet.NoGateway {
		return nil,
			neutronBadRequest("BadRequest",
				"Bad router request: Subnet for router interface must have a gateway IP.")
	}
	if err := n.checkConnection(row, subnet); err != nil {
		return nil, err
	}
	port, err := n.CreatePort(Port{
		NetworkID: subnet.NetworkID, ProjectID: row.ProjectID, DeviceID: row.ID,
		DeviceOwner: OwnerInterface,
		FixedIPs:    []FixedIP{{subnet.ID, subnet.Gateway}},
	})
	if err == nil {
		n.noteConnections(row)
	}
	return port, err
}

func (n *Service) connectPort(c caller, row *Router, portID string) (*Port, error) {
	port, err := n.ports.findFor(c, portID)
	if err != nil {
		return nil, err
	}
	if port.DeviceID != "" {
		return nil, neutronConflict("PortInUse",
			"Unable to complete operation on port %s for network %s. Port already has an attached device %s.",
			port.ID, port.NetworkID, port.DeviceID)
	}
	if len(port.FixedIPs) == 0 {
		return nil,
			neutronBadRequest("BadRequest",
				"Bad router request: Router port must have at least one fixed IP.")
	}
	for _, ip := range port.FixedIPs {
		if err := n.checkConnection(row, n.subnets.rows[ip.SubnetID]); err != nil {
			return nil, err
		}
	}
	err = n.ports.change(neutronItself(), port, func(changed *Port) error {
		changed.DeviceID, changed.DeviceOwner = row.ID, OwnerInterface
		return nil
	})
	n.noteConnections(row)
	return port, err
}

func (n *Service) checkConnection(row *Router, subnet *Subnet) error {
	for _, id := range row.Subnets {
		if id == subnet.ID {
			return neutronBadRequest("BadRequest",
				"Bad router request: Router already has a port on subnet %s.", id)
		}
		other := n.subnets.rows[id]
		if netip.MustParsePrefix(other.CIDR).Overlaps(netip.MustParsePrefix(subnet.CIDR)) {
			return neutronBadRequest("BadRequest",
				"Bad router request: Cidr %s of subnet %s overlaps with cidr %s of subnet %s.",
				subnet.CIDR, subnet.ID, other.CIDR, other.ID)
		}
	}
	return nil
}

// noteConnections keeps the list of a router's subnets up to date. A router's revision grows with
// its interfaces.
func (n *Service) noteConnections(row *Router) {
	subnets := []string{}
	for _, port := range n.PortsOf(row.ID) {
		if port.DeviceOwner == OwnerGateway {
			continue
		}
		for _, ip := range port.FixedIPs {
			subnets = append(subnets, ip.SubnetID)
		}
	}
	row.Subnets = subnets
	n.routers.touch(row)
}

func (n *Service) removeInterface(r *request, c caller, row *Router) (answer, error) {
	var given interfaceBody
	if err := r.Decode(&given); err != nil {
		return answer{}, err
	}
	port, err := n.interfacePort(row, given)
	if err != nil {
		return answer{}, err
	}
	for _, ip := range port.FixedIPs {
		if err := n.checkDisconnection(row, ip.SubnetID); err != nil {
			return answer{}, err
		}
	}
	shown := interfaceOf(row, port)
	if err := n.RemovePort(port.ID); err != nil {
		return answer{}, err
	}
	n.noteConnections(row)
	return api.OK(shown), nil
}

func (n *Service) interfacePort(row *Router, given interfaceBody) (*Port, error) {
	for _, port := range n.PortsOf(row.ID) {
		if port.DeviceOwner == OwnerGateway || (given.PortID != "" && given.PortID != port.ID) {
			continue
		}
		onSubnet := func(ip FixedIP) bool { return ip.SubnetID == given.SubnetID }
		if given.SubnetID == "" || slices.ContainsFunc(port.FixedIPs, onSubnet) {
			return port, nil
		}
	}
	if given.PortID != "" {
		return nil,
			neutronNotFound("RouterInterfaceNotFound",
				"Router %s does not have an interface with id %s", row.ID, given.PortID)
	}
	return nil,
		neutronNotFound("RouterInterfaceNotFoundForSubnet",
			"Router %s has no interface on subnet %s", row.ID, given.SubnetID)
}

func (n *Service) checkDisconnection(row *Router, subnetID string) error {
	prefix := netip.MustParsePrefix(n.subnets.rows[subnetID].CIDR)
	for _, route := range row.Routes {
		if hop, err := netip.ParseAddr(route.NextHop); err == nil && prefix.Contains(hop) {
			return neutronConflict("RouterInterfaceInUseByRoute",
				"Router interface for subnet %s on router %s cannot be deleted, as it is required by one or more routes.",
				subnetID, row.ID)
		}
	}
	for _, ip := range n.floatingIPs.all() {
		if ip.RouterID != row.ID {
			continue
		}
		if fixed, err := netip.ParseAddr(ip.FixedAddress); err == nil && prefix.Contains(fixed) {
			return neutronConflict("RouterInterfaceInUseByFloatingIP",
				"Router interface for subnet %s on router %s cannot be deleted, as it is required by one or more floating IPs.",
				subnetID, row.ID)
		}
	}
	return nil
}
