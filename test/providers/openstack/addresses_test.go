package openstack_test

import (
	"cmp"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/fxccm/fxccm/provider/openstack/cloudconf"
	"github.com/fxccm/fxccm/test/internal/project"
)

// nodeAddresses are what the node is told: "InternalIP 10.0.0.1".
func nodeAddresses(
	t *testing.T, p *project.Project, cfg cloudconf.Config, s project.Server,
) (addresses []string, err error) {
	t.Helper()
	meta, err := instancesOf(t, p.Open(t, cfg)).InstanceMetadata(t.Context(),
		nodeWithID(s.Name, s.ProviderID()))
	if err != nil {
		return nil, err
	}
	for _, a := range meta.NodeAddresses {
		addresses = append(addresses, fmt.Sprintf("%s %s", a.Type, a.Address))
	}
	return addresses, nil
}

// wantAddresses waits for them: Nova and Neutron tell each other of changes, which takes a moment.
func wantAddresses(
	t *testing.T, p *project.Project, cfg cloudconf.Config, s project.Server, what string,
	want ...string,
) {
	t.Helper()
	p.Wait(what, func() error {
		got, err := nodeAddresses(t, p, cfg, s)
		if err != nil || !slices.Equal(got, want) {
			return fmt.Errorf("the addresses are %q, %w; want %q", got, err, want)
		}
		return nil
	})
}

// portAddress is an address of a server's in Neutron.
type portAddress struct{ network, address string }

// portAddressesOf are those of the server's ports, the oldest port first.
func portAddressesOf(p *project.Project, s project.Server) (all []portAddress) {
	ports := p.User().List(project.Network, "/ports?device_id="+s.ID, "ports")
	slices.SortFunc(ports, func(a, b project.Object) int {
		return cmp.Or(
			cmp.Compare(project.Text(a, "created_at"), project.Text(b, "created_at")),
			cmp.Compare(project.Text(a, "network_id"), project.Text(b, "network_id")),
			cmp.Compare(project.ID(a), project.ID(b)))
	})
	for _, port := range ports {
		for _, ip := range port["fixed_ips"].([]any) {
			all = append(all,
				portAddress{
					project.Text(port, "network_id"),
					project.Text(ip.(project.Object), "ip_address"),
				})
		}
	}
	return all
}

// as puts the type in front of those that are chosen.
func as(kind string, all []portAddress, chosen func(portAddress) bool) (texts []string) {
	for _, a := range all {
		if chosen == nil || chosen(a) {
			texts = append(texts, kind+" "+a.address)
		}
	}
	return texts
}

// A server in two networks, with IPv6, a floating IP, addresses of its owner's,
// and a hostname.
func TestAddresses_TwoNetworksAndAFloatingIP_AreTheNodes(t *testing.T) {
	t.Parallel()
	p := project.New(t, project.WithIPv6())
	aux := p.AddNetwork("aux")
	p.AddSubnet(aux, "10.9.0.0/24")
	s := p.AddServer("node", project.Object{
		"networks":   []project.Object{{"uuid": p.Network}, {"uuid": aux}},
		"metadata":   project.Object{"hostname": "node.example"},
		"accessIPv4": "203.0.113.7", "accessIPv6": "2001:db8::7",
	})
	mine := portAddressesOf(p, s)
	at := slices.IndexFunc(mine, func(a portAddress) bool {
		return a.network == p.Network && strings.HasPrefix(a.address, "10.")
	})
	var port string
	for _, one := range p.User().List(project.Network,
		"/ports?device_id="+s.ID+"&network_id="+p.Network, "ports") {
		port = project.ID(one)
	}
	made := p.User().Create(project.Network, "/floatingips", "floatingip", project.Object{
		"floating_network_id": p.Public, "port_id": port, "fixed_ip_address": mine[at].address,
	})
	floating := "ExternalIP " + project.Text(made, "floating_ip_address")

	const access4, access6, hostname = "ExternalIP 203.0.113.7", "ExternalIP 2001:db8::7",
		"Hostname node.example"
	four := func(a portAddress) bool { return !strings.Contains(a.address, ":") }
	inAux := func(a portAddress) bool { return a.network == aux }
	notAux := func(a portAddress) bool { return a.network != aux }
	for name, test := range map[string]struct {
		change func(*cloudconf.Networking)
		want   []string
	}{
		"as it is": {func(*cloudconf.Networking) {}, slices.Concat(as("InternalIP", mine, nil), []string{access4, access6, hostname, floating})},
		"without IPv6": {
			func(n *cloudconf.Networking) { n.IPv6SupportDisabled = true },
			slices.Concat(as("InternalIP", mine, four), []string{access4, hostname, floating}),
		},
		"an internal network": {
			func(n *cloudconf.Networking) { n.InternalNetworkNames = []string{"aux"} },
			slices.Concat(as("InternalIP", mine, inAux),
				[]string{access4, access6, hostname, floating}),
		},
		"both internal": {
			func(n *cloudconf.Networking) {
				n.InternalNetworkNames = []string{"aux", p.NetworkName}
			},
			slices.Concat(as("InternalIP", mine, inAux), as("InternalIP", mine, notAux),
				[]string{access4, access6, hostname, floating}),
		},
		"a public network": {
			func(n *cloudconf.Networking) { n.PublicNetworkNames = []string{"aux"} },
			slices.Concat(as("InternalIP", mine, notAux), []string{access4, access6, hostname},
				as("ExternalIP", mine, inAux), []string{floating}),
		},
		"sorted": {
			func(n *cloudconf.Networking) {
				n.AddressSortOrder = []string{"203.0.113.0/24", "10.9.0.0/24"}
			},
			slices.Concat([]string{access4}, as("InternalIP", mine, inAux),
				as("InternalIP", mine, notAux), []string{access6, hostname, floating}),
		},
	} {
		cfg := fresh(p)
		test.change(&cfg.Networking)
		wantAddresses(t, p, cfg, s, name, test.want...)
	}

	// A port that comes later is found, and so is one more address of a port.
	attached := p.User().Must(http.MethodPost, project.Compute, "/servers/"+s.ID+"/os-interface",
		project.Object{"interfaceAttachment": project.Object{
			"net_id":    aux,
			"fixed_ips": []project.Object{{"ip_address": "10.9.0.77"}},
		}})
	late := project.Text(attached.Inner("interfaceAttachment"), "port_id")
	more := portAddressesOf(p, s)
	if !slices.Contains(more, portAddress{aux, "10.9.0.77"}) {
		t.Errorf("the ports have %v", more)
	}
	wantAddresses(t, p, fresh(p), s, "with one port more",
		slices.Concat(as("InternalIP", more, nil),
			[]string{access4, access6, hostname, floating})...)
	p.User().Must(http.MethodDelete, project.Compute, "/servers/"+s.ID+"/os-interface/"+late, nil)
	p.User().Delete(project.Network, "/floatingips/"+project.ID(made))
	wantAddresses(t, p, fresh(p), s, "without it, and without the floating IP",
		slices.Concat(as("InternalIP", mine, nil), []string{access4, access6, hostname})...)
}

// They are the server's, though Nova knows nothing of them.
// Whether a subport is ACTIVE depends on the network's driver, and does not matter.
func TestAddresses_OfATrunksSubports(t *testing.T) {
	t.Parallel()
	p := project.New(t)
	user := p.User()
	vlan := p.AddNetwork("vlan")
	subnet := p.AddSubnet(vlan, "10.8.0.0/24")
	port := func(network, subnet, address string) string {
		return project.ID(user.Create(project.Network, "/ports", "port", project.Object{
			"network_id": network,
			"fixed_ips":  []project.Object{{"subnet_id": subnet, "ip_address": address}},
		}))
	}
	sub := func(port string, id int) project.Object {
		return project.Object{"port_id": port, "segmentation_type": "vlan", "segmentation_id": id}
	}
	trunked := func(name, address string, subports ...project.Object) project.Server {
		parent := port(p.Network, p.Subnets[4], address)
		user.Create(project.Network, "/trunks", "trunk",
			project.Object{"port_id": parent, "sub_ports": subports})
		return p.AddServer(name, project.Object{"networks": []project.Object{{"port": parent}}})
	}
	s := trunked("one", "10.0.100.1", sub(port(vlan, subnet, "10.8.0.11"), 7))

	cfg := fresh(p)
	wantAddresses(t, p, cfg, s, "a subport", "InternalIP 10.0.100.1", "InternalIP 10.8.0.11")
	mark := p.Wire.Mark()
	if got, err := nodeAddresses(t, p, cfg, s); err != nil || len(got) != 2 {
		t.Errorf("%q, %v", got, err)
	}
	want := []string{
		loggedIn, "GET servers/{id} 200", "GET v2.0/ports 200", "GET v2.0/ports 200",
		"GET v2.0/networks 200",
	}
	if requests := traffic(p.Wire.Since(mark, nil)); !slices.Equal(requests, want) {
		t.Errorf("the requests are %q, want %q", requests, want)
	}

	s = trunked("two", "10.0.100.2", sub(port(vlan, subnet, "10.8.0.12"), 7),
		sub(port(vlan, subnet, "10.8.0.13"), 8))
	wantAddresses(t, p, cfg, s, "two subports", "InternalIP 10.0.100.2", "InternalIP 10.8.0.12",
		"InternalIP 10.8.0.13")
	cfg.Networking.PublicNetworkNames = []string{"vlan"}
	wantAddresses(t, p, cfg, s, "subports in a public network", "InternalIP 10.0.100.2",
		"ExternalIP 10.8.0.12", "ExternalIP 10.8.0.13")
	cfg.Networking.PublicNetworkNames, cfg.Networking.InternalNetworkNames = nil, []string{"vlan"}
	wantAddresses(t, p, cfg, s, "subports in the internal network", "InternalIP 10.8.0.12",
		"InternalIP 10.8.0.13")
}
