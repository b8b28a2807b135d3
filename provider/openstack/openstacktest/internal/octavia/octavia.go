// Package octavia is the simulated Octavia.
package octavia

import (
	"encoding/json"
	"net/http"
	"slices"
	"strconv"

	"github.com/fxccm/fxccm/provider/openstack/openstacktest/internal/api"
	"github.com/fxccm/fxccm/provider/openstack/openstacktest/internal/neutron"
)

const root = "/load-balancer"

// Service is Octavia.
type Service struct {
	*api.State
	options Options
	types   types
	kinds   kinds
	network *neutron.Service
	// holds reports whether Barbican has a container or a secret.
	holds func(ref string) bool

	// trees are the load balancers in the order of their creation.
	trees   []*tree
	rules   []*provisioningRule
	flavors []string
	zones   []string
	// quotas are the limits of each project by resource; a missing resource has no limit.
	quotas map[string]int
}

// New returns an empty Octavia.
func New(
	state *api.State, network *neutron.Service, holds func(ref string) bool, options Options,
) *Service {
	types := typesAt(options.Minor)
	return &Service{
		State: state, options: options, types: types, kinds: kindsOf(types), network: network,
		holds: holds, quotas: map[string]int{},
	}
}

type (
	answer = api.Answer
	object = api.Object
	// body is an object in the body of a request.
	body = map[string]json.RawMessage
)

// request is a request to Octavia.
type request struct {
	*api.Request
	octavia *Service
	kind    kind
	// given is the resource in the body; see [request.prepare].
	given body
	// target is the resource that the request is about; see [request.prepare].
	target
}

// tree is a load balancer with all resources below it.
type tree struct {
	LoadBalancer
	// ownsPort is true if Octavia created the VIP's port and deletes it.
	ownsPort bool
	// doomed is true if the next work fails.
	doomed bool
	// healing is true if the current work is a failover.
	healing bool
	work    *task
}

// resources are all resources of the tree, from the top.
func (t *tree) resources() []*OctaviaResource {
	all := []*OctaviaResource{&t.OctaviaResource}
	for l := range each(t.Listeners) {
		all = append(all, &l.OctaviaResource)
	}
	for p := range each(t.Pools) {
		all = append(all, p.resources()...)
	}
	return all
}

// resources are all resources of the pool.
func (p *Pool) resources() []*OctaviaResource {
	all := []*OctaviaResource{&p.OctaviaResource}
	for m := range each(p.Members) {
		all = append(all, &m.OctaviaResource)
	}
	if p.Monitor != nil {
		all = append(all, &p.Monitor.OctaviaResource)
	}
	return all
}

// pool is nil for no id.
func (t *tree) pool(id string) *Pool {
	for p := range each(t.Pools) {
		if p.ID == id && id != "" {
			return p
		}
	}
	return nil
}

// listenersOf are the listeners with the pool as their default pool.
func (t *tree) listenersOf(p *Pool) []*Listener {
	var listeners []*Listener
	for l := range each(t.Listeners) {
		if l.DefaultPoolID == p.ID && p.ID != "" {
			listeners = append(listeners, l)
		}
	}
	return listeners
}

// addresses are the addresses of the VIPs.
func (t *tree) addresses() []string {
	all := []string{t.VIPAddress}
	for _, vip := range t.AdditionalVIPs {
		all = append(all, vip.Address)
	}
	return all
}

// Operations are the operations of Octavia.
func (s *Service) Operations() []api.Operation {
	var all []api.Operation
	open := func(name, path string, handle func(*api.Request) (answer, error)) {
		all = append(all, api.Operation{
			Service: api.ServiceLoadBalancer, Name: name, Pattern: "GET " + root + path,
			Open: name == "version_list", Handle: handle,
		})
	}
	open("version_list", "", s.versions)
	open("version_list", "/{$}", s.versions)
	for _, path := range []string{"/v2", "/v2.0", "/v2/lbaas", "/v2.0/lbaas"} {
		open("version_get", path, version)
	}
	// The API serves both versions (octavia/api/root_controller.py); gophercloud uses v2.0.
	return slices.Concat(all, s.operations(root+"/v2.0"), s.operations(root+"/v2"))
}

func (s *Service) operations(root string) []api.Operation {
	lbaas := root + "/lbaas/"
	var operations []api.Operation
	add := func(k kind, name, method, path string, hasBody bool, handle handling) {
		operations = append(operations, api.Operation{
			Service: api.ServiceLoadBalancer, Name: name, Pattern: method + " " + path,
			Handle: func(r *api.Request) (answer, error) {
				req := &request{Request: r, octavia: s, kind: k}
				if err := req.prepare(hasBody); err != nil {
					return answer{}, err
				}
				return handle(req)
			},
		})
	}
	// gophercloud requests quotas outside lbaas, where V2Controller serves the same resources.
	add(kind{}, "loadbalancer_quota", "GET", root+"/quotas/{project}", false, getQuota)
	all := s.kinds
	for _, k := range []kind{
		all.loadBalancer, all.listener, all.pool, all.member, all.monitor,
	} {
		path, id := lbaas+k.path, lbaas+k.path+"/{id}"
		add(k, k.operation+"_list", "GET", path, false, list)
		add(k, k.operation+"_create", "POST", path, true, k.create)
		add(k, k.operation+"_get", "GET", id, false, get)
		add(k, k.operation+"_update", "PUT", id, true, k.update)
		add(k, k.operation+"_delete", "DELETE", id, false, k.remove)
	}
	k, id := all.loadBalancer, lbaas+"loadbalancers/{id}"
	add(k, "loadbalancer_failover", "PUT", id+"/failover", false, failOver)
	add(k, "loadbalancer_status", "GET", id+"/status", false, getStatus)
	add(k, "loadbalancer_status", "GET", id+"/statuses", false, getStatus)
	add(all.member, "loadbalancer_members_update", "PUT", lbaas+"pools/{pool}/members",
		false, updateMembers)
	return operations
}

// versions is the list of API versions, the newest last.
func (s *Service) versions(*api.Request) (answer, error) {
	versions := []object{}
	newest := s.options.Minor
	for minor := 0; minor <= newest; minor++ {
		status := "SUPPORTED"
		if minor == newest {
			status = "CURRENT"
		}
		versions = append(versions, object{
			"id": "v2." + strconv.Itoa(minor), "status": status, "updated": "2016-12-11T00:00:00Z",
			"links": []object{{"rel": "self", "href": s.URL + root + "/v2"}},
		})
	}
	return api.OK(object{"versions": versions}), nil
}

// version is the same answer for all versions.
func version(*api.Request) (answer, error) { return api.OK("v2"), nil }

// handling executes an operation, or returns why it is refused.
type handling func(*request) (answer, error)

func (r *request) readBody() error {
	name := r.kind.name
	var all map[string]body
	if err := decode(r, &all); err != nil {
		return err
	}
	if r.given = all[name]; r.given == nil {
		return badInput(name, "None", "Mandatory field missing.")
	}
	for other := range all {
		if other != name {
			return api.Refuse(http.StatusBadRequest, "Unknown attribute for argument %s_: %s",
				name, other)
		}
	}
	return nil
}

func decode(r *request, v any) error {
	if err := r.Decode(v); err != nil {
		return api.Refuse(http.StatusBadRequest, "Request is not in valid JSON format: %s", err)
	}
	return nil
}

// admitCaller refuses resources of other projects. The real service answers 403 here, not 404.
func admitCaller(r *request, project string) error {
	if !r.IsAdmin() && r.ProjectID() != project {
		return forbidden()
	}
	return nil
}
