package nova

import (
	"cmp"
	"encoding/json"
	"net/http"
	"slices"

	"github.com/fxccm/fxccm/provider/openstack/openstacktest/internal/neutron"
)

// portsInOrder are a server's ports in the order in which they were attached, as Nova keeps them.
// Ports that only name the server as their device come last.
func (s *Service) portsInOrder(i *instance) []*neutron.Port {
	place := func(p *neutron.Port) int {
		if at := slices.Index(i.plugged, p.ID); at >= 0 {
			return at
		}
		return len(i.plugged)
	}
	ports := s.network.PortsOf(i.ID)
	slices.SortStableFunc(ports,
		func(a, b *neutron.Port) int { return cmp.Compare(place(a), place(b)) })
	return ports
}

// portAddresses are a server's addresses in Neutron: those of its ports, each followed by its
// floating IPs.
func (s *Service) portAddresses(i *instance) (all []Address) {
	n := s.network
	for _, port := range s.portsInOrder(i) {
		name := port.NetworkID
		if in, err := n.Networks.Find(port.NetworkID); err == nil {
			name = in.Name
		}
		floating := n.FloatingIPsOf(port.ID)
		for _, fixed := range port.FixedIPs {
			all = append(all, Address{Network: name, Address: fixed.Address, MAC: port.MACAddress})
			for _, ip := range floating {
				if ip.FixedAddress == fixed.Address {
					all = append(all,
						Address{
							Network: name, Address: ip.Address, MAC: port.MACAddress,
							Floating: true,
						})
				}
			}
		}
	}
	return all
}

// requestedNetwork requests a port of a new server: in a network, or an existing port.
type requestedNetwork struct {
	UUID    string `json:"uuid"`
	FixedIP string `json:"fixed_ip"`
	Port    string `json:"port"`
}

// plug attaches the ports of a new server.
func (r *request) plug(i *instance, raw json.RawMessage) error {
	networks, err := r.requestedNetworks(raw)
	for _, wanted := range networks {
		if err := r.plugInto(i, wanted); err != nil {
			return err
		}
	}
	return err
}

func (r *request) plugInto(i *instance, wanted requestedNetwork) error {
	if wanted.Port != "" {
		return r.lendPort(i, wanted.Port)
	}
	return r.makePort(i, wanted)
}

// requestedNetworks returns, for "auto" or no value, the project's only network, if any.
func (r *request) requestedNetworks(
	raw json.RawMessage,
) (networks []requestedNetwork, err error) {
	switch string(raw) {
	case `"none"`:
		return nil, nil
	case "", "null", `"auto"`:
		for _, n := range r.nova.network.Networks.All() {
			if n.ProjectID == r.ProjectID() && !n.External {
				networks = append(networks, requestedNetwork{UUID: n.ID})
			}
		}
		if len(networks) > 1 {
			return nil,
				refuse(http.StatusConflict,
					"Multiple possible networks found, use a Network ID to be more specific.")
		}
		return networks, nil
	}
	if err := json.Unmarshal(raw, &networks); err != nil {
		return nil,
			refuse(http.StatusBadRequest,
				"Invalid input for field/attribute networks. "+err.Error())
	}
	return networks, nil
}

// makePort creates a port that is deleted with the server.
func (r *request) makePort(i *instance, wanted requestedNetwork) error {
	n := r.nova.network
	if _, err := n.Networks.FindVisible(r.Caller, wanted.UUID); err != nil {
		return refuse(http.StatusBadRequest, "Network "+wanted.UUID+" could not be found.")
	}
	port := neutron.Port{
		ProjectID: i.ProjectID, NetworkID: wanted.UUID, DeviceID: i.ID,
		DeviceOwner: "compute:" + i.AvailabilityZone,
	}
	if wanted.FixedIP != "" {
		port.FixedIPs = []neutron.FixedIP{{Address: wanted.FixedIP}}
	}
	made, err := n.CreatePort(port)
	if err != nil {
		return refuse(http.StatusBadRequest, err.Error())
	}
	i.plugged = append(i.plugged, made.ID)
	return nil
}

// lendPort attaches a port that outlives the server.
func (r *request) lendPort(i *instance, id string) error {
	port, err := r.nova.network.Ports.FindVisible(r.Caller, id)
	if err != nil {
		return refuse(http.StatusBadRequest, "Port id "+id+" could not be found.")
	}
	if port.DeviceID != "" {
		return refuse(http.StatusConflict, "Port "+id+" is still in use.")
	}
	i.plugged, i.lent = append(i.plugged, id), append(i.lent, id)
	if err := r.nova.network.BindPort(port, i.ID, "compute:"+i.AvailabilityZone); err != nil {
		return refuse(http.StatusBadRequest, err.Error())
	}
	return nil
}

// unplug deletes the ports of a removed server, except those that existed before.
func (s *Service) unplug(i *instance) {
	for _, port := range s.network.PortsOf(i.ID) {
		s.release(i, port)
	}
}

func (s *Service) release(i *instance, port *neutron.Port) {
	if slices.Contains(i.lent, port.ID) {
		_ = s.network.BindPort(port, "", "")
	} else {
		_ = s.network.RemovePort(port.ID)
	}
}
