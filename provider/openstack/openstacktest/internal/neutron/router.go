package neutron

import (
	"encoding/json"
	"errors"
	"slices"

	"github.com/fxccm/fxccm/provider/openstack/openstacktest/internal/api"
	"github.com/fxccm/fxccm/provider/openstack/openstacktest/internal/resource"
)

// Router is a router of Neutron. The zero value of each field is the usual one of a new router.
type Router struct {
	ID   string `api:"id,ro"`
	Name string `api:"name"`
	// ProjectID is the owner. Default: the default project.
	ProjectID string `api:"project_id|tenant_id,ro"`
	// ExternalNetworkID is the network of its gateway. Default: no gateway.
	ExternalNetworkID string
	// GatewayIPs are the gateway's addresses. The default is that of a port.
	GatewayIPs []FixedIP
	// Subnets are its connected subnets. AddRouter uses their gateways' addresses.
	Subnets []string
	// Routes are its extra routes.
	Routes []Route  `api:"routes,update,nofilter,feature=extraroute"`
	Tags   []string `api:"tags,ro,feature=standard-attr-tag"`
	Stamps
}

// AddRouter implements Cloud.AddRouter.
func (n *Service) AddRouter(spec Router) string {
	subnets, routes := spec.Subnets, spec.Routes
	spec.Subnets, spec.Routes = nil, nil
	id := n.Routers.Add(spec)
	errs := []error{n.SetRoutes(id, routes...)}
	for _, subnet := range subnets {
		errs = append(errs, n.ConnectSubnet(id, subnet))
	}
	if err := errors.Join(errs...); err != nil {
		panic("openstacktest: add router: " + err.Error())
	}
	return id
}

// Routes implements Cloud.Routes.
func (n *Service) Routes(routerID string) []Route {
	defer n.Enter()()
	row, err := n.Routers.Find(routerID)
	if err != nil {
		return nil
	}
	return slices.Clone(row.Routes)
}

// SetRoutes implements Cloud.SetRoutes.
func (n *Service) SetRoutes(routerID string, routes ...Route) error {
	defer n.Enter()()
	row, err := n.Routers.Find(routerID)
	if err != nil {
		return err
	}
	if !slices.Equal(row.Routes, routes) {
		row.Routes = slices.Clone(routes)
		n.Routers.touch(row)
	}
	return nil
}

// ConnectSubnet connects a router to a subnet, with the address of the subnet's gateway.
func (n *Service) ConnectSubnet(routerID, subnetID string) error {
	defer n.Enter()()
	row, err := n.Routers.Find(routerID)
	if err != nil {
		return err
	}
	_, err = n.connectSubnet(neutronItself(), row, subnetID)
	return err
}

// DeleteRouter deletes a router with its interfaces and routes, like another client.
func (n *Service) DeleteRouter(id string) error {
	defer n.Enter()()
	row, err := n.Routers.Find(id)
	if err != nil {
		return err
	}
	for _, port := range n.PortsOf(id) {
		n.Ports.forget(port)
	}
	n.Routers.forget(row)
	return nil
}

// SetMaxRoutes implements Cloud.SetMaxRoutes.
func (n *Service) SetMaxRoutes(routes int) {
	defer n.Enter()()
	n.maxRoutes = routes
}

func (n *Service) routerKind() *kind[Router] {
	k := newKind(n, kind[Router]{
		member: "router", extension: "router",
		missing: notFound("RouterNotFound", "Router %s could not be found"),
		kept:    true,
		admit:   n.admitRouter,
		settled: n.settleRouter,
	},
		resource.Shown("status", func(*Router) any { return "ACTIVE" }), gatewayField())
	k.fields.Field("routes").Set = setRoutes
	return k
}

// gatewayInfo is external_gateway_info.
type gatewayInfo struct {
	NetworkID string    `json:"network_id"`
	FixedIPs  []FixedIP `json:"external_fixed_ips,omitempty"`
}

func gatewayField() resource.Field[Router] {
	return resource.Field[Router]{
		Name: "external_gateway_info", Unfiltered: true, Feature: "ext-gw-mode",
		Get: func(row *Router) any {
			if row.ExternalNetworkID == "" {
				return nil
			}
			return gatewayInfo{row.ExternalNetworkID, row.GatewayIPs}
		},
		Set: func(row *Router, raw json.RawMessage) error {
			var given gatewayInfo
			err := json.Unmarshal(raw, &given)
			if given.NetworkID != row.ExternalNetworkID {
				row.ExternalNetworkID, row.GatewayIPs = given.NetworkID, given.FixedIPs
			}
			return err
		},
	}
}

func (n *Service) admitRouter(c caller, old, row *Router) error {
	if old != nil && !slices.Equal(old.Routes, row.Routes) {
		err := n.checkRoutes(row, row.Routes)
		row.Routes = canonicalRoutes(old.Routes, row.Routes)
		return err
	}
	if row.ExternalNetworkID == "" ||
		(old != nil && old.ExternalNetworkID == row.ExternalNetworkID) {
		return nil
	}
	external, err := n.Networks.findFor(c, row.ExternalNetworkID)
	if err != nil {
		return err
	}
	row.GatewayIPs, err = n.allocate(neutronItself(),
		&Port{NetworkID: external.ID, DeviceOwner: OwnerGateway}, row.GatewayIPs)
	return err
}

// settleRouter creates the port of the gateway. The port has no project, so only administrators see
// it.
func (n *Service) settleRouter(_ caller, old, row *Router) {
	if old != nil && old.ExternalNetworkID == row.ExternalNetworkID {
		return
	}
	for _, port := range n.PortsOf(row.ID) {
		if port.DeviceOwner == OwnerGateway {
			n.Ports.forget(port)
		}
	}
	if row.ExternalNetworkID == "" {
		return
	}
	// It cannot fail, because the addresses are allocated.
	_, _ = n.CreatePort(Port{
		NetworkID: row.ExternalNetworkID, DeviceID: row.ID, DeviceOwner: OwnerGateway,
		FixedIPs: api.NonNil(row.GatewayIPs),
	})
}

// routerBetween is the router from an internal subnet to an external network; nil for none.
func (n *Service) routerBetween(subnetID, externalID string) *Router {
	for _, router := range n.Routers.All() {
		if router.ExternalNetworkID == externalID && slices.Contains(router.Subnets, subnetID) {
			return router
		}
	}
	return nil
}

func (n *Service) addInterface(r *request, c caller, row *Router) (answer, error) {
	var given struct {
		SubnetID string `json:"subnet_id"`
	}
	if err := r.Decode(&given); err != nil {
		return answer{}, err
	}
	port, err := n.connectSubnet(c, row, given.SubnetID)
	if err != nil {
		return answer{}, err
	}
	return api.OK(object{"id": row.ID, "port_id": port.ID, "subnet_id": given.SubnetID}), nil
}

// connectSubnet gives a router a port with the address of the subnet's gateway. The router gets a
// new revision.
func (n *Service) connectSubnet(c caller, row *Router, subnetID string) (*Port, error) {
	subnet, err := n.Subnets.findFor(c, subnetID)
	if err != nil {
		return nil, err
	}
	if subnet.NoGateway {
		return nil, neutronBadRequest("BadRequest",
			"Bad router request: Subnet for router interface must have a gateway IP.")
	}
	port, err := n.CreatePort(Port{
		NetworkID: subnet.NetworkID, ProjectID: row.ProjectID, DeviceID: row.ID,
		DeviceOwner: OwnerInterface,
		FixedIPs:    []FixedIP{{subnet.ID, subnet.Gateway}},
	})
	if err == nil {
		row.Subnets = append(slices.Clip(row.Subnets), subnet.ID)
		n.Routers.touch(row)
	}
	return port, err
}
