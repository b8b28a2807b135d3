package neutron

import (
	"slices"

	"github.com/fxccm/fxccm/provider/openstack/openstacktest/internal/api"
	"github.com/fxccm/fxccm/provider/openstack/openstacktest/internal/resource"
)

const networkPath = "/networking"

// Options configure Neutron; package openstacktest documents them.
type Options struct {
	// WithoutExtensions lists the aliases of extensions that are off.
	WithoutExtensions   []string
	UserChosenAddresses bool
	// ExternalSubnets lets all projects see the subnets of external networks.
	ExternalSubnets bool
}

type (
	answer    = api.Answer
	object    = api.Object
	operation = api.Operation
	request   = api.Request
)

// Service is Neutron.
type Service struct {
	*api.State
	options Options

	Networks           *kind[Network]
	Subnets            *kind[Subnet]
	Ports              *kind[Port]
	Routers            *kind[Router]
	FloatingIPs        *kind[FloatingIP]
	SecurityGroups     *kind[SecurityGroup]
	SecurityGroupRules *kind[SecurityGroupRule]
	Trunks             *kind[Trunk]

	addresses      addresses
	portsByDevice  map[string][]string
	floatingByPort map[string][]string
	// macs counts the generated MAC addresses.
	macs uint32

	off       map[string]bool
	quotas    map[string]int
	maxRoutes int
}

// New returns an empty Neutron.
func New(state *api.State, options Options) *Service {
	n := &Service{
		State: state, options: options, addresses: newAddresses(),
		portsByDevice: map[string][]string{}, floatingByPort: map[string][]string{},
		off: map[string]bool{}, quotas: map[string]int{},
	}
	for _, alias := range options.WithoutExtensions {
		n.off[alias] = true
	}
	n.Networks, n.Subnets, n.Ports = n.networkKind(), n.subnetKind(), n.portKind()
	n.Routers, n.FloatingIPs, n.Trunks = n.routerKind(), n.floatingIPKind(), n.trunkKind()
	n.SecurityGroups, n.SecurityGroupRules = n.securityGroupKind(), n.securityGroupRuleKind()
	return n
}

// Operations are the operations of Neutron.
func (n *Service) Operations() []operation {
	fixed := func(name, pattern string, handle func(*request) (answer, error),
	) operation {
		return operation{Service: api.ServiceNetwork, Name: name, Pattern: pattern, Handle: handle}
	}
	open := func(op operation) operation { op.Open = true; return op }
	return slices.Concat(
		[]operation{
			open(fixed("version_list", "GET "+networkPath, networkVersions)),
			open(fixed("version_list", "GET "+networkPath+"/{$}", networkVersions)),
			fixed("network_extension_list", "GET "+networkPath+"/v2.0/extensions",
				n.listExtensions),
			fixed("quota_details", "GET "+networkPath+"/v2.0/quotas/{project}/details.json",
				n.quotaDetails),
		},
		n.Networks.operations(), n.Networks.tagOperations(),
		n.Subnets.operations(), n.Subnets.tagOperations(),
		n.Ports.operations(), n.Ports.tagOperations(),
		n.Routers.operations(), n.Routers.tagOperations(),
		[]operation{
			n.Routers.action("add_extraroutes", "add_extraroutes", n.addRoutes),
			n.Routers.action("remove_extraroutes", "remove_extraroutes", n.removeRoutes),
			n.Routers.action("interface_add", "add_router_interface", n.addInterface),
		},
		n.FloatingIPs.operations(), n.FloatingIPs.tagOperations(),
		n.SecurityGroups.operations(), n.SecurityGroups.tagOperations(),
		n.SecurityGroupRules.operations(),
		n.Trunks.operations(), n.Trunks.tagOperations(),
	)
}

// networkVersions needs no token.
func networkVersions(r *request) (answer, error) {
	return api.OK(object{"versions": []object{{
		"id": "v2.0", "status": "CURRENT",
		"links": []object{{"rel": "self", "href": networkURL(r, "")}},
	}}}), nil
}

// networkURL is an address of Neutron's, at the interface that the caller uses.
func networkURL(r *request, path string) string {
	return r.State.URL + r.InterfacePrefix() + networkPath + "/v2.0/" + path
}

// callerOf is the user of a request.
func callerOf(r *request) caller { return callerFrom(r.Caller) }

func callerFrom(c api.Caller) caller { return caller{project: c.ProjectID, admin: c.Admin} }

// SetNetworkQuota implements Cloud.SetNetworkQuota.
func (n *Service) SetNetworkQuota(resource string, limit int) {
	defer n.Enter()()
	if limit < 0 {
		delete(n.quotas, resource)
		return
	}
	n.quotas[resource] = limit
}

// The following methods are for package openstacktest. They follow the rules of the API.

// Add creates a resource and returns its ID. It panics if the API would refuse it.
func (k *kind[T]) Add(spec T) string {
	n := k.network
	defer n.Enter()()
	row := resource.Clone(spec)
	if k.prepare != nil {
		k.prepare(&row)
	}
	if *k.standard(&row).project == "" {
		*k.standard(&row).project = n.DefaultProject
	}
	if err := k.insert(neutronItself(), &row); err != nil {
		panic("openstacktest: add " + k.member + ": " + err.Error())
	}
	return k.id(&row)
}

// Update changes a resource.
func (k *kind[T]) Update(id string, change func(*T)) error {
	return k.outside(id, func(row *T) error {
		return k.change(neutronItself(), row, func(changed *T) error {
			own := resource.Clone(*changed)
			change(&own)
			*changed = own
			return nil
		})
	})
}

// Delete deletes a resource.
func (k *kind[T]) Delete(id string) error {
	return k.outside(id, func(row *T) error { return k.remove(neutronItself(), row) })
}

// outside applies do to a resource, for a caller without the lock.
func (k *kind[T]) outside(id string, do func(*T) error) error {
	defer k.network.Enter()()
	row, err := k.Find(id)
	if err != nil {
		return err
	}
	return do(row)
}

// Snapshot returns copies of all resources of all projects, sorted by ID.
func (k *kind[T]) Snapshot() []T {
	defer k.network.Enter()()
	rows := make([]T, 0, len(k.order))
	for _, row := range k.All() {
		rows = append(rows, resource.Clone(*row))
	}
	return rows
}
