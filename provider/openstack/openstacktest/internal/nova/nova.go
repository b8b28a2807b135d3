// Package nova is the simulated Nova.
package nova

import (
	"cmp"
	"fmt"
	"maps"
	"net/http"
	"net/netip"
	"slices"
	"strings"
	"time"

	"github.com/fxccm/fxccm/provider/openstack/openstacktest/internal/api"
	"github.com/fxccm/fxccm/provider/openstack/openstacktest/internal/neutron"
	"github.com/fxccm/fxccm/provider/openstack/openstacktest/internal/resource"
)

const root = "/compute"

// Defaults of a new server.
const (
	DefaultZone   = "nova"
	DefaultFlavor = "m1.small"
)

// Options configure Nova; package openstacktest documents them.
type Options struct {
	// Minor is the highest microversion, 2.Minor.
	Minor        int
	Provisioning time.Duration
}

// Service is Nova.
type Service struct {
	*api.State
	options Options
	network *neutron.Service
	// ownerOf returns the ID of the user of a project.
	ownerOf func(projectID string) string

	servers map[string]*instance
	// deleted servers are kept, as Nova keeps them until its database is purged.
	deleted []*instance
	// made counts the servers, and gives them an order.
	made    uint64
	flavors []*Flavor
	zones   []string
}

// New returns a Nova with [DefaultFlavor] and [DefaultZone].
func New(
	state *api.State, network *neutron.Service, ownerOf func(string) string, options Options,
) *Service {
	return &Service{
		State: state, options: options, network: network, ownerOf: ownerOf,
		servers: map[string]*instance{},
		zones:   []string{DefaultZone},
		flavors: []*Flavor{{ID: "1", Name: DefaultFlavor, VCPUs: 1, RAM: 2048, Disk: 20}},
	}
}

type (
	answer = api.Answer
	object = api.Object
)

// request is a request to Nova.
type request struct {
	*api.Request
	nova *Service
}

// A Server is a server of Nova.
type Server struct {
	// ID is generated if it is empty.
	ID   string `json:"id"`
	Name string `json:"name"`
	// ProjectID is the owner. Default: the default project.
	ProjectID string `json:"projectID"`
	// Status is the status in the API, such as ACTIVE (the default) or SHUTOFF; see
	// [Cloud.SetServerStatus].
	Status string `json:"status"`
	// PowerState is Nova's number: 1 running, 3 paused, 4 shut down, 6 crashed, 7 suspended. The
	// default follows from the status.
	PowerState int `json:"powerState,omitempty"`
	// AvailabilityZone is "nova" by default.
	AvailabilityZone string `json:"availabilityZone"`
	// Flavor is the ID or the name of a flavor. Default: m1.small. Of a flavor that does not exist
	// (any more), only the name is known.
	Flavor   string            `json:"flavor"`
	Metadata map[string]string `json:"metadata,omitempty"`
	Tags     []string          `json:"tags,omitempty"`
	// AccessIPv4 and AccessIPv6 are set by the owner.
	AccessIPv4 string `json:"accessIPv4,omitempty"`
	AccessIPv6 string `json:"accessIPv6,omitempty"`
	// Addresses are shown in addition to those of the server's ports and their floating IPs.
	Addresses []Address `json:"addresses,omitempty"`
	// Locked allows actions only for administrators.
	Locked bool `json:"locked,omitempty"`
	// Created and Updated are times of the cloud's clock.
	Created time.Time `json:"created"`
	Updated time.Time `json:"updated"`
}

// An Address is an address of a server in a network.
type Address struct {
	Network  string `json:"network"`
	Address  string `json:"address"`
	Floating bool   `json:"floating,omitempty"`
	MAC      string `json:"mac,omitempty"`
}

// instance is a server in the store.
type instance struct {
	Server
	number uint64
	// flavor is the flavor at the creation of the server. It may have been deleted since.
	flavor Flavor
	// due is when the server becomes active; zero: never.
	due time.Time
	// plugged are the IDs of its ports, in the order in which they were attached. lent are those
	// that existed before, and that outlive the server.
	plugged, lent []string
	// faultless is true if an administrator has set the status ERROR, without a fault.
	faultless bool
}

// Operations are the operations of Nova.
func (s *Service) Operations() []api.Operation {
	operation := func(name, pattern string, handle func(*request) (answer, error)) api.Operation {
		method, path, _ := strings.Cut(pattern, " ")
		return api.Operation{
			Service: api.ServiceCompute, Name: name, Pattern: method + " " + root + path,
			Open:   strings.HasPrefix(name, "version_"),
			Handle: func(r *api.Request) (answer, error) { return handle(&request{r, s}) },
		}
	}
	const servers, ports = "/v2.1/servers", "/v2.1/servers/{id}/os-interface"
	return []api.Operation{
		operation("version_list", "GET ", listVersions),
		operation("version_list", "GET /{$}", listVersions),
		operation("version_get", "GET /v2.1", getVersion),
		operation("version_get", "GET /v2.1/{$}", getVersion),
		operation("server_list", "GET "+servers, listServers),
		operation("server_list", "GET "+servers+"/detail", listServersInDetail),
		operation("server_create", "POST "+servers, createServer),
		operation("server_get", "GET "+servers+"/{id}", onServer(getServer)),
		operation("server_update", "PUT "+servers+"/{id}", onServer(updateServer)),
		operation("server_delete", "DELETE "+servers+"/{id}", onServer(deleteServer)),
		operation("server_action", "POST "+servers+"/{id}/action", onServer(actOnServer)),
		operation("server_os_interface_create", "POST "+ports, onServer(attachInterface)),
		operation("server_os_interface_delete", "DELETE "+ports+"/{port}",
			onServer(onInterface(detachInterface))),
		operation("flavor_get", "GET /v2.1/flavors/{id}", getFlavor),
		operation("flavor_create", "POST /v2.1/flavors", createFlavor),
		operation("flavor_delete", "DELETE /v2.1/flavors/{id}", deleteFlavor),
		operation("availability_zone_list", "GET /v2.1/os-availability-zone", listZones),
	}
}

// Finish finishes the work that is due. The caller holds the lock.
func (s *Service) Finish(now time.Time) {
	if s.options.Provisioning <= 0 {
		return
	}
	for _, i := range s.servers {
		if !i.due.IsZero() && !now.Before(i.due) {
			i.setStatus("ACTIVE", i.due)
		}
	}
}

// AddServer implements Cloud.AddServer.
func (s *Service) AddServer(i Server) (id string) {
	defer s.Enter()()
	return s.addServer(i).ID
}

// addServer adds a server. The caller holds the lock.
func (s *Service) addServer(given Server) *instance {
	now := s.Clock.Now()
	s.made++
	i := &instance{Server: resource.Clone(given), number: s.made}
	if i.ID == "" {
		i.ID = s.NewID()
	}
	i.ProjectID = cmp.Or(i.ProjectID, s.DefaultProject)
	i.AvailabilityZone = cmp.Or(i.AvailabilityZone, DefaultZone)
	if i.Created.IsZero() {
		i.Created = now
	}
	if i.Updated.IsZero() {
		i.Updated = i.Created
	}
	i.Status = cmp.Or(i.Status, "ACTIVE")
	if i.Status == "BUILD" && s.options.Provisioning > 0 {
		i.due = now.Add(s.options.Provisioning)
	}
	i.setFlavor(s, cmp.Or(i.Flavor, DefaultFlavor))
	s.addZone(i.AvailabilityZone)
	s.servers[i.ID] = i
	return i
}

// setFlavor stores the current values of the flavor.
func (i *instance) setFlavor(s *Service, idOrName string) {
	i.flavor = Flavor{ID: idOrName, Name: idOrName}
	if f := s.findFlavor(idOrName); f != nil {
		i.flavor = *f
	}
	i.Flavor = i.flavor.Name
}

// Servers are all servers of all projects, oldest first.
func (s *Service) Servers() []Server {
	defer s.Enter()()
	var all []Server
	for _, i := range s.serversByAge() {
		all = append(all, resource.Clone(i.Server))
	}
	return all
}

func (s *Service) serversByAge() []*instance {
	return slices.SortedFunc(maps.Values(s.servers),
		func(a, b *instance) int { return cmp.Compare(a.number, b.number) })
}

// UpdateServer implements Cloud.UpdateServer.
func (s *Service) UpdateServer(id string, change func(*Server)) error {
	defer s.Enter()()
	i := s.servers[id]
	if i == nil {
		return noServer(id)
	}
	before, changed := i.Server, resource.Clone(i.Server)
	change(&changed)
	changed = resource.Clone(changed)
	changed.ID, changed.Updated = id, s.Clock.Now()
	i.Server = changed
	s.addZone(changed.AvailabilityZone)
	if changed.Status != before.Status {
		i.due, i.faultless = time.Time{}, false
	}
	if changed.Flavor != before.Flavor {
		i.setFlavor(s, changed.Flavor)
	}
	return nil
}

// DeleteServer deletes a server at once, with its ports; an unknown ID is an error.
func (s *Service) DeleteServer(id string) error {
	defer s.Enter()()
	i := s.servers[id]
	if i == nil {
		return noServer(id)
	}
	s.removeServer(i)
	return nil
}

func noServer(id string) error { return fmt.Errorf("there is no server %s", id) }

// removeServer removes a server. The caller holds the lock.
func (s *Service) removeServer(i *instance) {
	delete(s.servers, i.ID)
	s.unplug(i)
	i.Addresses = nil
	i.setStatus("DELETED", s.Clock.Now())
	s.deleted = append(s.deleted, i)
}

// setStatus changes the status like Nova.
func (i *instance) setStatus(status string, at time.Time) {
	i.Status, i.PowerState, i.due, i.Updated, i.faultless = status, 0, time.Time{}, at, false
}

// AddZone adds an availability zone without any server.
func (s *Service) AddZone(name string) {
	defer s.Enter()()
	s.addZone(name)
}

func (s *Service) addZone(name string) {
	if name != "" && !slices.Contains(s.zones, name) {
		s.zones = append(s.zones, name)
	}
}

func listZones(r *request) (answer, error) {
	views := []object{}
	for _, zone := range slices.Sorted(slices.Values(r.nova.zones)) {
		views = append(views,
			object{"zoneName": zone, "zoneState": object{"available": true}, "hosts": nil})
	}
	return api.OK(object{"availabilityZoneInfo": views}), nil
}

// onServer serves requests about one server. A server of another project is not found.
func onServer(
	handle func(*request, *instance) (answer, error),
) func(*request) (answer, error) {
	return func(r *request) (answer, error) {
		id := r.PathValue("id")
		i := r.nova.find(id)
		if i == nil || !r.sees(i) {
			return answer{}, refuse(http.StatusNotFound,
				"Instance "+id+" could not be found.")
		}
		return handle(r, i)
	}
}

// find ignores case, like MySQL's usual collation.
func (s *Service) find(id string) *instance {
	if i := s.servers[id]; i != nil {
		return i
	}
	return s.servers[strings.ToLower(id)]
}

func (r *request) sees(i *instance) bool { return i.ProjectID == r.ProjectID() || r.IsAdmin() }

// version is 4 or 6.
func (a Address) version() int {
	if ip, err := netip.ParseAddr(a.Address); err == nil && ip.Is4() {
		return 4
	}
	return 6
}
