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

	// trees are in the order in which they were made.
	trees   []*tree
	rules   []*provisioningRule
	flavors []LoadBalancerFlavor
	zones   []string
	// quotas are the limits of each project by resource; a resource that is not there has none.
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
}

// tree is a load balancer with all that is below it. The rows' own lists are empty.
type tree struct {
	LoadBalancer
	listeners []*Listener
	pools     []*poolTree
	// ownsPort: the VIP's port was made for it, and goes with it.
	ownsPort bool
	// doomed: the next work fails.
	doomed bool
	// healing: the work under way is a failover.
	healing bool
	work    *work
}

type poolTree struct {
	Pool
	members []*Member
	monitor *HealthMonitor
}

// resources are all of the tree, from the top.
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

// resources are all of the pool.
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

func (t *tree) listener(id string) *Listener {
	for _, l := range t.listeners {
		if l.ID == id {
			return l
		}
	}
	return nil
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

// listenersOf are the listeners that have the pool.
func (t *tree) listenersOf(p *poolTree) []*Listener {
	var listeners []*Listener
	for _, l := range t.listeners {
		if l.DefaultPoolID == p.ID && p.ID != "" {
			listeners = append(listeners, l)
		}
	}
	return listeners
}

func (p *poolTree) member(id string) *Member {
	for _, m := range p.members {
		if m.ID == id {
			return m
		}
	}
	return nil
}

// addresses are the VIPs.
func (t *tree) addresses() []string {
	all := []string{t.VIPAddress}
	for _, vip := range t.AdditionalVIPs {
		all = append(all, vip.Address)
	}
	return all
}

// parents are the IDs that filter a list of listeners or pools.
func (t *tree) parents() map[string]string {
	return map[string]string{"loadbalancer_id": t.ID, "load_balancer_id": t.ID}
}

// parents are the IDs that filter a list of members or monitors.
func (p *poolTree) parents() map[string]string { return map[string]string{"pool_id": p.ID} }

func (p *poolTree) monitorID() string {
	if p.monitor == nil {
		return ""
	}
	return p.monitor.ID
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
	// The API answers below both (octavia/api/root_controller.py); gophercloud uses v2.0.
	return slices.Concat(all, s.operations(root+"/v2.0"), s.operations(root+"/v2"))
}

func (s *Service) operations(root string) []api.Operation {
	lbaas := root + "/lbaas/"
	var operations []api.Operation
	add := func(name, method, path string, handle func(*request) (answer, error)) {
		operations = append(operations, api.Operation{
			Service: api.ServiceLoadBalancer, Name: name, Pattern: method + " " + path,
			Handle: func(r *api.Request) answer { return handler(handle)(&request{r, s}) },
		})
	}
	add("loadbalancer_list", "GET", lbaas+"loadbalancers", listLoadBalancers)
	add("loadbalancer_create", "POST", lbaas+"loadbalancers", createLoadBalancer)
	add("loadbalancer_get", "GET", lbaas+"loadbalancers/{id}", getLoadBalancer)
	add("loadbalancer_update", "PUT", lbaas+"loadbalancers/{id}", updateLoadBalancer)
	add("loadbalancer_delete", "DELETE", lbaas+"loadbalancers/{id}", deleteLoadBalancer)
	add("loadbalancer_failover", "PUT", lbaas+"loadbalancers/{id}/failover", failOver)
	add("loadbalancer_status", "GET", lbaas+"loadbalancers/{id}/status", getStatus)
	add("loadbalancer_status", "GET", lbaas+"loadbalancers/{id}/statuses", getStatus)

	add("loadbalancer_listener_list", "GET", lbaas+"listeners", listListeners)
	add("loadbalancer_listener_create", "POST", lbaas+"listeners", createListener)
	add("loadbalancer_listener_get", "GET", lbaas+"listeners/{id}", getListener)
	add("loadbalancer_listener_update", "PUT", lbaas+"listeners/{id}", updateListener)
	add("loadbalancer_listener_delete", "DELETE", lbaas+"listeners/{id}", deleteListener)

	add("loadbalancer_pool_list", "GET", lbaas+"pools", listPools)
	add("loadbalancer_pool_create", "POST", lbaas+"pools", createPool)
	add("loadbalancer_pool_get", "GET", lbaas+"pools/{id}", getPool)
	add("loadbalancer_pool_update", "PUT", lbaas+"pools/{id}", updatePool)
	add("loadbalancer_pool_delete", "DELETE", lbaas+"pools/{id}", deletePool)

	add("loadbalancer_member_list", "GET", lbaas+"pools/{id}/members", listMembers)
	add("loadbalancer_member_create", "POST", lbaas+"pools/{id}/members", createMember)
	add("loadbalancer_members_update", "PUT", lbaas+"pools/{id}/members", updateMembers)
	add("loadbalancer_member_get", "GET", lbaas+"pools/{id}/members/{member}", getMember)
	add("loadbalancer_member_update", "PUT", lbaas+"pools/{id}/members/{member}", updateMember)
	add("loadbalancer_member_delete", "DELETE", lbaas+"pools/{id}/members/{member}", deleteMember)

	add("loadbalancer_healthmonitor_list", "GET", lbaas+"healthmonitors", listMonitors)
	add("loadbalancer_healthmonitor_create", "POST", lbaas+"healthmonitors", createMonitor)
	add("loadbalancer_healthmonitor_get", "GET", lbaas+"healthmonitors/{id}", getMonitor)
	add("loadbalancer_healthmonitor_update", "PUT", lbaas+"healthmonitors/{id}", updateMonitor)
	add("loadbalancer_healthmonitor_delete", "DELETE", lbaas+"healthmonitors/{id}", deleteMonitor)

	add("loadbalancer_provider_list", "GET", lbaas+"providers", listProviders)
	add("loadbalancer_flavor_list", "GET", lbaas+"flavors", listLoadBalancerFlavors)
	add("loadbalancer_flavor_get", "GET", lbaas+"flavors/{id}", getLoadBalancerFlavor)
	add("loadbalancer_availability_zone_list", "GET", lbaas+"availabilityzones",
		listLoadBalancerZones)
	add("loadbalancer_availability_zone_get", "GET", lbaas+"availabilityzones/{name}",
		getLoadBalancerZone)
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

// version says nothing of its version.
func version(*api.Request) answer { return api.OK("v2") }

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

// admitCaller refuses what is other projects'. The real service answers 403 here, not 404.
func admitCaller(r *request, project string) error {
	if !r.IsAdmin() && r.ProjectID() != project {
		return forbidden()
	}
	return nil
}

// findTree finds a load balancer that the caller may use.
func findTree(r *request, id string) (*tree, error) {
	for _, t := range r.octavia.trees {
		if t.ID == id {
			return t, admitCaller(r, t.ProjectID)
		}
	}
	return nil, notFound("Load Balancer", id)
}

func findListener(r *request, id string) (*tree, *Listener, error) {
	for _, t := range r.octavia.trees {
		if l := t.listener(id); l != nil {
			return t, l, admitCaller(r, t.ProjectID)
		}
	}
	return nil, nil, notFound("Listener", id)
}

func findPool(r *request, id string) (*tree, *poolTree, error) {
	for _, t := range r.octavia.trees {
		if p := t.pool(id); p != nil {
			return t, p, admitCaller(r, t.ProjectID)
		}
	}
	return nil, nil, notFound("Pool", id)
}

func findMonitor(r *request, id string) (*tree, *poolTree, error) {
	for _, t := range r.octavia.trees {
		for _, p := range t.pools {
			if p.monitor != nil && p.monitor.ID == id {
				return t, p, admitCaller(r, t.ProjectID)
			}
		}
	}
	return nil, nil, notFound("Health Monitor", id)
}

// visibleTrees are those of the caller's project; all of them for an administrator.
func visibleTrees(r *request) []*tree {
	return slices.DeleteFunc(slices.Clone(r.octavia.trees), func(t *tree) bool {
		return admitCaller(r, t.ProjectID) != nil
	})
}
