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
	network *neutron.Service
	// holds reports whether Barbican has a container or a secret.
	holds func(ref string) bool

	// trees are the load balancers in the order of their creation.
	trees   []*tree
	rules   []*provisioningRule
	flavors []LoadBalancerFlavor
	zones   []string
	// quotas are the limits of each project by resource; a missing resource has no limit.
	quotas map[string]int
}

// New returns an empty Octavia.
func New(
	state *api.State, network *neutron.Service, holds func(ref string) bool, options Options,
) *Service {
	return &Service{
		State: state, options: options, types: typesAt(options.Minor), network: network,
		holds: holds, quotas: map[string]int{},
	}
}

type (
	answer = api.Answer
	object = api.Object
)

// request is a request to Octavia.
type request struct {
	*api.Request
	octavia *Service
	// given is the resource in the body; see withBody.
	given map[string]json.RawMessage
	// target is the resource that the request is about; see [kind.on].
	target
}

// tree is a load balancer with all resources below it. The lists in the rows are empty.
type tree struct {
	LoadBalancer
	listeners []*Listener
	pools     []*poolTree
	// ownsPort is true if Octavia created the VIP's port and deletes it.
	ownsPort bool
	// doomed is true if the next work fails.
	doomed bool
	// healing is true if the current work is a failover.
	healing bool
	work    *task
}

type poolTree struct {
	Pool
	members []*Member
	monitor *HealthMonitor
}

// resources are all resources of the tree, from the top.
func (t *tree) resources() []*OctaviaResource {
	all := []*OctaviaResource{&t.OctaviaResource}
	for _, l := range t.listeners {
		all = append(all, &l.OctaviaResource)
	}
	for _, p := range t.pools {
		all = append(all, p.resources()...)
	}
	return all
}

// resources are all resources of the pool.
func (p *poolTree) resources() []*OctaviaResource {
	all := []*OctaviaResource{&p.OctaviaResource}
	for _, m := range p.members {
		all = append(all, &m.OctaviaResource)
	}
	if p.monitor != nil {
		all = append(all, &p.monitor.OctaviaResource)
	}
	return all
}

// pool is nil for no id.
func (t *tree) pool(id string) *poolTree {
	for _, p := range t.pools {
		if p.ID == id && id != "" {
			return p
		}
	}
	return nil
}

// listenersOf are the listeners with the pool as their default pool.
func (t *tree) listenersOf(p *poolTree) []*Listener {
	var listeners []*Listener
	for _, l := range t.listeners {
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
	open := func(name, path string, handle func(*api.Request) answer) {
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
	add := func(name, method, path string, handle handling) {
		operations = append(operations, api.Operation{
			Service: api.ServiceLoadBalancer, Name: name, Pattern: method + " " + path,
			Handle: func(r *api.Request) answer {
				return handler(handle)(&request{Request: r, octavia: s})
			},
		})
	}
	// gophercloud requests quotas outside lbaas, where V2Controller serves the same resources.
	add("loadbalancer_quota", "GET", root+"/quotas/{project}", getQuota)
	for _, k := range s.kinds() {
		path, one := lbaas+k.path, lbaas+k.path+"/{id}"
		add(k.operation+"_list", "GET", path, inPool(k.list))
		add(k.operation+"_create", "POST", path, withBody(k.name, inPool(k.create)))
		add(k.operation+"_get", "GET", one, k.on(k.get))
		add(k.operation+"_update", "PUT", one, k.on(withBody(k.name, k.update)))
		add(k.operation+"_delete", "DELETE", one, k.on(k.remove))
	}
	one := lbaas + "loadbalancers/{id}"
	add("loadbalancer_failover", "PUT", one+"/failover", s.loadBalancers().on(failOver))
	add("loadbalancer_status", "GET", one+"/status", s.loadBalancers().on(getStatus))
	add("loadbalancer_status", "GET", one+"/statuses", s.loadBalancers().on(getStatus))
	add("loadbalancer_members_update", "PUT", lbaas+"pools/{pool}/members", inPool(updateMembers))
	return operations
}

// versions is the list of API versions, the newest last.
func (s *Service) versions(*api.Request) answer {
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
	return api.OK(object{"versions": versions})
}

// version is the same answer for all versions.
func version(*api.Request) answer { return api.OK("v2") }

// handling executes an operation, or returns why it is refused.
type handling func(*request) (answer, error)

// withBody reads the body of the request before it is handled.
func withBody(name string, handle handling) handling {
	return found(func(r *request) (err error) {
		r.given, err = bodyOf(r, name)
		return err
	}, handle)
}

func found(find func(*request) error, handle handling) handling {
	return func(r *request) (answer, error) {
		if err := find(r); err != nil {
			return answer{}, err
		}
		return handle(r)
	}
}

// bodyOf is the object in a request's body.
func bodyOf(r *request, name string) (map[string]json.RawMessage, error) {
	var body map[string]map[string]json.RawMessage
	if err := r.Decode(&body); err != nil {
		return nil, malformed(err)
	}
	if body[name] == nil {
		return nil, badInput(name, "None", "Mandatory field missing.")
	}
	for other := range body {
		if other != name {
			return nil,
				refuse(http.StatusBadRequest, "Unknown attribute for argument %s_: %s",
					name, other)
		}
	}
	return body[name], nil
}

// admitCaller refuses resources of other projects. The real service answers 403 here, not 404.
func admitCaller(r *request, project string) error {
	if !r.IsAdmin() && r.ProjectID() != project {
		return forbidden()
	}
	return nil
}
