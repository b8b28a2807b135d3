package openstacktest

import "github.com/fxccm/fxccm/provider/openstack/openstacktest/internal/nova"

type (
	// Server is a server of Nova.
	Server = nova.Server
	// Address is an address of a server in a network.
	Address = nova.Address
	// Flavor is a size of servers.
	Flavor = nova.Flavor
)

// WithComputeMicroversion sets the highest microversion of Nova, as 2.minor. Default 96, as in
// 2024.1.
func WithComputeMicroversion(minor int) Option {
	return func(s *settings) { s.compute.Minor = minor }
}

// AddServer adds a server and returns its ID. It replaces a server with the same ID. With
// [WithProvisioning], a server in status BUILD becomes ACTIVE after that time.
func (s *Cloud) AddServer(i Server) (id string) { return s.compute.AddServer(i) }

// Servers are the servers of all projects, oldest first.
func (s *Cloud) Servers() []Server { return s.compute.Servers() }

// UpdateServer changes a server; an unknown ID is an error. The change must not use the Cloud; the
// ID stays.
func (s *Cloud) UpdateServer(id string, change func(*Server)) error {
	return s.compute.UpdateServer(id, change)
}

// SetServerStatus sets the status of a server until the next change; an unknown ID is an error.
// vm_state, power_state and task_state follow it. The statuses are ACTIVE, BUILD, DELETED, ERROR,
// HARD_REBOOT, MIGRATING, PASSWORD, PAUSED, REBOOT, REBUILD, RESCUE, RESIZE, REVERT_RESIZE,
// SHELVED, SHELVED_OFFLOADED, SHUTOFF, SOFT_DELETED, SUSPENDED, UNKNOWN and VERIFY_RESIZE; the API
// shows any other value unchanged.
func (s *Cloud) SetServerStatus(id, status string) error {
	return s.compute.UpdateServer(id, func(i *Server) { i.Status, i.PowerState = status, 0 })
}

// DeleteServer deletes a server at once, with its ports; an unknown ID is an error.
func (s *Cloud) DeleteServer(id string) error { return s.compute.DeleteServer(id) }

// AddZone adds an availability zone without any server.
func (s *Cloud) AddZone(name string) { s.compute.AddZone(name) }

// AddFlavor adds a flavor and returns its ID. It replaces a flavor with the same ID; existing
// servers keep the old one.
func (s *Cloud) AddFlavor(f Flavor) (id string) { return s.compute.AddFlavor(f) }

// DeleteFlavor deletes the flavor with an ID or name; an unknown one is an error. Existing servers
// keep it.
func (s *Cloud) DeleteFlavor(idOrName string) error { return s.compute.DeleteFlavor(idOrName) }
