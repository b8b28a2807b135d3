package nova

import (
	"net/http"
	"slices"

	"github.com/fxccm/fxccm/provider/openstack/openstacktest/internal/api"
	"github.com/fxccm/fxccm/provider/openstack/openstacktest/internal/neutron"
)

// interfaceView is a port in Nova's form for an attached interface.
func (r *request) interfaceView(p *neutron.Port) object {
	return object{
		"port_id": p.ID, "net_id": p.NetworkID, "mac_addr": p.MACAddress, "port_state": p.Status,
		"fixed_ips": api.NonNil(p.FixedIPs),
	}
}

// onInterface serves requests about one port of a server.
func onInterface(
	handle func(*request, *instance, *neutron.Port) (answer, error),
) func(*request, *instance) (answer, error) {
	return func(r *request, i *instance) (answer, error) {
		for _, port := range r.nova.network.PortsOf(i.ID) {
			if port.ID == r.PathValue("port") {
				return handle(r, i, port)
			}
		}
		return answer{}, refuse(http.StatusNotFound,
			"Port id "+r.PathValue("port")+" could not be found.")
	}
}

// attachInterface attaches an existing port to a server, or a new one in a network.
func attachInterface(r *request, i *instance) (answer, error) {
	var body struct {
		Attachment struct {
			Port     string `json:"port_id"`
			Network  string `json:"net_id"`
			FixedIPs []struct {
				Address string `json:"ip_address"`
			} `json:"fixed_ips"`
		} `json:"interfaceAttachment"`
	}
	if err := r.Decode(&body); err != nil {
		return answer{}, err
	}
	wanted := requestedNetwork{UUID: body.Attachment.Network, Port: body.Attachment.Port}
	if len(body.Attachment.FixedIPs) > 0 {
		wanted.FixedIP = body.Attachment.FixedIPs[0].Address
	}
	if wanted.UUID == "" && wanted.Port == "" {
		networks, err := r.requestedNetworks(nil)
		if err != nil || len(networks) == 0 {
			return answer{}, refuse(http.StatusBadRequest,
				"Multiple possible networks found, use a Network ID to be more specific.")
		}
		wanted = networks[0]
	}
	if err := r.plugInto(i, wanted); err != nil {
		return answer{}, err
	}
	port, err := r.nova.network.Ports.Find(i.plugged[len(i.plugged)-1])
	if err != nil {
		return answer{}, refuse(http.StatusNotFound, err.Error())
	}
	return api.OK(object{"interfaceAttachment": r.interfaceView(port)}), nil
}

// detachInterface deletes the port, unless a client attached an existing one.
func detachInterface(r *request, i *instance, p *neutron.Port) (answer, error) {
	r.nova.release(i, p)
	i.plugged = slices.DeleteFunc(i.plugged, func(id string) bool { return id == p.ID })
	i.lent = slices.DeleteFunc(i.lent, func(id string) bool { return id == p.ID })
	return answer{Status: http.StatusAccepted}, nil
}
