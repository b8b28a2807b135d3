package neutron

import "github.com/fxccm/fxccm/provider/openstack/openstacktest/internal/api"

// The methods in this file are for the other services. Their callers hold the lock.

// Network returns a network of any project.
func (n *Service) Network(id string) (*Network, error) { return n.Networks.find(id) }

// Subnet returns a subnet of any project.
func (n *Service) Subnet(id string) (*Subnet, error) { return n.Subnets.find(id) }

// Port returns a port of any project.
func (n *Service) Port(id string) (*Port, error) { return n.Ports.find(id) }

// FindNetwork returns a network that the caller sees.
func (n *Service) FindNetwork(c api.Caller, id string) (*Network, error) {
	return n.Networks.findFor(callerFrom(c), id)
}

// FindSubnet returns a subnet that the caller sees.
func (n *Service) FindSubnet(c api.Caller, id string) (*Subnet, error) {
	return n.Subnets.findFor(callerFrom(c), id)
}

// FindPort returns a port that the caller sees.
func (n *Service) FindPort(c api.Caller, id string) (*Port, error) {
	return n.Ports.findFor(callerFrom(c), id)
}

// AllNetworks returns the networks of all projects in the order of their IDs.
func (n *Service) AllNetworks() []*Network { return n.Networks.all() }

// AllSubnets returns the subnets of all projects in the order of their IDs.
func (n *Service) AllSubnets() []*Subnet { return n.Subnets.all() }

// BindPort sets the device of a port and its owner.
func (n *Service) BindPort(port *Port, device, owner string) error {
	return n.Ports.change(neutronItself(), port, func(p *Port) error {
		p.DeviceID, p.DeviceOwner = device, owner
		return nil
	})
}
