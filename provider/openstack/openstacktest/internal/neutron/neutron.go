package neutron

import (
	"reflect"
	"slices"

	"github.com/fxccm/fxccm/provider/openstack/openstacktest/internal/api"
)

const networkPath = "/networking"

// Options configure Neutron; package openstacktest documents them.
type Options struct {
	// WithoutExtensions lists the aliases of extensions that are off.
	WithoutExtensions   []string
	UserChosenAddresses bool
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

	networks           *kind[Network]
	subnets            *kind[Subnet]
	ports              *kind[Port]
	routers            *kind[Router]
	floatingIPs        *kind[FloatingIP]
	securityGroups     *kind[SecurityGroup]
	securityGroupRules *kind[SecurityGroupRule]
	trunks             *kind[Trunk]

	addresses      addresses
	portsByDevice  map[string][]string
	floatingByPort map[string][]string
	// macs counts the MAC addresses that were made.
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
	n.networks, n.subnets, n.ports = n.networkKind(), n.subnetKind(), n.portKind()
	n.routers, n.floatingIPs, n.trunks = n.routerKind(), n.floatingIPKind(), n.trunkKind()
	n.securityGroups, n.securityGroupRules = n.securityGroupKind(), n.securityGroupRuleKind()
	return n
}

// Operations are the operations of Neutron.
func (n *Service) Operations() []operation {
	fixed := func(name, pattern string, handle func(*request) answer) operation {
		return operation{Service: api.ServiceNetwork, Name: name, Pattern: pattern, Handle: handle}
	}
	open := func(op operation) operation { op.Open = true; return op }
	return slices.Concat(
		[]operation{
			open(fixed("version_list", "GET "+networkPath, networkVersions)),
			open(fixed("version_list", "GET "+networkPath+"/{$}", networkVersions)),
			fixed("network_resource_list", "GET "+networkPath+"/v2.0", n.listResources),
			fixed("network_resource_list", "GET "+networkPath+"/v2.0/{$}", n.listResources),
			fixed("network_extension_list", "GET "+networkPath+"/v2.0/extensions",
				n.listExtensions),
			fixed("network_extension_get", "GET "+networkPath+"/v2.0/extensions/{alias}",
				neutronHandler(n.getExtension)),
		},
		n.networks.operations(), n.networks.tagOperations(),
		n.subnets.operations(), n.subnets.tagOperations(),
		n.ports.operations(), n.ports.tagOperations(),
		n.routers.operations(), n.routers.tagOperations(),
		[]operation{
			n.routers.action("add_extraroutes", "add_extraroutes", n.addRoutes),
			n.routers.action("remove_extraroutes", "remove_extraroutes", n.removeRoutes),
			n.routers.action("interface_add", "add_router_interface", n.addInterface),
			n.routers.action("interface_remove", "remove_router_interface", n.removeInterface),
		},
		n.floatingIPs.operations(), n.floatingIPs.tagOperations(),
		n.securityGroups.operations(), n.securityGroups.tagOperations(),
		n.securityGroupRules.operations(),
		n.trunks.operations(), n.trunks.tagOperations(),
		[]operation{
			n.trunks.action("subport_add", "add_subports", n.addSubports),
			n.trunks.action("subport_remove", "remove_subports", n.removeSubports),
			n.trunks.serve("subport_list", "GET "+networkPath+"/v2.0/trunks/{id}/get_subports",
				n.getSubports),
		},
	)
}

// networkVersions needs no token.
func networkVersions(r *request) answer {
	return api.OK(object{"versions": []object{{
		"id": "v2.0", "status": "CURRENT",
		"links": []object{{"rel": "self", "href": networkURL(r, "")}},
	}}})
}

// networkURL is an address of Neutron's, at the interface that the caller uses.
func networkURL(r *request, path string) string {
	return r.State.URL + r.InterfacePrefix() + networkPath + "/v2.0/" + path
}

func (n *Service) listResources(r *request) answer {
	resources := []object{}
	for _, collection := range []string{"network", "subnet", "port"} {
		resources = append(resources, object{
			"name": collection, "collection": collection + "s",
			"links": []object{{"rel": "self", "href": networkURL(r, collection+"s")}},
		})
	}
	return api.OK(object{"resources": resources})
}

// callerOf is the user of a request.
func callerOf(r *request) caller { return callerFrom(r.Caller) }

func callerFrom(c api.Caller) caller { return caller{project: c.ProjectID, admin: c.Admin} }

// SetNetworkQuota limits how many of a resource each project may have: "network", "subnet", "port",
// "router", "floatingip", "security_group", "security_group_rule" or "trunk", or how many routes a
// router: "router_route". Users' requests for more are refused with 409 OverQuota; what services
// and the methods of Cloud create counts, and is not refused. Default, and with a limit below 0: no
// limit.
func (n *Service) SetNetworkQuota(resource string, limit int) {
	n.Mu.Lock()
	defer n.Mu.Unlock()
	if limit < 0 {
		delete(n.quotas, resource)
		return
	}
	n.quotas[resource] = limit
}

// add creates a resource by the rules of the API, for the methods of Cloud.
func add[T any](n *Service, k *kind[T], spec T) string {
	n.Mu.Lock()
	defer n.Mu.Unlock()
	n.Settle()
	row := cloned(spec)
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

func update[T any](n *Service, k *kind[T], id string, change func(*T)) error {
	n.Mu.Lock()
	defer n.Mu.Unlock()
	n.Settle()
	row, err := k.find(id)
	if err != nil {
		return err
	}
	return k.change(neutronItself(), row, func(changed *T) error {
		own := cloned(*changed)
		change(&own)
		*changed = own
		return nil
	})
}

func remove[T any](n *Service, k *kind[T], id string) error {
	n.Mu.Lock()
	defer n.Mu.Unlock()
	n.Settle()
	row, err := k.find(id)
	if err != nil {
		return err
	}
	return k.remove(neutronItself(), row)
}

func snapshot[T any](n *Service, k *kind[T]) []T {
	n.Mu.Lock()
	defer n.Mu.Unlock()
	n.Settle()
	rows := make([]T, 0, len(k.order))
	for _, row := range k.all() {
		rows = append(rows, cloned(*row))
	}
	return rows
}

// cloned is a copy that shares no list with the row: what the cloud has is never given away.
func cloned[T any](row T) T {
	value := reflect.ValueOf(&row).Elem()
	for i := range value.NumField() {
		field := value.Field(i)
		if field.Kind() != reflect.Slice || field.IsNil() {
			continue
		}
		list := reflect.MakeSlice(field.Type(), field.Len(), field.Len())
		reflect.Copy(list, field)
		field.Set(list)
	}
	return row
}
